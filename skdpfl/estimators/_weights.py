"""Records' weights, and the classes' public ones: factors of a record's loss before it is clipped.

**Formal guarantee.** A record's weight is part of the record, as its features and its target are.
Its gradient is multiplied by it, then cut to the clip norm C. So replacing a record, its weight
included, moves a clipped sum by at most 2 C, whatever the weights are, as without them (the sums:
:meth:`skdpfl.models.Model.clipped_gradient_sum`). Nothing else reads weights: sizes, delta, scales,
cohorts, divisors, steps and clip norms are the same for all weights, so that weights cost nothing.
The weights of the classes are the same for all data.

The second premise is the caller's: a weight that depends on *other* records (shares of a class
counted from the data, what boosting finds) is not part of one record, and nothing pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from skdpfl._arguments import check_not_negative
from skdpfl.silos import check_index


def read_sample_weight(weights: Any, n: int, X: Any, dtype: np.dtype) -> np.ndarray | None:
    """Return each record's weight (n,), None where there are none; raise if they cannot be."""
    if weights is None:
        return None
    check_index(weights, X, "sample_weight")
    if isinstance(weights, str):
        raise ValueError(
            f"sample_weight must be one number for each of the {n} rows of X; got {weights!r}."
        )
    both = [np.float64, np.float32]
    weights = check_array(weights, ensure_2d=False, dtype=both, input_name="sample_weight")
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number for each of the {n} rows of X; got shape "
            f"{weights.shape}."
        )
    if weights.min() < 0:
        raise ValueError(f"sample_weight must not be negative; got {weights.min():g}.")
    if not weights.any():
        raise ValueError("sample_weight must not be zero everywhere: nothing would be learnt.")
    # no error where a finite weight does not fit single precision: it would tell of a record
    return np.minimum(weights, np.finfo(dtype).max).astype(dtype, copy=False)


def check_class_weight(weights: Any) -> None:
    """Raise for weights of classes that are not a public mapping."""
    if weights is None:
        return
    if isinstance(weights, str) and weights == "balanced":
        raise ValueError(
            'class_weight="balanced" counts labels, which would be learnt from the data and not '
            "paid for. Give a mapping from label to weight by what is publicly known of how common "
            "labels are, or move the decision threshold, for instance with "
            "sklearn.model_selection.FixedThresholdClassifier."
        )
    if not isinstance(weights, (Mapping, pd.Series)):
        raise ValueError(
            f"class_weight must be None or a mapping from label to weight; got {weights!r}."
        )
    for label, value in weights.items():
        check_not_negative(f"class_weight[{label!r}]", value)
    if len(weights) and not any(value > 0 for _, value in weights.items()):
        raise ValueError(f"class_weight must have a positive entry; got {weights!r}.")


def weights_of_classes(weights: Any, classes: np.ndarray) -> tuple[float, ...] | None:
    """Return the weight of each class by its code; classes without an entry count 1.

    An entry of no class is an error where a class has none, as it may be mistyped.
    """
    if weights is None:
        return None
    entries, labels = dict(weights.items()), classes.tolist()
    strange = [label for label in entries if label not in labels]
    missing = [label for label in labels if label not in entries]
    if strange and missing:
        raise ValueError(
            f"class_weight has entries for {strange[:5]!r}, which are no labels, and none for "
            f"{missing[:5]!r}."
        )
    return tuple(float(entries.get(label, 1.0)) for label in labels)
