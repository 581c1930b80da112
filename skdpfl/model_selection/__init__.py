"""Splitters and scorers by silo; searches and pipelines under one budget."""

from skdpfl._lazy import lazy

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "DPRandomizedSearchCV": "_randomized",
    "LeaveOneSiloOut": "_split",
    "SharedBudget": "_shared_budget",
    "SiloKFold": "_split",
    "SiloStratifiedKFold": "_split",
    "make_silo_scorer": "_scores",
    "neg_relative_rmse": "_scores",
    "silo_scores": "_scores",
    "worst_silo_scorer": "_scores",
}
__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
