"""Private preprocessing: transformers with their own privacy budget."""

from skdpfl.preprocessing._dp_pca import DPPCA
from skdpfl.preprocessing._encoder import (
    DPOneHotEncoder,
    Vocabulary,
    beside_threshold,
    by_frequency,
    declared_values,
)
from skdpfl.preprocessing._imputer import DPSimpleImputer, enough_bins
from skdpfl.preprocessing._paying import Learning, PayingTransformer, SiloSource
from skdpfl.preprocessing._row_transformer import RowTransformer, limit_rows
from skdpfl.preprocessing._scalers import (
    DPMinMaxScaler,
    DPSplineTransformer,
    DPStandardScaler,
    PrivateScaler,
    range_of,
)
from skdpfl.preprocessing._scattering import ScatteringTransformer

__all__ = [
    "DPPCA",
    "DPMinMaxScaler",
    "DPOneHotEncoder",
    "DPSimpleImputer",
    "DPSplineTransformer",
    "DPStandardScaler",
    "RowTransformer",
    "ScatteringTransformer",
    "limit_rows",
]
