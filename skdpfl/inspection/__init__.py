"""Inspection of fits, budgets and silos."""

from skdpfl._lazy import lazy

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "DPConfusionMatrixDisplay": "_private_scores",
    "DPRocCurveDisplay": "_private_scores",
    "ConvergenceDisplay": "_convergence",
    "Heterogeneity": "_before_fit",
    "affordable_features": "_before_fit",
    "CorrelationDisplay": "_look_displays",
    "CountsDisplay": "_look_displays",
    "QuantilesDisplay": "_look_displays",
    "correlation": "_describe",
    "describe": "_describe",
    "heterogeneity": "_before_fit",
    "histogram": "_describe",
    "LocalComparisonDisplay": "_local_comparison",
    "PrivacySpentDisplay": "_spent",
    "PrivacyUtilityDisplay": "_utility",
    "ShapeDisplay": "_shapes",
    "local_comparison": "_local_comparison",
    "privacy_spent": "_cost",
    "quantile": "_describe",
    "report": "_report",
    "value_counts": "_describe",
}
__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
