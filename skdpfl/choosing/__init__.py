"""Resolution of "auto": from parameters and public numbers to the settings and plan of a fit.

::

    read_request   parameters, public facts        -> Request, per silo, read once
    choose         Request                         -> Choice: settings, how scales are found
    make_plan      Choice                          -> PrivacyPlan, calibrated and priced
    final_training Committed: plan and scales      -> Training, by the plan's noise or by the data
    Method         a family of estimators          -> its algorithm with all constants

Weights and budgets of the silos are resolved in :mod:`skdpfl.choosing._request`; what silos release
besides the rounds (scales) is ``setup`` of the plan, in :mod:`skdpfl.choosing._plan`. Steps and
clip norms are the model's: :class:`skdpfl.models.Rules`.
"""

from skdpfl.choosing._choose import (
    Choice,
    ScalingStep,
    choose,
    clipped_without_labels,
    with_curves,
    with_encoding,
)
from skdpfl.choosing._encoding import EncodingPlan
from skdpfl.choosing._final_step import final_training, with_curvature
from skdpfl.choosing._method import (
    Averaging,
    Committed,
    GivenAlgorithm,
    Method,
    Settings,
    Training,
    control_rate,
)
from skdpfl.choosing._noise_level import noise_of_plan
from skdpfl.choosing._plan import MOST_ROUNDS, make_plan, within_budget
from skdpfl.choosing._request import PublicFacts, Request, check_cohort, read_request, spends_budget
from skdpfl.choosing._solvers import ACCELERATED, SOLVERS, Solver
