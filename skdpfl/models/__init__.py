"""Models: flat parameters, raw predictions, clipped gradient sums (see `Model`)."""

from skdpfl.models._activations import ACTIVATIONS as ACTIVATIONS
from skdpfl.models._activations import Activation, TemperedSigmoid
from skdpfl.models._architecture import Architecture
from skdpfl.models._base import Model
from skdpfl.models._clipping import underflow as underflow
from skdpfl.models._groups import Records
from skdpfl.models._layer_norms import clip_factors as clip_factors
from skdpfl.models._linear import LinearModel
from skdpfl.models._linear_rules import LinearRules
from skdpfl.models._mlp import MLP
from skdpfl.models._network import Network
from skdpfl.models._network_rules import NetworkRules
from skdpfl.models._rows import row_products as row_products
from skdpfl.models._rules import Rules, Task
from skdpfl.models._start import Map, Maps, public
from skdpfl.models._start import Start as Start

__all__ = [
    "MLP",
    "Activation",
    "Architecture",
    "LinearModel",
    "LinearRules",
    "Map",
    "Maps",
    "Model",
    "Network",
    "NetworkRules",
    "Records",
    "Rules",
    "Task",
    "TemperedSigmoid",
    "public",
]
