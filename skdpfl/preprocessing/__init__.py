"""Private preprocessing: transformers with their own privacy budget."""

from skdpfl.preprocessing._dp_pca import DPPCA
from skdpfl.preprocessing._encoder import DPOneHotEncoder
from skdpfl.preprocessing._encoder import Vocabulary as Vocabulary
from skdpfl.preprocessing._encoder import beside_threshold as beside_threshold
from skdpfl.preprocessing._encoder import by_frequency as by_frequency
from skdpfl.preprocessing._encoder import declared_values as declared_values
from skdpfl.preprocessing._frames import limit_rows
from skdpfl.preprocessing._imputer import DPSimpleImputer
from skdpfl.preprocessing._known_ranges import KnownRanges as KnownRanges
from skdpfl.preprocessing._known_ranges import features_of as features_of
from skdpfl.preprocessing._known_ranges import ranges_after as ranges_after
from skdpfl.preprocessing._known_ranges import ranges_before as ranges_before
from skdpfl.preprocessing._paying import Learning as Learning
from skdpfl.preprocessing._paying import PayingTransformer as PayingTransformer
from skdpfl.preprocessing._paying import SiloSource as SiloSource
from skdpfl.preprocessing._row_transformer import RowTransformer
from skdpfl.preprocessing._row_transformer import keeps_nothing as keeps_nothing
from skdpfl.preprocessing._scalers import DPMinMaxScaler, DPStandardScaler
from skdpfl.preprocessing._scalers import PrivateScaler as PrivateScaler
from skdpfl.preprocessing._scattering import ScatteringTransformer
from skdpfl.preprocessing._spline import DPSplineTransformer

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
