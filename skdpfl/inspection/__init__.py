"""Inspection of fits, budgets and silos."""

from skdpfl._lazy import lazy

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "ConvergenceDisplay": "_convergence",
    "Heterogeneity": "_before_fit",
    "affordable_features": "_before_fit",
    "heterogeneity": "_before_fit",
    "LocalComparisonDisplay": "_local_comparison",
    "PrivacySpentDisplay": "_spent",
    "PrivacyUtilityDisplay": "_utility",
    "local_comparison": "_local_comparison",
    "privacy_spent": "_cost",
}
__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
