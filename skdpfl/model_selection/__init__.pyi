from skdpfl.model_selection._split import SiloGroupKFold as SiloGroupKFold
from skdpfl.model_selection._prefit import DPCalibratedClassifier as DPCalibratedClassifier
from skdpfl.model_selection._randomized import DPRandomizedSearchCV as DPRandomizedSearchCV
from skdpfl.model_selection._scores import (
    make_silo_scorer as make_silo_scorer,
    silo_scores as silo_scores,
)
from skdpfl.model_selection._shared_budget import SharedBudget as SharedBudget
from skdpfl.model_selection._split import (
    LeaveOneSiloOut as LeaveOneSiloOut,
    SiloKFold as SiloKFold,
    SiloStratifiedKFold as SiloStratifiedKFold,
)
from skdpfl.model_selection._prefit import DPThresholdClassifier as DPThresholdClassifier
