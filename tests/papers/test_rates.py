"""What the convergence theorems bound, against a second reading of them and against runs."""

import math

import numpy as np
import pytest

from skdpfl import papers
from skdpfl.privacy import noise_multiplier_for


def setting_of(rng):
    M, K = int(rng.integers(1, 30)), int(rng.integers(1, 20))
    return {
        "n_silos": M, "silo_rate": int(rng.integers(1, M + 1)) / M, "local_steps": K,
        "noise": float(rng.exponential()),
    }  # fmt: skip


def solved(start, h, mu, T, gain, paid):
    """The sum of (1 - mu h/2)^-(t+1) times a round's inequality, term by term."""
    weights = [(1 - mu * h / 2) ** -(t + 1) for t in range(T)]
    return (start + paid * sum(weights)) / (gain * sum(weights))


def fedavg_directly(steps, nu, M, S, K, v, G, B, mu, convex, T, start):
    """A round's inequality at Phi (or |grad F|^2) of 0 and 1, from which its two numbers follow."""
    h, eg = K * steps.global_step * steps.local_step, steps.global_step
    q = (1 - (S - 1) / (M - 1)) / S if M > 1 else 0.0

    def fall(progress):
        square = 2 * nu * progress if convex else progress
        spread = G**2 + B**2 * square
        E = (h / eg) ** 2 * (2.75 * spread + 1.375 * v / K)
        move = h**2 * (4 * nu**2 * E + 4 * square + 4 * q * spread + 2 * v / (K * S))
        if convex:
            return -2 * h * progress + 2 * nu * h * E + move
        return -h / 2 * progress + nu**2 * h / 2 * E + nu / 2 * move

    return solved(start, h, mu, T, fall(0) - fall(1), fall(0))


@pytest.mark.parametrize("seed", range(12))
def test_fedavg_bound_is_the_round_of_the_text(seed):
    rng = np.random.default_rng(seed)
    silos, nu, G, B = setting_of(rng), rng.exponential(), rng.exponential(), 1 + rng.exponential()
    noise, convex = silos.pop("noise"), seed % 3 > 0
    mu, T, start = 0.3 * nu * (seed % 3 == 1), int(rng.integers(1, 200)), rng.exponential()
    steps = papers.noble2022_fedavg_steps(smoothness=nu, dissimilarity=B, **silos)
    ours = papers.noble2022_fedavg_bound(
        steps, smoothness=nu, spread=G, dissimilarity=B, strong_convexity=mu, convex=convex,
        n_rounds=T, start=start, noise=noise, **silos,
    )  # fmt: skip
    M, S = silos["n_silos"], silos["silo_rate"] * silos["n_silos"]
    at = steps, nu, M, S, silos["local_steps"], noise, G, B, mu, convex, T, start
    assert ours == pytest.approx(fedavg_directly(*at), rel=1e-9)


def scaffold_directly(steps, nu, M, S, K, v, mu, T, start, C, convex=True):
    """The least kappa by bisection; then the fall of r or F and kappa C at progress 0 and 1."""
    h, eg, share = K * steps.global_step * steps.local_step, steps.global_step, S / M
    q = (1 - (S - 1) / (M - 1)) / S if M > 1 else 0.0

    def after(kappa, phi, control):
        if not convex:
            E = (h / eg) ** 2 * (4.125 * (phi + control) + 1.375 * v / K)
            move = 4 * h**2 * (nu**2 * E + phi + q * control + v / (K * S))
            later = (1 - share / 2) * control + 3 * share * (nu**2 * E + v / K)
            F = -h / 2 * phi + nu**2 * h / 2 * E + nu / 2 * move
            return F + kappa * (later + 3 / share * nu**2 * move)
        kappa = kappa * h**2 / (share * S)
        E = (h / eg) ** 2 * (4.125 * (2 * nu * phi + control) + 1.375 * v / K)
        r = -2 * h * phi + 2 * nu * h * E
        r += 4 * h**2 * (nu**2 * E + 2 * nu * phi + q * control + v / (K * S))
        fresh = 3 * share * (nu**2 * E + 2 * nu * phi + v / K)
        return r + kappa * ((1 - share) * control + fresh)

    scale = h**2 / (share * S) if convex else 1.0

    def falls(kappa):
        factor = after(kappa, 0, 1) - after(kappa, 0, 0)
        return factor <= kappa * scale * (1 - mu * h / 2)

    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    gain = after(high, 0, 0) - after(high, 1, 0)
    return solved(start + high * scale * C, h, mu, T, gain, after(high, 0, 0))


@pytest.mark.parametrize("seed", range(12))
def test_scaffold_bound_is_the_round_of_the_text(seed):
    rng = np.random.default_rng(seed)
    silos, nu, start, C = setting_of(rng), rng.exponential(), rng.exponential(), rng.exponential()
    noise, T = silos.pop("noise"), int(rng.integers(1, 200))
    mu = 0.3 * nu * (seed % 2)
    steps = papers.noble2022_scaffold_steps(smoothness=nu, strong_convexity=mu, **silos)
    known = {"smoothness": nu, "strong_convexity": mu, "n_rounds": T, "start": start}
    ours = papers.noble2022_scaffold_bound(steps, control_error=C, noise=noise, **known, **silos)
    M, S, K = silos["n_silos"], silos["silo_rate"] * silos["n_silos"], silos["local_steps"]
    at = steps, nu, M, S, K, noise, mu, T, start
    assert ours == pytest.approx(scaffold_directly(*at, C), rel=1e-9)
    warm = papers.noble2022_scaffold_bound(steps, noise=noise, **known, **silos)
    assert warm == pytest.approx(scaffold_directly(*at, nu**2 * start + noise / K), rel=1e-9)
    known |= {"convex": False, "strong_convexity": 0.0}
    warm = papers.noble2022_scaffold_bound(steps, noise=noise, **known, **silos)
    at = steps, nu, M, S, K, noise, 0.0, T, start
    assert warm == pytest.approx(scaffold_directly(*at, noise / K, convex=False), rel=1e-6)


