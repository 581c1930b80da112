"""Models: flat parameters, raw predictions, clipped gradient sums (see `Model`)."""

from skdpfl.models._base import Map, Maps, Model
from skdpfl.models._groups import Records
from skdpfl.models._linear import LinearModel
from skdpfl.models._linear_rules import LinearRules
from skdpfl.models._rules import Rules, Task

__all__ = [
    "LinearModel",
    "LinearRules",
    "Map",
    "Maps",
    "Model",
    "Records",
    "Rules",
    "Task",
]
