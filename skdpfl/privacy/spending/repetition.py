r"""Running a private procedure a random number of times and keeping the best run.

Papernot and Steinke (ICLR 2022), theorem 2: let one run be (a, D_a)-Renyi private and K follow the
truncated negative binomial distribution with parameters eta > -1 and gamma in (0, 1) ::

    P[K = k] = (1 - gamma)^k / (gamma^-eta - 1) prod_{l < k} (l + eta) / (l + 1),     eta != 0
    P[K = k] = (1 - gamma)^k / (k log(1 / gamma)),                                   eta = 0

Run the procedure K times and release the best run's output only. For every order a > 1 and b >= 1

    D'_a = D_a + (1 + eta) (1 - 1/b) D_b + (1 + eta) log(1 / gamma) / b + log E[K] / (a - 1).

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
    """The distribution of the number of runs. ``eta=1`` is geometric, ``eta=0`` logarithmic.

    Parameters
    ----------
    mean : float
        The expected number of runs, above 1.
    eta : float, default=1.0
        The shape; larger values concentrate more around the mean and cost more.
    """

    mean: float
    eta: float = 1.0

    @property
    def gamma(self) -> float:
        """The parameter gamma, found from the mean by bisection."""
        low, high = -700.0, -1e-12  # log gamma; the mean falls in gamma
        for _ in range(200):
            middle = (low + high) / 2
            if self._mean_at(math.exp(middle)) > self.mean:
                low = middle
            else:
                high = middle
        return math.exp(high)

    def _mean_at(self, gamma: float) -> float:
        if self.eta == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return self.eta * (1 - gamma) / (gamma * (1 - gamma**self.eta))

    def draw(self, stream: Stream) -> int:
        """Draw the number of runs, at least 1."""
        gamma, eta = self.gamma, self.eta
        uniform = float(stream.random(()))
        if eta == 0:
            mass = (1 - gamma) / math.log(1 / gamma)
        else:
            mass = (1 - gamma) * eta / (gamma**-eta - 1)
        k, total = 1, mass
        while total < uniform and mass > 0:
            mass *= (1 - gamma) * ((k / (k + 1)) if eta == 0 else (k + eta) / (k + 1))
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
        extra = (1 + self.eta) * ((1 - 1 / orders) * single + math.log(1 / self.gamma) / orders)
        total = single + extra.min() + math.log(self.mean) / (orders - 1)
        epsilons = np.exp(np.linspace(math.log(1e-3), math.log(1e3), 4000))
        log_delta = (
            (orders - 1)[:, None] * (total[:, None] - epsilons)
            + ((orders - 1) * np.log1p(-1 / orders) - np.log(orders))[:, None]
        ).min(axis=0)
        deltas = np.minimum(1.0, np.exp(np.minimum(log_delta, 0.0)) + self.mean * failure)
        return Profile(tuple(epsilons.tolist()), tuple(deltas.tolist()))
