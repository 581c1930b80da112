r"""Upper bounds on the Renyi divergence of a release, from its privacy profile.

With d(eps) a bound on delta in both directions of the relation, for an order a > 1::

    exp((a - 1) D_a) = 1 + a (a - 1) int_0^inf ( e^{(a-1) eps} + e^{-a eps} ) d(eps) d eps

which is the representation of E_Q[(P/Q)^a] by hockey-stick divergences H_t(P||Q), t >= 1, and
H_t(Q||P) (Sason and Verdu, IEEE Transactions on Information Theory 62, 2016). Since d decreases,
each cell of a grid is bounded by d at its left end, so the sum is an upper bound. Bounds on the
rounding of every step are added.

Profiles of the events, with m = D / z the distance of the pair's means (D = 2 or 1)::

    Gaussian            Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m)
    FixedSizeGaussian   g d_Gaussian(log(1 + (e^eps - 1) / g))
    PoissonGaussian     by its dominating pair, see below
    WithReplacement     log-mean of e^{(a-1) D} over the numbers of copies, fixed size each
    Approximate         the delta aside, randomised response: (e^eps0 - e^eps)_+ / (1 + e^eps0)
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from skdpfl.privacy import events
from skdpfl.privacy.pricing.loss_pairs import MANY_COPIES, WithReplacementPair
from skdpfl.privacy.pricing.releases import NO_NOISE

_CELLS = 20_000

#: Points of a quadrature on either side, the spacing of floating-point numbers, and the rounding
#: error of the logarithm of a sum of that many numbers.
_MOST_POINTS, _EPS, _ROUND = 200_000, 2.0**-52, 1e-13


def renyi(composition: events.Composition, order: float, neighbours: str) -> tuple[float, float]:
    """Return (D, delta): the composition is delta-approximately (order, D)-Renyi DP.

    Formal guarantee
    ----------------
    Renyi divergences add up under adaptive composition, approximation terms too (Bun and Steinke,
    TCC 2016, on approximate concentrated privacy); each event's bound is the module's formula.
    """
    total, delta = 0.0, 0.0
    for event, count in composition:
        divergence, failure = renyi_of_event(event, float(order), neighbours)
        total += count * divergence
        delta += count * failure
    return total, delta


@lru_cache(maxsize=1024)
def renyi_of_event(event: events.Event, order: float, neighbours: str) -> tuple[float, float]:
    """Return (D, delta) of a single release."""
    distance = events.change_of(neighbours)
    if isinstance(event, events.Exact):
        return math.inf, 0.0
    if isinstance(event, events.Gaussian):
        shift = math.inf if event.noise_multiplier == 0 else distance / event.noise_multiplier
        return order * shift * shift / 2, 0.0
    if isinstance(event, events.Approximate):
        return _randomised_response(event.epsilon, order), event.delta
    if isinstance(event, events.Profile):
        return _of_profile(event, order), event.deltas[-1]
    if isinstance(event, events.WithReplacementGaussian):
        return _with_replacement(event, order, neighbours)
    if not isinstance(event, (events.PoissonGaussian, events.FixedSizeGaussian)):
        raise TypeError(
            f"{type(event).__name__} is refused: the accountant cannot price this event."
        )
    if isinstance(event, events.FixedSizeGaussian) and neighbours != "replace":
        raise ValueError("FixedSizeGaussian is priced under neighbours='replace' only.")
    if event.sampling_rate == 0 or event.noise_multiplier == math.inf:
        return 0.0, 0.0
    if event.noise_multiplier < NO_NOISE:
        return math.inf, 0.0
    return _sampled(event, distance / event.noise_multiplier, order, neighbours), 0.0


def _with_replacement(
    event: events.WithReplacementGaussian, order: float, neighbours: str
) -> tuple[float, float]:
    """Return (D, delta): delta is the probability of more copies than are counted."""
    pair = WithReplacementPair(event.sampling_rate, 1.0, event.batch)
    logs = []
    for k, (weight, part) in enumerate(pair.parts, start=1):
        of_k = events.FixedSizeGaussian(event.noise_multiplier / k, part.rate)
        divergence, _ = renyi_of_event(of_k, order, neighbours)
        logs.append(math.log(max(weight, 1e-300)) + (order - 1) * divergence)
    return float(np.logaddexp.reduce(logs)) / (order - 1), 2 * MANY_COPIES


def _sampled(
    event: events.PoissonGaussian | events.FixedSizeGaussian,
    shift: float,
    order: float,
    neighbours: str,
) -> float:
    rate = event.sampling_rate
    if isinstance(event, events.PoissonGaussian):
        m = shift / 2 if neighbours == "replace" else shift
        return _mixture(rate, m, order, neighbours)
    # the integrand underflows beyond 40 deviations of the loss at this order
    top = shift**2 / 2 + shift * (40 + order * shift)
    edges = np.linspace(0.0, top, _CELLS)
    near = np.log1p(np.expm1(np.minimum(edges, 30.0)) / rate)
    far = edges - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-edges))
    log_alpha = np.where(edges < 30.0, near, far)
    return _integrate(edges, math.log(rate) + log_gaussian_delta(shift, log_alpha), order)


def log_gaussian_delta(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """Return log(Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)), also where it underflows.

    A bound on the rounding error (of the logarithms and of x^2) is added.
    """
    x = epsilon / mu + mu / 2
    hit, miss = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
    gap = -np.expm1(np.minimum(epsilon + miss - hit, -1e-300))
    lost = 4 * _EPS * (1.0 + x * x + epsilon - hit - miss)
    return hit + np.log(gap + lost)


def _mixture(rate: float, m: float, order: float, neighbours: str) -> float:
    r"""Return the larger Renyi divergence of the Poisson pair, by quadrature of E_Q (P/Q)^order.

    The trapezoidal rule with step h, on a function that is analytic and at most M on average in
    the strip ``|Im x| < d``, errs by 2 M / (e^{2 pi d / h} - 1) (Trefethen and Weideman, SIAM
    Review 56, 2014, theorem 5.1). For ``d <= pi / (2 m)`` both mixtures turn by less than a right
    angle: ``|1 - q + q e^w| >= (1 - q + q e^{Re w}) / sqrt 2``, so M is at most
    ``2^{(a - 1)/2} e^{d^2/2}`` times the integral. h makes that 2^-60 of the integral. Without
    enough points for that h the divergence of the unsampled pair is returned, which is larger.
    """
    distance = 2 * m if neighbours == "replace" else m
    unsampled = order * distance**2 / 2
    depth = min(2.0, math.pi / (2 * m))
    step = 2 * math.pi * depth / (43.0 + 0.35 * (order - 1) + depth**2 / 2)
    half = math.ceil((40 + order * 2 * m) / min(step, 0.01))
    if half > _MOST_POINTS:
        half = math.ceil((40 + order * 2 * m) / step)
    if half > _MOST_POINTS:
        return unsampled
    step = (40 + order * 2 * m) / half
    x = step * np.arange(-half, half + 1)
    base = -0.5 * x**2
    up = _log_mix(rate, base, base + x * m - m**2 / 2)
    down = _log_mix(rate, base, base - x * m - m**2 / 2) if neighbours == "replace" else base
    # the terms of p and q are no larger: each logarithm has a few roundings of this size
    size = _EPS * ((np.abs(x) + m) ** 2 + np.abs(up) + np.abs(down) + 1.0)
    moments = [
        _log_sum(order * p + (1 - order) * q, 4 * (2 * order - 1) * size)
        for p, q in ((up, down), (down, up))
    ]
    log_moment = max(moments) + math.log(step) - 0.5 * math.log(2 * math.pi)
    return min(unsampled, (max(0.0, log_moment) + _ROUND) / (order - 1)) * (1 + 1e-12)


def _log_sum(terms: np.ndarray, errors: np.ndarray) -> float:
    """Return the logarithm of a sum of e^term, each term raised by its error."""
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top + errors).sum()))


def _log_mix(rate: float, zero: np.ndarray, moved: np.ndarray) -> np.ndarray:
    if rate >= 1:
        return moved
    return np.logaddexp(math.log1p(-rate) + zero, math.log(rate) + moved)


def _randomised_response(epsilon: float, order: float) -> float:
    """Return the divergence of the pair (p, 1-p), (1-p, p) with log p / (1-p) = epsilon."""
    if epsilon == math.inf:
        return math.inf
    log_p = -math.log1p(math.exp(-epsilon))
    log_q = log_p - epsilon
    first = order * log_p + (1 - order) * log_q
    second = order * log_q + (1 - order) * log_p
    return max(0.0, float(np.logaddexp(first, second)) / (order - 1))


def _of_profile(event: events.Profile, order: float) -> float:
    """Return the divergence from a step profile, with its last delta f as probability of failure.

    The others are distributions P', Q' with P = (1 - f) P' + f E: their profile is
    (d - f) / (1 - f). What holds at a negative epsilon holds at 0.
    """
    edges = np.concatenate([[0.0], np.maximum(0.0, event.epsilons)])
    failure = event.deltas[-1]
    if failure >= 1.0:
        return 0.0
    deltas = np.concatenate([[1.0], event.deltas]) - failure
    with np.errstate(divide="ignore"):
        deltas = np.maximum(deltas, 0) / (1 - failure)
        return _integrate(edges, np.log(deltas), order)


def _integrate(edges: np.ndarray, log_profile: np.ndarray, order: float) -> float:
    """Return log(1 + a (a-1) sum of cells) / (a - 1), the profile taken at cells' left ends."""
    a = order
    left, right = edges[:-1], edges[1:]
    width = right - left
    growing = (a - 1) * right + np.log(-np.expm1(-(a - 1) * width)) - math.log(a - 1)
    falling = -a * left + np.log(-np.expm1(-a * width)) - math.log(a)
    terms = np.logaddexp(growing, falling) + log_profile[:-1] + math.log(a * (a - 1))
    # rounding errors of the exponents, of the differences of edges, and of sums of cells
    places = right / np.maximum(width, _EPS * right + 1e-300)
    lost = 8 * _EPS * (a * right + np.abs(log_profile[:-1]) + places + right.size)
    terms += np.where(np.isfinite(lost), lost, 0.0)
    return float(np.logaddexp(0.0, np.logaddexp.reduce(terms))) / (a - 1) * (1 + 4 * _EPS)
