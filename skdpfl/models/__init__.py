"""Models: flat parameters, raw predictions, clipped gradient sums."""

from skdpfl.models._linear import LinearModel

__all__ = ["LinearModel"]
