"""Prices computed in other ways than the package does, to compare with. Imports nothing of ours.

Pairs are given as Gaussian mixtures ((weight, mean), ...) with unit variance, P and Q; losses by
direct evaluation of the densities.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
from scipy import fft, integrate
from scipy.special import ndtr


def poisson_replace(z, q):
    return ((1 - q, 0.0), (q, 1 / z)), ((1 - q, 0.0), (q, -1 / z))


def poisson_zero_out(z, q):
    return ((1 - q, 0.0), (q, 1 / z)), ((1.0, 0.0),)


def log_density(mixture, x):
    total = -math.inf
    for weight, mean in mixture:
        if weight > 0:
            total = np.logaddexp(total, math.log(weight) - (x - mean) ** 2 / 2)
    return total - math.log(2 * math.pi) / 2


def hockey_stick(pair, epsilon):
    """sup_A P(A) - e^epsilon Q(A), by numerical integration of the densities."""
    p, q = pair
    means = [mean for _, mean in (*p, *q)]
    x = np.linspace(min(means) - 12, max(means) + 12, 400_001)
    excess = np.exp(log_density(p, x)) - np.exp(epsilon + log_density(q, x))
    return float(integrate.trapezoid(np.maximum(excess, 0.0), x))


def rounded_epsilons(pair, n, delta, h):
    """(below, above): epsilon of n releases, all losses rounded down, and up, to multiples of h.

    Losses are sorted into bins by brute force: fine cells of x, each with its probability under P
    and the smallest and largest loss in it.
    """
    p, q = pair
    means = [mean for _, mean in (*p, *q)]
    x = np.linspace(min(means) - 9.5, max(means) + 9.5, 200_001)
    loss = log_density(p, x) - log_density(q, x)
    assert (np.diff(loss) >= -1e-12).all()
    mass = np.diff(sum(w * ndtr(x - mean) for w, mean in p))
    return _both_roundings(loss[:-1], loss[1:], mass, n, delta, h)


def fixed_size_rounded_epsilons(z, g, n, delta, h):
    """The same for batches of fixed size, from their privacy profile alone.

    P(L > e) = delta(e) - delta'(e), Q(L > e) = -e^{-e} delta'(e), mirrored below zero.
    """
    e = np.linspace(0.0, math.log1p(g * math.expm1(2 / z**2 + 19 / z)), 200_001)
    step = 1e-5
    at, one, two = (fixed_size_delta(z, g, e + k * step) for k in range(3))
    slope = (4 * one - 3 * at - two) / (2 * step)
    p_above = fixed_size_delta(z, g, e) - slope
    q_above = -np.exp(-e) * slope
    up, down = -np.diff(p_above), -np.diff(q_above)
    zero = 1.0 - p_above[0] - q_above[0]
    lower = np.concatenate([-e[:0:-1], [0.0], e[:-1]])
    upper = np.concatenate([-e[-2::-1], [0.0], e[1:]])
    return _both_roundings(lower, upper, np.concatenate([down[::-1], [zero], up]), n, delta, h)


def _both_roundings(lower, upper, mass, n, delta, h):
    mass = np.maximum(mass, 0.0)
    answers = []
    for index, outside in (
        (np.floor(lower / h).astype(int), 0.0),
        (np.ceil(upper / h).astype(int), max(0.0, 1.0 - mass.sum())),
    ):
        low = int(index.min())
        answers.append(
            _epsilon_of_sum(np.bincount(index - low, mass), low, n, delta, h, n * outside)
        )
    return tuple(answers)


def _epsilon_of_sum(one, low, n, delta, h, extra):
    """Epsilon of the n-fold sum of a discrete loss; plain FFT, window of 10 deviations."""
    places = np.arange(one.size)
    mean = (one * places).sum() / one.sum()
    deviation = math.sqrt(n * ((one * places**2).sum() / one.sum() - mean**2))
    half = math.ceil(10 * deviation) + one.size
    size = fft.next_fast_len(2 * half, real=True)
    total = fft.irfft(fft.rfft(one, size) ** n, size)
    first = round(n * mean) - half
    total = np.maximum(np.roll(total, -(first % size))[: 2 * half], 0.0)
    losses = h * (n * low + first + np.arange(total.size))
    above = np.cumsum(total[::-1])[::-1]
    above_q = np.cumsum((total * np.exp(-np.maximum(losses, -500)))[::-1])[::-1]
    deltas = extra + above - np.exp(np.minimum(losses, 500)) * above_q
    return float(losses[np.flatnonzero(deltas > delta)[-1] + 1])


def fixed_size_delta(z, g, epsilon):
    """g H_{1 + (e^epsilon - 1)/g}(N(2/z, 1) || N(0, 1)), for epsilon >= 0."""
    mu, inner = 2 / z, np.log1p(np.expm1(epsilon) / g)
    return g * (ndtr(mu / 2 - inner / mu) - np.exp(inner) * ndtr(-mu / 2 - inner / mu))


def monte_carlo_delta(pair, n, epsilon, n_samples, seed):
    """Estimate of delta(epsilon) for n releases, and its standard error."""
    p, q = pair
    rng = np.random.default_rng(seed)
    weights, means = (np.array(v) for v in zip(*p, strict=True))
    total = np.zeros(n_samples)
    for _ in range(n):
        x = means[rng.choice(len(p), n_samples, p=weights)] + rng.standard_normal(n_samples)
        total += log_density(p, x) - log_density(q, x)
    terms = np.maximum(0.0, -np.expm1(np.minimum(epsilon - total, 0.0)))
    return terms.mean(), terms.std() / math.sqrt(n_samples)


def exact_tail(x):
    """P(N > x) for x >= 0 to 40 digits, x a Decimal."""
    with localcontext() as context:
        context.prec = 60 + int(x * x / 4)
        term = total = x
        k = 1
        while abs(term) > Decimal(10) ** -context.prec:
            term = term * x * x / (2 * k + 1)
            total, k = total + term, k + 1
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
        return Decimal("0.5") - total * (-x * x / 2).exp() / (2 * pi).sqrt()


def exact_gaussian_delta(mu, epsilon):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) to 40 digits, for these very floats."""
    with localcontext() as context:
        context.prec = 100
        mu, epsilon = Decimal(mu), Decimal(epsilon)
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        above = exact_tail(near) if near >= 0 else 1 - exact_tail(-near)
        return above - epsilon.exp() * exact_tail(far)
