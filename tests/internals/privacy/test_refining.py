"""More of tests/privacy/test_refining.py: what only private names show."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdpfl.privacy.events import (
    Approximate,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
    Profile,
    compose,
)
from skdpfl.privacy.pricing import loss_pairs, price
from skdpfl.privacy.pricing.price import LossProduct
from skdpfl.privacy.pricing.releases import approximate_pair, merged, profile_pair
from tests.internals.privacy.test_accounting import delta_on
from tests.privacy.test_refining import epsilon_of_one

PAIRS = [
    loss_pairs.ReplacePair(1e-3, 1.5),
    loss_pairs.ZeroOutPair(0.1, 1.0),
    loss_pairs.FixedSizePair(0.1, 2.0),
    loss_pairs.ReplacePair(1.0, 0.7),
]


PAIRS += [approximate_pair(0.7, 1e-3), profile_pair((0.1, 0.5, 1.0), (0.2, 0.1, 1e-3))]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("direction", [0, 1])
def test_a_grid_that_is_cut_off_keeps_both_probabilities(pair, direction):
    h = 0.05
    whole = pair.grids(loss_pairs.Grid(h, 1e-14, 1e-14, 10**6))[direction]
    cut = pair.grids(loss_pairs.Grid(h, 1e-14, 1e-300, 10**6, 0.4))[direction]
    assert abs(cut.losses).max() <= 0.4 + h
    assert cut.probs.min() >= 0
    assert cut.probs.sum() + cut.infinite == pytest.approx(1.0, abs=1e-12)
    end = cut.losses[-1]
    for epsilon in (0.0, 0.1, 0.3, end):  # the same below the end, more beyond it
        assert delta_on(cut, epsilon) == pytest.approx(delta_on(whole, epsilon), abs=1e-8)
    for epsilon in (end + 0.05, 1.0, 2.0):
        assert delta_on(cut, epsilon) >= delta_on(whole, epsilon) - 1e-13


def exact_delta(parts, epsilon):
    """Delta of sums of grid losses in fractions; nothing is cut off."""
    total = {0: Fraction(1)}
    infinite = Fraction(0)
    for loss, n in parts:
        for _ in range(n):
            law = {loss.low + k: Fraction(p) for k, p in enumerate(loss.probs.tolist()) if p}
            infinite += (1 - infinite) * Fraction(loss.infinite)
            after = {}
            for a, p in total.items():
                for b, q in law.items():
                    after[a + b] = after.get(a + b, Fraction(0)) + p * q
            total = after
    h = parts[0][0].h
    finite = sum(float(p) * -math.expm1(min(0.0, epsilon - h * k)) for k, p in total.items())
    return float(infinite) + finite


@pytest.mark.parametrize("room", [0, 16])
@pytest.mark.parametrize("seed", range(5))
def test_products_bound_exact_sums(seed, room):
    """Sums of five losses within 4 steps: without room, sums beyond 4 steps are cut off."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (3, 2):
        probs = np.pad(10.0 ** rng.uniform(-40, 0, 9), room)
        probs *= (1 - 1e-30) / probs.sum()
        parts.append((loss_pairs.GridLoss(0.25, -4 - room, probs, 1e-30), n))
    ours = LossProduct(tuple(parts), 10**6)
    for epsilon in (0.3, 1.0, 2.7):
        exact = exact_delta(parts, epsilon)
        bound = ours.infinite + ours.finite_delta(epsilon, exact).value
        assert exact * (1 - 1e-12) <= bound
        if room:
            assert bound <= exact * (1 + 1e-6)
            assert ours.epsilon(bound * (1 + 1e-9)).value <= epsilon * 1.01


def test_every_price_on_the_way_is_a_bound(monkeypatch):
    """No price that the refinement meets, however coarse its grid, lies below the truth."""
    truth = epsilon_of_one(FixedSizeGaussian, 3.35, 0.003, 1e-20)
    for points in (2**4, 2**6, 2**8):
        monkeypatch.setattr(price, "_FIRST_POINTS", points)
        pairs = price.releases(((FixedSizeGaussian(3.35, 0.003), 1),), "replace").pairs
        prices = list(price.refined(pairs, 1e-20, 5.0, lambda s: s.epsilon(1e-20), True))
        assert len(prices) >= 2
        assert min(prices) >= truth * (1 - 1e-9)


def test_products_whose_every_rounding_is_the_worst(monkeypatch):
    """Each convolution loses its N + 2 roundings; 2^18 releases lose 5e-9 in all."""
    probs = np.zeros(81)
    probs[[39, 40, 41]] = 1e-6, 1 - 2.1e-6, 1.1e-6
    loss = loss_pairs.GridLoss(0.01, -40, probs, 1e-12)
    convolve, n = np.convolve, 2**18

    def bound():
        total = LossProduct(((loss, n),), 10**6)
        return np.array([total.infinite, total.finite_delta(0.03, 1e-9).value])

    stated = bound()
    with monkeypatch.context() as patch:
        patch.setattr(LossProduct, "_rounding", property(lambda self: 0.0))
        exact = bound()
    monkeypatch.setattr(np, "convolve", lambda a, b: convolve(a, b) * (1 - (a.size + 2) * 2.0**-52))
    assert (stated > exact * (1 + 4e-9)).all() and (stated < exact * (1 + 1e-6)).all()
    assert bound()[1] >= exact[1]


STEP = Profile((0.0, 1.0), (0.3, 0.0))


def many(kind, n, seed=0):
    """n distinct releases of a kind, some of them repeated."""
    rng = np.random.default_rng(seed)
    first = np.exp(rng.uniform(math.log(1), math.log(4), n))
    second = np.exp(rng.uniform(math.log(0.01), math.log(0.02), n))
    if kind is Approximate:
        second *= 1e-6
        second[::3] = 0.0
    numbers = zip(first.tolist(), second.tolist(), range(n), strict=True)
    return tuple((kind(a, b), 1 + i % 3) for a, b, i in numbers)


KINDS = [PoissonGaussian, FixedSizeGaussian, Approximate]


@pytest.mark.parametrize("kind", KINDS)
def test_every_release_is_priced_as_one_that_exceeds_it(kind):
    parts = many(kind, 1000)
    fewer = merged(parts, 60)
    assert 30 <= len(fewer) <= 60
    assert sum(n for _, n in fewer) == sum(n for _, n in parts)
    # each given release lies below a merged one, and those that lie below few are no more than it
    above = np.array([[exceeds(m, event) for m, _ in fewer] for event, _ in parts])
    assert above.any(axis=1).all()
    counts, room = np.array([n for _, n in parts]), np.array([n for _, n in fewer])
    for some in np.eye(len(fewer), dtype=bool):
        only = (above <= some).all(axis=1)
        assert counts[only].sum() <= room[some].sum()
    assert merged(parts, len(parts)) is parts


def exceeds(x, y):
    if isinstance(x, Approximate):
        return x.epsilon >= y.epsilon and x.delta >= y.delta
    return x.noise_multiplier <= y.noise_multiplier and x.sampling_rate >= y.sampling_rate


def test_what_has_no_like_stays_what_it_is():
    kept = ((Gaussian(3.0), 2), (STEP, 5), *((Gaussian(float(z)), 1) for z in range(10, 300)))
    parts = compose([*kept, *many(PoissonGaussian, 300), (PoissonGaussian(0.0, 0.5), 1)])
    fewer = dict(merged(parts, 20))
    assert {**fewer, **dict(kept)} == fewer
    assert fewer[PoissonGaussian(0.0, 0.5)] == 1  # not merged with a little noise
    assert len(fewer) <= len(kept) + 20
