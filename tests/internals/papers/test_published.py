"""More of tests/papers/test_published.py: what only private names show."""

import math

import numpy as np
import pytest

from skdpfl import papers
from skdpfl.papers._chang2022 import Schedule
from skdpfl.papers._renyi import gaussian_curve, wang_sampled
from tests.papers.test_published import variances_by_loop, wang_directly


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("y", [1e-6, 1e-3, 0.3, 2.0])
def test_wang_is_the_theorem(rate, y):
    ours = wang_sampled(gaussian_curve(y, 9), rate)
    for a in range(2, 11):
        assert ours[a - 2] == pytest.approx(wang_directly(lambda j: j * y, rate, a), rel=1e-9)


def test_wang_at_rate_one_samples_nothing():
    curve = gaussian_curve(0.1, 9)
    assert np.array_equal(wang_sampled(curve, 1.0), curve)


def test_wang_does_not_vanish_with_the_noise():
    """The artefact which the published numbers are made of: a positive limit for infinite noise."""
    rate, a = 0.2, 5
    limit = math.log1p(2 * sum(math.comb(a, j) * rate**j for j in range(3, a + 1))) / (a - 1)
    assert wang_sampled(gaussian_curve(1e-30, 4), rate)[-1] == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "name"),
    [({"scheme": 3}, "scheme"), ({"beta": 0}, "beta"), ({"start": -1}, "start"),
     ({"n_rounds": 0}, "n_rounds"), ({"local_steps": 0}, "local_steps")],
)  # fmt: skip
def test_schedules_that_are_none_are_named(change, name):
    words = {"scheme": 1, "beta": 0.9, "start": 2, "n_rounds": 9, "local_steps": 3}
    with pytest.raises(ValueError, match=f"^{name} must"):
        Schedule(**words | change)


SCHEDULES = [
    (0, 0.9, 3, 7, 4),
    (1, 0.9, 3, 7, 4),
    (2, 0.97, 3, 7, 4),
    (1, 0.9, 0, 5, 1),
    (2, 0.9, 0, 5, 1),
    (1, 0.9, 9, 7, 4),
    (2, 0.9, 7, 7, 4),
    (1, 1.0, 3, 7, 4),
    (2, 1.0, 3, 7, 4),
]


@pytest.mark.parametrize(("scheme", "beta", "start", "n_rounds", "tau"), SCHEDULES)
def test_chang_schedule(scheme, beta, start, n_rounds, tau):
    by_loop = variances_by_loop(scheme, 8, beta, start, n_rounds, tau)
    schedule = {"scheme": scheme, "beta": beta, "start": start, "local_steps": tau}
    ours = papers.chang2022_variances(sigma0_squared=8, n_rounds=n_rounds, **schedule)
    np.testing.assert_allclose(ours, by_loop, rtol=1e-12)
    bracket = bracket_of(n_rounds=n_rounds, **schedule)
    assert bracket == pytest.approx(np.sum(8 / by_loop) / tau, rel=1e-12)


def bracket_of(*, scheme, beta, start, n_rounds, local_steps):
    return Schedule(scheme, beta, start, n_rounds, local_steps).bracket()


@pytest.mark.parametrize(
    ("scheme", "beta", "n_rounds", "tau", "expected"),
    [
        (1, 0.998, 497, 50, 606.148),
        (2, 0.99992, 428, 50, 572.317),
        (1, 0.998, 500, 200, 611.607),
        (2, 0.99998, 400, 200, 506.384),
    ],
)
def test_chang_brackets(scheme, beta, n_rounds, tau, expected):
    bracket = bracket_of(scheme=scheme, beta=beta, start=200, n_rounds=n_rounds, local_steps=tau)
    assert bracket == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("scheme", "beta", "tau", "constant", "expected"),
    [
        (1, 0.998, 50, 600, 493),
        (2, 0.99992, 50, 600, 438),
        (1, 0.998, 200, 700, 546),
        (2, 0.99998, 200, 700, 474),
        (0, 0.5, 200, 700, 700),
        (1, 0.5, 200, 150, 150),
        (2, 1.0, 200, 700.5, 700),
    ],
)
def test_chang_stops(scheme, beta, tau, constant, expected):
    schedule = {"scheme": scheme, "beta": beta, "start": 200, "local_steps": tau}
    stop = papers.chang2022_rounds(constant_rounds=constant, **schedule)
    assert stop == expected
    assert bracket_of(n_rounds=stop, **schedule) <= constant
    assert bracket_of(n_rounds=stop + 1, **schedule) > constant
