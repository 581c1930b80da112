r"""The Gaussian mechanism in closed form: mu-Gaussian differential privacy.

A release is mu-GDP if telling the two neighbours apart is as hard as telling ``N(0, 1)`` from
``N(mu, 1)``. A clipped sum with noise multiplier z is (D/z)-GDP, where D = 2 (a record is replaced)
or 1 (its contribution is set to zero), and releases compose by adding squares [1]_::

    mu^2       = sum_t (D / z_t)^2
    delta(eps) = Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2)          (Balle & Wang 2018)

Both directions of the relation have this same profile, and it is attained, so these numbers are
exact, up to the last few bits, which the functions below round up.

References
----------
.. [1] Dong, Roth & Su, "Gaussian differential privacy", JRSS B 84 (2022), corollary 3.3.
"""

import math
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

#: Above this mu the second term of delta is below a thousandth of the first, and is left out.
_LARGE_MU = 1e4

#: The least relative margin for rounding.
_SAFE = 1e-12


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which a mu-GDP release is (epsilon, delta)-DP."""
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
    if math.isinf(mu):
        return 1.0
    if math.isinf(epsilon):
        return 0.0
    room = max(_SAFE, _rounding(mu, epsilon))
    return min(1.0, math.exp(_log_delta(mu, epsilon)) * (1.0 + room))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which a mu-GDP release is (epsilon, delta)-DP."""
    if math.isinf(mu) or delta <= 0.0:
        return 0.0 if mu == 0.0 else math.inf
    if mu == 0.0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if mu > _LARGE_MU:
        return mu * (mu / 2 - float(ndtri(delta))) * (1.0 + _SAFE)
    # delta(eps) <= Phi(-eps/mu + mu/2) <= exp(-(eps/mu - mu/2)^2 / 2): a bracket without a search.
    upper = mu * (mu / 2 + math.sqrt(-2.0 * math.log(delta)))
    log_delta = math.log(delta)
    root = 0.0
    if _log_delta(mu, 0.0) > log_delta:  # else delta is above only by its margin for rounding
        root = brentq(
            lambda e: _log_delta(mu, e) - log_delta, 0, upper, xtol=1e-300, rtol=1e-13, maxiter=9999
        )
    # -d delta / d eps = exp(eps) Phi(-eps/mu - mu/2)
    slope = root + float(log_ndtr(-root / mu - mu / 2)) - log_delta
    return max(root * (1.0 + _SAFE), root + _rounding(mu, root) * math.exp(-slope))


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose mu-GDP release is (epsilon, delta)-DP."""
    if epsilon == math.inf:
        return math.inf
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2.0
    low = high
    while gaussian_delta(low, epsilon) > delta:
        low /= 2.0
    log_delta = math.log(delta)
    if _log_delta(high, epsilon) <= log_delta:  # above only by its margin for rounding
        return low
    root = brentq(
        lambda m: _log_delta(m, epsilon) - log_delta,
        low,
        high,
        xtol=1e-300,
        rtol=1e-13,
        maxiter=9999,
    )
    # log delta grows at least like log mu, or delta is near 1 and hardly rounded
    return root * (1.0 - max(_SAFE, _rounding(root, epsilon)))


def gaussian_elasticity(mu: float, epsilon: float) -> float:
    """Return d log(epsilon) / d log(mu) of a mu-GDP release at a fixed delta, approximately.

    With phi and Phi of the standard normal, and a = epsilon / mu + mu / 2::

        d epsilon / d mu = phi(a) / Phi(-a)
    """
    a = epsilon / mu + mu / 2
    log_ratio = -a * a / 2 - math.log(2 * math.pi) / 2 - float(log_ndtr(-a))
    return mu / epsilon * math.exp(log_ratio)


def _rounding(mu: float, epsilon: float) -> float:
    """Bound the relative rounding error of delta, a difference of tails given by their logarithms.

    Each logarithm has a rounding error of its own size x^2/2, and about twice that from x.
    """
    if mu > _LARGE_MU:
        return 0.0
    _, gap, lost = _tails(mu, epsilon)
    return lost / gap if gap > 2 * lost else 0.5


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon), without overflow of exp(epsilon) or underflow of tails.

    If the difference of tails is lost in rounding, a bound is used: the derivative of delta by mu
    is phi(mu/2 - epsilon/mu), so delta is at most mu times the largest phi up to mu.
    """
    if mu > _LARGE_MU:  # plus the rounding error of the difference
        return float(log_ndtr(mu / 2 - epsilon / mu + 1e-15 * mu))
    above, gap, lost = _tails(mu, epsilon)
    if gap > 2 * lost:
        return above + math.log(gap)
    if epsilon < 0.0:  # 1 - e^epsilon at mu = 0
        return math.log(mu - math.expm1(epsilon))
    nearest = max(0.0, epsilon / mu - mu / 2)
    return math.log(mu) - nearest * nearest / 2 - math.log(2 * math.pi) / 2


def _tails(mu: float, epsilon: float) -> tuple[float, float, float]:
    """Return log Phi(mu/2 - eps/mu), the share of it that is delta, and that share's error."""
    x = abs(epsilon) / mu + mu / 2
    above = float(log_ndtr(-epsilon / mu + mu / 2))
    below = float(log_ndtr(-epsilon / mu - mu / 2))
    gap = -math.expm1(min(0.0, epsilon + below - above))
    return above, gap, 2.0**-51 * (1.0 + x * x + abs(epsilon) - above - below)
