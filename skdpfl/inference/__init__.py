"""Confidence intervals of coefficients from noised sums at a fitted model."""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
