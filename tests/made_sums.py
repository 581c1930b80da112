"""Noised sums in tests: exact ones of made records, and noisy means of sums that are given."""

import numpy as np

from skdpfl import federation
from skdpfl.federation import Federation, SiloBudgets
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


class Sending(Federation):
    """Silos whose exact sums are given; they add their noise."""

    def __init__(self, exact, streams):
        self.exact, self.streams = np.asarray(exact, float), streams

    @property
    def n_silos(self):
        return len(self.exact)

    def start(self, work):
        raise NotImplementedError

    def round(self, round, shared, cohort, clip_norm):
        raise NotImplementedError

    def ask(self, question):
        silos = np.arange(self.n_silos)
        sums = self.exact.reshape(self.n_silos, *question.what.shape)
        if question.shared is not None:
            sums = question.hidden(silos, sums, self.streams)
        elif not question.plan.budgets.as_one:
            noised = question.plan.noised(question.number, question.what)
            sums = question.added(noised, silos, sums, self.streams)
        yield silos, sums.reshape(self.n_silos, -1)
