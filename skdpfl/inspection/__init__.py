"""Looking at fits, budgets and silos."""

from importlib import import_module

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "ConvergenceDisplay": "_convergence",
    "Heterogeneity": "_heterogeneity",
    "heterogeneity": "_heterogeneity",
    "PrivacySpentDisplay": "_spent",
    "PrivacyUtilityDisplay": "_utility",
    "privacy_spent": "_cost",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
