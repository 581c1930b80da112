"""More of tests/privacy/test_merging.py: what only private names show."""

import math

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
from skdpfl.privacy.pricing.releases import merged

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
