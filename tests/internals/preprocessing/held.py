"""Records in silos of this process, for questions about them."""

import numpy as np

from skdpfl.federation import LocalFederation, SiloBudgets, SiloData
from skdpfl.privacy.events import Guarantee
from skdpfl.scaling import ScalingRun, run_scaling
from skdpfl.scaling._choice import plan_scaling


def held(plan, X, y, codes, streams):
    """The silos of a scaling plan."""
    y = np.zeros(len(X)) if y is None else y
    return LocalFederation(SiloData.from_codes(X, y, codes, plan.budgets.n_silos), streams)


def scales_of(plan, X, y, codes, streams):
    """The scales that a plan finds."""
    return run_scaling(plan, held(plan, X, y, codes, streams), streams)


def asked(plan, X, y, codes, streams):
    """Who returns the plan's noisy means."""
    return ScalingRun(plan, held(plan, X, y, codes, streams), streams)


def planned(
    silo_sizes, n_features, mu, *, unit="record", trust="silo", neighbours="replace", **more
):
    """Return a scaling plan for silos of these sizes under one promise."""
    guarantee = Guarantee(unit, trust, neighbours)
    return plan_scaling(SiloBudgets.of(guarantee, silo_sizes, mu), n_features, **more)
