"""Models: flat parameters, raw predictions, clipped gradient sums (see `Model`)."""

from skdpfl.models._activations import ACTIVATIONS as ACTIVATIONS
from skdpfl.models._activations import Activation, TemperedSigmoid
from skdpfl.models._additive import Additive
from skdpfl.models._base import Architecture, Model
from skdpfl.models._clipping import clip_factors as clip_factors
from skdpfl.models._clipping import underflow as underflow
from skdpfl.models._linear import LinearModel
from skdpfl.models._network import MLP, Network
from skdpfl.models._one_by_one import fitted_one_by_one as fitted_one_by_one
from skdpfl.models._one_by_one import one_by_one as one_by_one
from skdpfl.models._products import Records
from skdpfl.models._products import row_products as row_products
from skdpfl.models._rules import LinearRules, NetworkRules, Rules, RuleTask
from skdpfl.models._start import Map, Maps, public
from skdpfl.models._start import Start as Start

__all__ = [
    "MLP",
    "Activation",
    "Additive",
    "Architecture",
    "LinearModel",
    "LinearRules",
    "Map",
    "Maps",
    "Model",
    "Network",
    "NetworkRules",
    "Records",
    "RuleTask",
    "Rules",
    "TemperedSigmoid",
    "public",
]
