r"""Running a private procedure a random number of times and keeping the best run.

Papernot and Steinke (ICLR 2022), theorem 2: let one run be (a, D_a)-Renyi private, K geometric ::

    P[K = k] = (1 - gamma)^(k - 1) gamma,    gamma = 1 / E[K]

Run the procedure K times and release the best run's output only. For every order a > 1 and b >= 1

    D'_a = D_a + 2 (1 - 1/b) D_b + 2 log E[K] / b + log E[K] / (a - 1).

The number of runs and the other runs' outputs must stay secret. So this does not apply where others
see the runs (each run is a federated fit with an untrusted server).
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.events import Composition, Profile
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.randomness.streams import Stream

#: the orders that are tried
ORDERS = tuple(1 + np.exp(np.linspace(math.log(0.1), math.log(2000), 60)))


@dataclass(frozen=True)
class Repetition:
    """The distribution of the number of runs, geometric; ``mean`` is the expected number."""

    mean: float

    def draw(self, stream: Stream) -> int:
        """Draw the number of runs, at least 1."""
        uniform, mass = float(stream.random(())), 1 / self.mean
        k, total = 1, mass
        while total < uniform and mass > 0:
            mass *= 1 - 1 / self.mean
            k, total = k + 1, total + mass
        return k

    def profile(self, run: tuple[Composition, ...], neighbours: str) -> Profile:
        """Return the price of keeping the best run; ``run`` lists the possible releases of a run.

        Formal guarantee
        ----------------
        One run draws its candidate from a public distribution, so its Renyi divergence is at most
        the largest over the candidates, order by order (joint quasi-convexity; a record that is
        either trained on or scored on pays for one of the two only). Then apply the module's
        theorem and the conversion delta <= exp((a - 1)(D' - eps)) (1 - 1/a)^(a-1) / a of Canonne,
        Kamath and Steinke (NeurIPS 2020) at every order. A run's failure probability is added E[K]
        times.
        """
        prices = [[renyi(part, a, neighbours) for part in run] for a in ORDERS]
        single = np.array([max(p[0] for p in row) for row in prices])
        failure = max(p[1] for p in prices[0])
        orders = np.array(ORDERS)
        extra = 2 * ((1 - 1 / orders) * single + math.log(self.mean) / orders)
        total = single + extra.min() + math.log(self.mean) / (orders - 1)
        epsilons = np.exp(np.linspace(math.log(1e-3), math.log(1e3), 4000))
        log_delta = (
            (orders - 1)[:, None] * (total[:, None] - epsilons)
            + ((orders - 1) * np.log1p(-1 / orders) - np.log(orders))[:, None]
        ).min(axis=0)
        deltas = np.minimum(1.0, np.exp(np.minimum(log_delta, 0.0)) + self.mean * failure)
        return Profile(tuple(epsilons.tolist()), tuple(deltas.tolist()))
