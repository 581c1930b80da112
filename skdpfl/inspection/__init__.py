"""Inspection of fits, budgets and silos."""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
