r"""Certified privacy-blanket bound for shuffled Gaussian reports.

n reports ``y_i ~ N(x_i, I)``, ``|x_i| <= 1/z`` (lengths in units of the noise), are shuffled. One
input is a or b; the adversary knows these and all the others. Let mu = |a - b|, t the coordinate
along a - b from the middle of the segment [a, b], phi and Phi the standard normal's density and
distribution, ``P = N(a, I)``, ``Q = N(b, I)``.

1. *A blanket.* For s in the segment ``N(s, I) >= min(P, Q)``, as the density at y falls with
   |y - s|. Let x_i be at distance e from its nearest point s of the segment. Then ::

       int (kappa min(P, Q) - N(x_i, I))_+  <=  kappa delta_G(log 1/kappa; e)

   with delta_G the Gaussian profile. For if s is an end of the segment, ``min(P, Q) <= N(s, I)``,
   and ``kappa delta_G`` is the integral with N(s, I) in its place. If s lies inside, x_i - s is
   perpendicular to the segment: ``min(P, Q) = m(t) phi(rest)``, and ``N(x_i, I) >= m(t)`` times a
   normal density of the rest that is centred e away. So the law of every other report can be
   replaced by one that is at least ``omega = kappa min(P, Q)`` everywhere, at a total variation
   distance of ``(n - 1) kappa delta_G(log 1/kappa; e)`` for all of them.
2. *Hiding.* Each other sender now draws from omega / |omega| with probability |omega|; let all
other
   reports be public. The rest is a sample of m reports in random order, m - 1 from omega and one
   from P or Q. Its hockey-stick divergence is, with X = (P - alpha Q) / omega under omega and X = 0
   otherwise [1]_::

       H_alpha = (1/n) E (X_1 + ... + X_n)_+

   because m is 1 + Bin(n - 1, |omega|), and ``C(n-1, m-1) / m = C(n, m) / n``.
3. *Geometry.* ``|a|^2 + |b|^2 <= 2 / z^2`` bounds the middle o of the segment by
   ``|o|^2 + (mu/2)^2 <= 1/z^2``, so ``z e <= z |x_i - o| <= 1 + sqrt(1 - h^2)``, h = z mu / 2 <= 1.
   H falls as kappa grows; and it grows with mu, since shrinking t and adding noise turns P and Q
   into any nearer pair and their minimum into something below that pair's. So cells of h with mu
   from the upper end and e from the lower end cover all pairs.
4. Reports with |t| > reach are assumed to be revealed, which costs at most P(|t| > reach).

Together ``delta <= H + (1 + alpha) * distance + P(|t| > reach)`` in each cell. Exchanging a and b
mirrors t: both directions have the same bound.

References
----------
.. [1] Balle, Bell, Gascon & Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.shuffling.positive_part import GridLaw, positive_part_of_sum, spread

#: Ends of the cells of h; the worst pairs are neither near nor antipodal.
CELLS = (0.0, 0.4, 0.52, 0.6, 0.66, 0.71, 0.76, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0)

#: Grid steps per root mean square of X given that it is not zero.
_STEPS = 8

#: No more grid points than this for one X: beyond, there is no bound.
_MOST_POINTS = 2**15


def largest_kappa(distance: float, deficit: float) -> float:
    """Return kappa <= 1 with ``kappa delta_G(log 1/kappa; distance) <= deficit``."""

    def excess(depth: float) -> float:
        log_delta = math.log(max(gaussian_delta(distance, depth), 1e-300))
        return log_delta - depth - math.log(deficit)

    if excess(0.0) <= 0.0:
        return 1.0
    deepest = 1.0
    while excess(deepest) > 0.0:
        deepest *= 2.0
    return math.exp(-brentq(excess, 0.0, deepest, xtol=1e-12) - 1e-9)


def blanket_delta(mu: float, kappa: float, n: int, alpha: float, slack: float) -> float:
    """Return ``H_alpha + P(|t| > reach)`` for n reports, or 1 where that cannot be computed.

    ``mu`` is the distance of the two inputs in units of the noise; the other reports' laws are at
    least ``kappa`` min(P, Q); ``alpha`` is exp(epsilon), at least 1; tails of a probability of at
    most ``slack`` are revealed.
    """
    reach = mu / 2 - ndtri(slack / 2)
    law = _law_of_ratio(mu, kappa, alpha, reach)
    if law is None:
        return 1.0
    # X is scaled by kappa: so is its sum
    hidden = positive_part_of_sum(law, n, slack * n * kappa / 10) / (n * kappa)
    return hidden + float(ndtr(mu / 2 - reach) + ndtr(-mu / 2 - reach))


def _law_of_ratio(mu: float, kappa: float, alpha: float, reach: float) -> GridLaw | None:
    """Return the distribution of ``kappa X`` on a grid, None if the grid would be too large.

    For t in (0, reach): min(P, Q) = Q, of density phi(t + mu/2), and kappa X = exp(mu t) - alpha;
    for t = -u < 0 it is P, the same density at u, and kappa X = 1 - alpha exp(mu u).
    """
    if mu * reach > 100.0:
        return None
    top, bottom = math.exp(mu * reach) - alpha, 1.0 - alpha * math.exp(mu * reach)
    step = _size_of_ratio(mu, alpha, reach) / _STEPS
    first, last = math.floor(bottom / step), math.ceil(top / step)
    if last - first > _MOST_POINTS:
        return None
    edges = step * np.arange(first, last + 1)
    # t is 0 below the middle and u above it: each is needed on its own side
    middle = min(max(1, int(np.searchsorted(edges, 1.0 - alpha))), len(edges) - 1)
    t = np.clip(np.log(edges[middle:] + alpha) / mu, 0.0, reach)
    u = np.clip(np.log((1.0 - edges[:middle]) / alpha) / mu, 0.0, reach)
    t, u = np.append(0.0, t), np.append(u, 0.0)
    # integrals of phi(t + mu/2) and exp(mu t) phi(t + mu/2) = phi(t - mu/2), increasing in the edge
    masses, moments = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    mass_t, tilted_t = np.diff(-ndtr(-t - mu / 2)), np.diff(-ndtr(mu / 2 - t))
    mass_u, tilted_u = np.diff(ndtr(-u - mu / 2)), np.diff(ndtr(mu / 2 - u))
    masses[middle - 1 :] += mass_t
    masses[:middle] += mass_u
    moments[middle - 1 :] += tilted_t - alpha * mass_t
    moments[:middle] += mass_u - alpha * tilted_u
    return spread(first, step, kappa * masses, kappa * moments)


def _size_of_ratio(mu: float, alpha: float, reach: float) -> float:
    """Root mean square of kappa X given that it is not zero."""

    def half(j: int) -> float:  # int over (0, reach) of exp(j mu t) phi(t + mu/2)
        shift = mu / 2 - j * mu
        tail = float(ndtr(-shift) - ndtr(-reach - shift))
        return math.exp((shift**2 - (mu / 2) ** 2) / 2) * tail

    zero, one, two = half(0), half(1), half(2)
    return math.sqrt(((1.0 + alpha**2) * (two + zero) - 4.0 * alpha * one) / (2.0 * zero))
