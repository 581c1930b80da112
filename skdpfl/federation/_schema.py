"""Public facts of remote data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schema:
    """Public facts of the silos' data, known before a fit.

    Parameters
    ----------
    silo_sizes : mapping
        The name of each silo and its number of records, in the order of the federation. With
        unit="silo" the numbers are not used.
    n_features : int
        The number of features.
    feature_names : sequence of str, optional
        The names of the features.
    dtype : {"float64", "float32"}, default="float64"
        The dtype that silos compute in.

    See Also
    --------
    skdpfl.federation.Federation : The silos.
    """

    silo_sizes: Mapping[object, int]
    n_features: int
    feature_names: Sequence[str] | None = None
    dtype: Literal["float64", "float32"] = "float64"
