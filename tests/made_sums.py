"""Noised sums in tests: exact ones of made records."""

import numpy as np

from skdpfl import federation
from skdpfl.federation import SiloBudgets
from skdpfl.privacy import Guarantee


def budgets_of(sizes, mu=1.0, unit="record", trust="silo", neighbours="replace", **more):
    sizes = np.asarray(sizes)
    mu = np.broadcast_to(np.asarray(mu, float), sizes.shape).copy()
    colluding = more.pop("colluding", 1) if trust == "secagg" else 0
    return SiloBudgets(sizes, mu, Guarantee(unit, trust, neighbours, colluding), **more)


def exact_sums(what, data, unit="record", work=None, **more):
    """Each silo's exact sum (n_silos, *shape), of records in ``data``."""
    budgets = budgets_of(data.sizes, unit=unit, **more)
    found = np.zeros((len(data.sizes), *what.shape))
    for silos, sums in federation.exact_sums(what, data, budgets, work):
        found[silos] = sums
    return found * what.weight
