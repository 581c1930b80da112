"""What "auto" stands for: from parameters and public numbers to the settings and plan of a fit.

::

    read_request   parameters, public facts        -> Request, per silo, read once
    choose         Request                         -> Choice: settings, how scales are found
    make_plan      Choice                          -> PrivacyPlan, calibrated and priced
    Committed      the plan and the found scales   -> the step that fits the noise (or the data)
    Method         a family of estimators          -> its algorithm with all constants
"""

from skdpfl.choosing._choose import Choice, choose, warn_if_penalty_diverges, with_planned_noise
from skdpfl.choosing._committed import Committed, Training
from skdpfl.choosing._exact import with_curvature
from skdpfl.choosing._facts import Facts, Settings
from skdpfl.choosing._method import Averaging, GivenAlgorithm, Method
from skdpfl.choosing._plan import make_plan
from skdpfl.choosing._request import Request, read_request, relation
from skdpfl.choosing._scales import ScalingStep
from skdpfl.choosing._solvers import SOLVERS, Solver
from skdpfl.choosing._whole_silos import control_rate

__all__ = [
    "SOLVERS",
    "Averaging",
    "Choice",
    "Committed",
    "Facts",
    "GivenAlgorithm",
    "Method",
    "Request",
    "ScalingStep",
    "Settings",
    "Solver",
    "Training",
    "choose",
    "control_rate",
    "make_plan",
    "read_request",
    "relation",
    "warn_if_penalty_diverges",
    "with_curvature",
    "with_planned_noise",
]
