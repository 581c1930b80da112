"""One round against a loop over persons, and means of histograms' rows."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.federation import _batches, _sums
from skdpfl.federation._batches import PrivateGradient
from skdpfl.losses import LogLoss, PiecewiseExponential, SquaredError
from skdpfl.models import LinearModel, OneSlope, Records, _products
from skdpfl.scaling._moments import ColumnSums
from tests.internals.persons.test_guarantee import visits

C = 0.6


CUTS = (0.25, 0.5, 0.75)


def gradients(kind, X, y, params):
    """The gradient (d + 1, k) of each row of a linear model with these parameters (d + 1, k)."""
    raw = X @ params[:-1] + params[-1]
    if kind == "squared_error":
        slopes = raw - y[:, None]
    elif kind == "log_loss":
        slopes = 1 / (1 + np.exp(-raw)) - y[:, None]
    else:
        slopes = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True) - np.eye(3)[y]
    return np.einsum("nd,nk->ndk", np.hstack([X, np.ones((len(X), 1))]), slopes)


def by_hand(kind, X, y, silos, persons, params, mean):
    """The mean over silos, by persons, of their mean over persons of clipped gradients."""
    total = np.zeros_like(params)
    for person in np.unique(persons):
        own = persons == person
        each = gradients(kind, X[own], y[own], params)
        g = each.mean(axis=0) if mean else each.sum(axis=0)
        total += g * min(1.0, C / np.linalg.norm(g))
    return total / len(np.unique(persons))


def parameters(est):
    """The fitted parameters (d + 1, k)."""
    return np.vstack([np.atleast_2d(est.coef_).T, np.atleast_1d(est.intercept_)])


@pytest.mark.parametrize("contribution", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["squared_error", "log_loss", "three"])
def test_rounds_follow_a_loop(kind, contribution):
    """Less the noise, which a fit of zeros with the same seed shows."""
    X, y, silos, persons = visits(300, per_person=4)
    drawn = np.random.default_rng(2).random(300) < 0.8  # 0 to 4 rows
    X, y, silos, persons = (a[drawn] for a in (X, y, silos, persons))
    if kind != "squared_error":
        y = np.digitize(y, [0.0] if kind == "log_loss" else [-0.5, 0.5])
    given = {"unit": "person", "contribution": contribution, "scaling": None, "n_rounds": 1,
             "learning_rate": 1.0, "clip_norm": C, "average": False, "random_state": 0}  # fmt: skip
    make = ISRLDPRegressor if kind == "squared_error" else ISRLDPClassifier
    given |= {} if kind == "squared_error" else {"calibrate": False}
    est = make(50.0, **given)
    est.fit(X, y, silos=silos, persons=persons)
    found = parameters(est)
    start = np.zeros_like(found)
    noiseless = -by_hand(kind, X, y, silos, persons, start, contribution == "mean")
    # rows without features and weight give no gradient: what is left is the noise
    none = est.fit(0 * X, y, silos=silos, persons=persons, sample_weight=1e-30 + 0 * X[:, 0])
    noise = parameters(none)
    clip = est.plan_.mechanism.gradient_terms(est.plan_, found.size, np.dtype(float)).clip[0]
    assert np.abs(found - noise - noiseless * clip / C).max() < 2e-4


@pytest.mark.parametrize("mean", [True, False])
def test_label_free_clipping_bounds_all_labels(mean):
    """The factor is min(1, C / mean of |z_j| max(p_j, 1 - p_j)): the same for any labels."""
    rng, edges = np.random.default_rng(0), np.array([0, 3, 5, 10, 12])
    X, params = rng.normal(size=(12, 4)), rng.normal(size=5)
    model, loss = LinearModel(4, 1), LogLoss().without_labels()
    records = Records.in_turn(X, [5, 7])
    norms = model.squared_row_norms(X)
    for y in (np.zeros(12), np.ones(12), rng.integers(0, 2, 12) * 1.0):
        found = model.person_gradient_sums(
            params, records, edges, y, loss, clip_norm=C, squared_norms=norms, mean=mean
        )
        wanted, rows = np.zeros((2, 5)), np.hstack([X, np.ones((12, 1))])
        p = 1 / (1 + np.exp(-rows @ params))
        most = np.linalg.norm(rows, axis=1) * np.maximum(p, 1 - p)
        for person, (a, b) in enumerate(pairwise(edges)):
            n = b - a if mean else 1
            factor = min(1 / n, C / most[a:b].sum())
            wanted[person // 2] += factor * (p - y)[a:b] @ rows[a:b]
        assert np.allclose(found, wanted, rtol=1e-6)


@pytest.mark.skipif(_products.compiled is None, reason="nothing is compiled")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "loss", [SquaredError(), LogLoss(), LogLoss().without_labels(), PiecewiseExponential(CUTS)]
)
def test_compiled_sums_are_those_of_numpy(loss, dtype, monkeypatch):
    """Many persons, chunks and silos, rows that are not finite, 1 to 30 rows a person."""
    rng, sizes = np.random.default_rng(0), [900, 0, 400]
    X = rng.normal(size=(1300, 7)).astype(dtype)
    X[5], X[700] = np.inf, np.nan
    y = rng.integers(0, 2, 1300).astype(dtype)
    inner = rng.choice(np.arange(1, 1300), 200, replace=False)
    edges = np.unique(np.concatenate([[0, 900, 1300], inner]))
    model = OneSlope(7, 4) if loss.one_slope else LinearModel(7, 1)
    params = rng.normal(size=(3, model.size)).astype(dtype)
    records, norms = Records.in_turn(X, sizes), model.squared_row_norms(X)
    given = {"clip_norm": np.array([0.5, 1.0, 2.0]), "squared_norms": norms, "chunk": 64}

    def sums(mean):
        return model.person_gradient_sums(params, records, edges, y, loss, mean=mean, **given)

    found = [sums(mean) for mean in (True, False)]
    with monkeypatch.context() as patched:
        patched.setattr(_products, "compiled", None)
        wanted = [sums(mean) for mean in (True, False)]
    close = 1e-4 if dtype == np.float32 else 1e-11
    assert np.allclose(found, wanted, rtol=close, atol=close)
    for people in (
        () if loss.one_slope else ([0, 950, 1300], [0, 900], [0, 900, 900, 1300], [1, 900, 1300])
    ):
        with pytest.raises(ValueError, match="people: must"):
            model.person_gradient_sums(
                params, records, np.array(people), y, loss, mean=True, **given
            )


def test_means_that_are_rounded_twice_stay_within_the_radius():
    """Of two terms at the radius, whose mean lies between steps in all coordinates but one."""
    n = 9
    one = np.append(np.full(n, 2.0**25 + 1), 2.0**25 * 1.12 // 1)
    two = one + np.append(np.resize([1, -1], n), 0)
    one[1:n:2] -= 1
    two[1:n:2] -= 1
    both = np.array([one, two]) * _sums.STEP
    radius = float(np.linalg.norm(both, axis=1).max())
    known = {"shape": (n + 1, 1), "weight": 1.0, "radius": radius, "diameter": 2 * radius}
    what = SimpleNamespace(**known, middle=_sums.Middle(0.0, 0.0, radius), slack=radius)
    means = ColumnSums.mean(what, both.sum(axis=0).reshape(1, -1, 1), np.array([2]))
    assert np.linalg.norm(_sums.rounded_means(what, means)) <= radius


def test_a_silo_is_cut_by_its_own_rows(monkeypatch):
    """No bit of a silo's sum depends on how many rows a person of another silo has."""
    monkeypatch.setattr(_batches, "PART", 2**14)
    rng, found = np.random.default_rng(0), []
    persons = np.repeat(np.arange(2000), np.resize([1, 2], 2000))
    X = rng.normal(size=(len(persons), 4)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=len(X))
    sums, whole = [], PrivateGradient._sum
    monkeypatch.setattr(
        PrivateGradient, "_sum", lambda *given: sums.append(whole(*given)) or sums[-1].copy()
    )
    for more in (0, 20_000):
        rows = np.append(np.arange(len(y)), np.zeros(more, int))
        est = ISRLDPRegressor(2.0, unit="person", scaling=None, n_rounds=1, clip_norm=1.0,
                              learning_rate=0.1, random_state=0)  # fmt: skip
        est.fit(X[rows], y[rows], silos=persons[rows] // 2 % 2, persons=persons[rows])
        found.append(np.concatenate(sums)[1])
        sums.clear()
    assert np.array_equal(*found)
