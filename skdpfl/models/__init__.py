"""Models: flat parameters, raw predictions, clipped gradient sums (see `Model`)."""

from skdpfl.models._base import Map, Maps, Model
from skdpfl.models._clipping import rounding_of_sum
from skdpfl.models._groups import Records
from skdpfl.models._linear import LinearModel

__all__ = ["LinearModel", "Map", "Maps", "Model", "Records", "rounding_of_sum"]
