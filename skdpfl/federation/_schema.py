"""What is public of data that are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schema:
    """What everybody knows of the silos' data before a fit.

    Parameters
    ----------
    silo_sizes : mapping
        Each silo's name and its number of records, in the order of the federation. Under
        unit="silo" the numbers are not used: any will do.
    n_features : int
        The number of features.
    feature_names : sequence of str, optional
        The names of the features.
    dtype : {"float64", "float32"}, default="float64"
        What silos compute in.

    See Also
    --------
    skdpfl.federation.Federation : The silos.
    """

    silo_sizes: Mapping[object, int]
    n_features: int
    feature_names: Sequence[str] | None = None
    dtype: Literal["float64", "float32"] = "float64"
