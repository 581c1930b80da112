from skdpfl.model_selection._scorer import (
    make_silo_scorer as make_silo_scorer,
    worst_silo_scorer as worst_silo_scorer,
)
from skdpfl.model_selection._scores import (
    neg_relative_rmse as neg_relative_rmse,
    silo_scores as silo_scores,
)
from skdpfl.model_selection._search import DPRandomizedSearchCV as DPRandomizedSearchCV
from skdpfl.model_selection._shared_budget import SharedBudget as SharedBudget
from skdpfl.model_selection._split import SiloStratifiedKFold as SiloStratifiedKFold
from skdpfl.model_selection._split_whole import (
    LeaveOneSiloOut as LeaveOneSiloOut,
    SiloKFold as SiloKFold,
)
