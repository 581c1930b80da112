"""One round against a loop over persons, and means of histograms' rows."""

import numpy as np
import pytest

from skdpfl import DPFedAvgClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.federation import SiloBudgets, SiloData, exact_sums
from skdpfl.models import _products
from skdpfl.privacy.events import Guarantee
from skdpfl.scaling._curves import Histogram
from tests.persons.test_guarantee import visits

C = 0.6


def gradients(kind, X, y, params):
    """The gradient (P,) of each row of a linear model with these parameters (d + 1, k)."""
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


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("contribution", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["squared_error", "log_loss", "three"])
def test_rounds_follow_a_loop(kind, contribution, compiled, monkeypatch):
    """Less the noise, which a fit of zeros with the same seed shows."""
    if not compiled:
        monkeypatch.setattr(_products, "compiled", None)
    X, y, silos, persons = visits(300, per_person=4)
    drawn = np.random.default_rng(2).random(300) < 0.8  # 0 to 4 rows
    X, y, silos, persons = (a[drawn] for a in (X, y, silos, persons))
    if kind != "squared_error":
        y = np.digitize(y, [0.0] if kind == "log_loss" else [-0.5, 0.5])
    given = {"unit": "person", "contribution": contribution, "scaling": None, "n_rounds": 1,
             "learning_rate": 1.0, "clip_norm": C, "average": False, "random_state": 0}  # fmt: skip
    make, extra = (ISRLDPRegressor, {}) if kind == "squared_error" else (ISRLDPClassifier, {})
    est = make(50.0, **given, **extra)
    if kind != "squared_error":
        est.set_params(calibrate=False)
    est.fit(X, y, silos=silos, persons=persons)
    found = np.vstack([np.atleast_2d(est.coef_).T, np.atleast_1d(est.intercept_)])
    start = np.zeros_like(found)
    noiseless = -by_hand(kind, X, y, silos, persons, start, contribution == "mean")
    # rows without features and weight give no gradient: what is left is the noise
    none = est.fit(0 * X, y, silos=silos, persons=persons, sample_weight=1e-30 + 0 * X[:, 0])
    noise = np.vstack([np.atleast_2d(none.coef_).T, np.atleast_1d(none.intercept_)])
    clip = est.plan_.mechanism.gradient_terms(est.plan_, found.size, np.dtype(float)).clip[0]
    assert np.abs(found - noise - noiseless * clip / C).max() < 2e-4


def test_labels_do_not_steer_label_free_clipping():
    """The factor is at most C over the mean of |z_j| max(p_j, 1 - p_j), whatever the labels."""
    X, _, silos, persons = visits(300)
    moved = []
    for labels in (np.arange(300) % 2, np.ones(300, int), 1 - np.arange(300) % 2):
        est = ISRLDPClassifier(80.0, unit="person", feature_bounds=(-5, 5), n_rounds=1, classes=[0, 1],
                               calibrate=False, random_state=0, average=False)  # fmt: skip
        est.fit(X, labels, silos=silos, persons=persons)
        moved.append(np.append(est.coef_, est.intercept_))
    # at zero all probabilities are a half: flipping all labels turns the sum around
    middle = (moved[0] + moved[2]) / 2
    other = ISRLDPClassifier(80.0, unit="person", feature_bounds=(-5, 5), n_rounds=1, classes=[0, 1],
                             calibrate=False, random_state=0, average=False)  # fmt: skip
    other.fit(X, np.zeros(300, int), silos=silos, persons=persons)
    last = np.append(other.coef_, other.intercept_)
    assert np.allclose(middle, (moved[1] + last) / 2, atol=1e-5)


def test_bad_rows_count_as_zeros_in_the_mean():
    """Rows that overflow leave the rest of the person's rows, divided by all of them."""
    X, y, silos, persons = visits(60)
    given = {"unit": "person", "scaling": None, "n_rounds": 1, "learning_rate": 1.0}
    est = DPFedAvgClassifier(np.inf, local_steps=1, clip_norm=C, average=False, **given)
    y = (y > 0).astype(int)
    row = np.flatnonzero(persons == 3)[0]
    far, none = X.copy(), X.copy()
    far[row], none[row] = 1e200, 0.0
    one = est.fit(far, y, silos=silos, persons=persons).coef_
    two = est.fit(none, y, silos=silos, persons=persons).coef_
    assert np.allclose(one, two, atol=1e-12)


def test_histograms_are_sums_of_means():
    X, _, silos, persons = visits(300, per_person=5)
    what = Histogram(np.array([0, 2]), (np.array([-0.5, 0.5]), np.array([0.0])))
    data = SiloData.from_codes(X, X[:, 0], silos, 3, of_row=silos * 100 + persons)
    data = SiloData.from_codes(
        X, X[:, 0], silos, 3, of_row=np.unique(silos * 100 + persons, return_inverse=True)[1]
    )
    budgets = SiloBudgets.of(Guarantee("person"), data.units, 1.0)
    ((_, sums),) = exact_sums(what, data, budgets)
    cells = np.stack([np.searchsorted([-0.5, 0.5], X[:, 0], "right"), 3 + (X[:, 2] >= 0)])
    wanted = np.zeros((3, 5))
    for person in np.unique(persons):
        own = np.flatnonzero(persons == person)
        for column in cells:
            np.add.at(wanted[silos[own[0]]], column[own], 1 / len(own))
    assert np.allclose(sums, wanted)
    assert what.noised(budgets, np.ones(3)).std[0] >= what.diameter
