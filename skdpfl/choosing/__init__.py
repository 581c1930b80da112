"""Resolution of "auto": from parameters and public numbers to the settings and plan of a fit.

::

    read_recipe    parameters, public facts   -> Recipe: what is asked, per silo, read once
    choose         settings, how scales are found, what is released beside the rounds
    make_plan      -> PrivacyPlan, calibrated and priced
    finish_recipe  plan and scales            -> all constants, by the plan's noise or by the data
    Method         a family of estimators     -> its algorithm, its choices for "auto"

Weights and budgets of the silos are resolved in :mod:`skdpfl.choosing._recipe`; what silos release
besides the rounds (scales) is ``setup`` of the plan, in :mod:`skdpfl.choosing._plan`. Steps and
clip norms are the model's: :class:`skdpfl.models.Rules`.
"""

from skdpfl.choosing._choose import (
    clipped_without_labels,
    encoded,
    find_scales,
    with_curves,
    with_encoding,
)
from skdpfl.choosing._final_step import finish_recipe, with_curvature
from skdpfl.choosing._method import Averaging, GivenAlgorithm, control_rate
from skdpfl.choosing._noise_level import advice_on_noise, noise_of_plan
from skdpfl.choosing._plan import MOST_ROUNDS, choose_within_budget, make_plan
from skdpfl.choosing._recipe import (
    Method,
    PublicFacts,
    Recipe,
    Settings,
    check_cohort,
    read_recipe,
    spends_budget,
)
from skdpfl.choosing._solvers import ACCELERATED, SOLVERS, Solver
