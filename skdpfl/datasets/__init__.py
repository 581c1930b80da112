"""Data sets in silos: published and synthetic ones, and ways to split a table into silos."""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
