"""Splits that know silos, and scores of each silo."""

from importlib import import_module

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "DPRandomizedSearchCV": "_search",
    "LeaveOneSiloOut": "_split_whole",
    "SiloKFold": "_split_whole",
    "SiloStratifiedKFold": "_split",
    "make_silo_scorer": "_scorer",
    "silo_scores": "_scorer",
    "worst_silo_scorer": "_scorer",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
