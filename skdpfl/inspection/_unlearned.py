"""Which fitted transformers learnt nothing from the records: a short, closed list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler, SkewedChi2Sampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdpfl.inspection._row_by_row import rows_stay_apart
from skdpfl.preprocessing import DPMinMaxScaler

#: transformers whose fit reads at most the number and the names of the features
NOTHING = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    GaussianRandomProjection,
    HashingVectorizer,
    Normalizer,
    PolynomialFeatures,
    RBFSampler,
    SkewedChi2Sampler,
    SparseRandomProjection,
)


def learns_nothing(step: Any) -> bool:
    """Tell whether a fitted step is the same whatever the records were."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    if isinstance(step, RBFSampler):
        return not isinstance(step.gamma, str)  # "scale" reads the variance of X
    if isinstance(step, NOTHING):
        return True
    if isinstance(step, DPMinMaxScaler):
        return step.feature_bounds is not None
    if isinstance(step, FunctionTransformer):
        return rows_stay_apart(step)
    if isinstance(step, SimpleImputer):
        return step.strategy == "constant" and not step.add_indicator and not _dropped(step)
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        return _declared(step)
    return False


def _dropped(imputer: SimpleImputer) -> bool:
    """Tell whether a column was left out since no record has a value there.

    The number of columns is public: where none was left out, constants are all there is.
    """
    if imputer.keep_empty_features or not hasattr(imputer, "statistics_"):
        return False
    return bool(pd.isna(np.asarray(imputer.statistics_, dtype=object)).any())


def _declared(encoder: Any) -> bool:
    """Tell whether an encoder's categories were given, and none is merged by its frequency."""
    given = not isinstance(encoder.categories, str)
    rare = [getattr(encoder, n, None) for n in ("min_frequency", "max_categories")]
    if_binary = isinstance(getattr(encoder, "drop", None), str) and encoder.drop == "if_binary"
    return given and rare == [None, None] and not if_binary
