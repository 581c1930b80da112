"""Models: flat parameters, raw predictions, clipped gradient sums."""

from skdpfl.models._clipping import rounding_of_sum
from skdpfl.models._groups import Records, converts
from skdpfl.models._linear import LinearModel

__all__ = ["LinearModel", "Records", "converts", "rounding_of_sum"]
