"""Models: flat parameters, raw predictions, clipped gradient sums (see `Model`)."""

from skdpfl.models._base import Architecture, Map, Maps, Model, Start, public
from skdpfl.models._clipping import clip_factors, clip_margin, underflow
from skdpfl.models._expanded import CELLS, CurveColumns, ExpandedTable
from skdpfl.models._linear import Additive, LinearModel, OneSlope
from skdpfl.models._network import ACTIVATIONS, MLP, Activation, Network, TemperedSigmoid
from skdpfl.models._one_by_one import fitted_one_by_one, one_by_one
from skdpfl.models._products import Descent, Records, reads_in_place, row_products
from skdpfl.models._rules import FEW_STEPS, STEPS, NetworkRules, Rules, RuleTask
