"""Splitters and scorers by silo; searches and pipelines under one budget."""

from skdpfl._lazy import lazy

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "DPRandomizedSearchCV": "_search",
    "LeaveOneSiloOut": "_split_whole",
    "SharedBudget": "_shared_budget",
    "SiloKFold": "_split_whole",
    "SiloStratifiedKFold": "_split",
    "make_silo_scorer": "_scorer",
    "neg_relative_rmse": "_scores",
    "silo_scores": "_scores",
    "worst_silo_scorer": "_scorer",
}
__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