# ----------------------------------------------------------------------------- ISRL-DP


@pytest.mark.parametrize("seed", range(8))
def test_lowy_rate_is_the_table_of_the_text(seed):
    rng = np.random.default_rng(seed)
    n, M, d = (int(v) for v in rng.integers(1, 1000, 3))
    L, D, mu, eps, delta = rng.exponential(size=5) + 0.01
    delta /= 1e5
    known = {"lipschitz": L, "n_records": n, "n_silos": M, "n_parameters": d, "epsilon": eps}
    e = {
        "silo": d**0.5 / (eps * n * M**0.5),
        "server": d**0.5 / (eps * n * M),
        "record": d**0.5 / (eps * (n * M) ** 0.5),
    }
    for by, cost in e.items():
        for empirical in (False, True):
            own = {"noise_by": by, "empirical": empirical}
            s = 0 if empirical else 1 / (n * M)
            upper = cost * math.sqrt(math.log(1 / delta))
            convex, curved = {"diameter": D}, {"strong_convexity": mu}
            for more, private in ({}, min(1, cost)), ({"delta": delta}, upper):
                rate = papers.lowy2023_rate(**known, **own, **more, **convex)
                assert rate == pytest.approx(L * D * (s**0.5 + private))
                rate = papers.lowy2023_rate(**known, **own, **more, **curved)
                assert rate == pytest.approx(L**2 / mu * (s + private**2))


def test_lowy_bound_with_noise_of_ones_own():
    known = {
        "lipschitz": 2.0, "diameter": 3.0, "n_records": 1000, "n_silos": 25, "n_parameters": 10,
        "n_rounds": 35, "batch": 100, "epsilon": 1.0, "delta": 1e-6,
    }  # fmt: skip
    logs = math.log(2.5 * 35 * 100 / (1e-6 * 1000)) * math.log(2e6)
    sigma = 16 * 2.0 * math.sqrt(35 * logs) / 1000
    theirs = papers.lowy2023_bound(0.1, **known)
    assert papers.lowy2023_bound(0.1, noise=sigma, **known) == pytest.approx(theirs)
    less = papers.lowy2023_bound(0.1, noise=sigma / 2, **known)
    assert theirs - less == pytest.approx(0.1 * 10 * sigma**2 * 0.75 / (2 * 25))


def lower_directly(n, N, d, epsilon, delta, power, empirical):
    """The formulas of the text, searched over a grid; over L D or L^2 / mu."""
    eta = math.exp(epsilon) - 1 + math.sqrt(8 * d * delta)
    if not empirical and power == 2:
        k = min(N**0.5 * n * eta / d**0.5, (2 * n * N / 3) ** 0.5)
        return (2 / 3 / (2 / 3**0.5 + k)) ** 2 / 8
    if not empirical:
        a = 1 / 3 - N**0.5 * n * (2 * delta) ** 0.5
        b = N**0.5 * n * (math.exp(epsilon) - 1) / (2 * d**0.5)
        grid = np.exp(np.linspace(-20, 0, 400_001))
        return max(1 / (4 * (6 * n * N) ** 0.5), (grid * (a - b * grid)).max() / 2)
    found = [0.0]
    for m in range(1, n + 1):
        k = N**0.5 * m * eta / d**0.5
        if power == 1:
            found.append(m / n * (1 / 3 - N**0.5 * eta * (m / 2 + 1 / N) / d**0.5) / 2)
        elif k < 2 / 3:
            found.append((m / n * (2 / 3 - k) / (2 / 3**0.5 + k)) ** 2 / 8)
    return max(found)


@pytest.mark.parametrize("seed", range(12))
def test_lower_bound_is_that_of_the_text_and_below_a_private_mean(seed):
    """That of mu/2 |w - x|^2, whose silos send one noisy mean of records of norm L / (2 mu)."""
    rng = np.random.default_rng(seed)
    n, N, d = (int(v) for v in np.exp(rng.uniform(0, [6, 3, 7])).round())
    L, D, mu, epsilon = rng.exponential(size=4) + 0.01
    delta = 0.0 if seed % 2 else 1e-9
    known = {"lipschitz": L, "n_records": n, "n_silos": N, "n_parameters": d, "epsilon": epsilon}
    for power, scale, own in (1, L * D, {"diameter": D}), (2, L**2 / mu, {"strong_convexity": mu}):
        for empirical in (False, True):
            ours = papers.lowy2023_lower_bound(
                **known, **own, delta=delta, empirical=empirical
            )  # fmt: skip
            theirs = lower_directly(n, N, d, epsilon, delta, power, empirical)
            assert ours == pytest.approx(scale * theirs, rel=1e-6)
            order = papers.lowy2023_rate(**known, **own, empirical=empirical)
            assert ours < order
    z = noise_multiplier_for(epsilon=epsilon, delta=1e-9, n_steps=1, sampling_rate=1.0)
    mean = (2 / 3 / n + z**2 * d / n**2) / N
    own = {"strong_convexity": mu, "delta": 1e-9}
    assert papers.lowy2023_lower_bound(**known, **own) <= L**2 / (8 * mu) * mean
