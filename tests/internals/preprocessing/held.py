"""Records in silos of this process, for questions about them."""

import numpy as np

from skdpfl.federation import LocalFederation, SiloData
from skdpfl.scaling import ScalingRun, run_scaling


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
