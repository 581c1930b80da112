"""Records in silos of this process, for questions about them."""

import numpy as np

from skdpfl.federation import LocalFederation, SiloData
from skdpfl.scaling._messages import Messages
from skdpfl.scaling._run import run_scaling


def held(plan, X, y, codes, streams):
    """The silos of a scaling plan."""
    y = np.zeros(len(X)) if y is None else y
    return LocalFederation(SiloData.from_codes(X, y, codes, plan.setting.n_silos), streams)


def scales_of(plan, X, y, codes, streams):
    """The scales that a plan finds."""
    return run_scaling(plan, held(plan, X, y, codes, streams), streams)


def messages_of(plan, X, y, codes, streams):
    """The plan's noisy means."""
    return Messages(plan, held(plan, X, y, codes, streams), streams)
