"""Private Kaplan-Meier curves: near the exact ones, monotone, priced, and refused in words."""

import warnings

import numpy as np
import pandas as pd
import pytest

from benchmarks.survival import exact_curve, study
from skdpfl.exceptions import BudgetExceeded
from skdpfl.federation import Federation
from skdpfl.inspection import kaplan_meier
from skdpfl.privacy import PrivacyLedger

HORIZON = {"target_bounds": (0, 10)}


@pytest.mark.parametrize("trust", ["silo", "secagg", "server"])
def test_curves_are_within_the_floor(trust):
    """3 x 1,500 records, epsilon 3: .03 in the mean over seeds; it is below .005."""
    worst, covered = [], []
    for seed in range(4):
        _, y, silos, _ = study(seed)
        curve = kaplan_meier(y, epsilon=3, silos=silos, trust=trust, random_state=seed, **HORIZON)
        exact = exact_curve(y, curve.loc["all"].index.to_numpy())
        worst.append(np.abs(curve["survival"] - exact).max())
        covered.append(((curve["low"] <= exact) & (exact <= curve["high"])).mean())
        assert curve.attrs["privacy_spent"].epsilon <= 3
    assert np.mean(worst) < 0.01
    assert np.mean(covered) > 0.9


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """Noise and sample: over 200 studies of 300 records, at each time within .90 and .99."""
    at = np.array([2.0, 5.0, 10.0])
    inside = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        died, left = rng.exponential(8, 300), rng.uniform(0, 20, 300)
        y = pd.DataFrame({"died": died <= left, "years": np.minimum(died, left)})
        curve = kaplan_meier(y, epsilon=1, breaks=at[:-1], random_state=seed, **HORIZON)
        truth = np.exp(-at / 8)
        inside.append((curve["low"] <= truth) & (truth <= curve["high"]))
    shares = np.mean(inside, axis=0)  # a standard error of .016
    assert (shares > 0.87).all()
    assert (shares < 0.995).all()


def test_without_noise_it_is_the_life_table():
    _, y, _, _ = study(0, 600)
    fine = kaplan_meier(y, epsilon=np.inf, breaks=500, **HORIZON)
    exact = exact_curve(y, fine.loc["all"].index.to_numpy())
    np.testing.assert_allclose(fine["survival"], exact, atol=0.004)


def test_curves_fall_and_stay_within_zero_and_one():
    _, y, silos, _ = study(0, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = kaplan_meier(y, epsilon=0.3, breaks=20, silos=silos, random_state=0, **HORIZON)
    shown = curve.dropna()
    assert 0 < len(shown) < 20  # noise hides who is left at the end
    assert curve["survival"].isna().to_numpy()[-1]
    for name in ("survival", "low", "high"):
        assert (np.diff(shown[name]) <= 0).all()
        assert shown[name].between(0, 1).all()
    assert (shown["low"] <= shown["survival"]).all()
    assert (shown["survival"] <= shown["high"]).all()


def groups_of(X):
    words = np.where(X[:, 3] > 0, "drug", "placebo")
    return {
        "bool": (X[:, 3] > 0, [False, True]),
        "text": (words, ["drug", "placebo"]),
        "category": (pd.Series(words, dtype="category"), ["drug", "placebo"]),
        "gaps": (pd.Series(words).where(np.arange(len(X)) % 5 > 0), ["drug", "placebo"]),
        "numbers": (X[:, 3].astype(int), [0, 1]),
    }


@pytest.mark.parametrize("kind", groups_of(np.zeros((1, 4))))
def test_groups_have_their_own_curves(kind):
    X, y, silos, _ = study(1)
    by, levels = groups_of(X)[kind]
    curves = kaplan_meier(y, by=by, epsilon=2, silos=silos, random_state=0, **HORIZON)
    assert curves.index.names == ["group", "time"]
    assert curves.index.get_level_values(0).unique().tolist() == levels
    known = pd.notna(pd.Series(by)).to_numpy()
    for level in levels:
        own = y[known & (np.asarray(by) == level)]
        exact = exact_curve(own, curves.loc[level].index.to_numpy())
        np.testing.assert_allclose(curves.loc[level, "survival"], exact, atol=0.03)
    assert curves.attrs["privacy_spent"].epsilon <= 2


def test_declared_groups_are_shown_whoever_is_in_them():
    X, y, _, _ = study(1, 900)
    named = {"groups": ["placebo", "drug", "nobody"], "random_state": 0}
    curves = kaplan_meier(y, by=groups_of(X)["text"][0], **named, **HORIZON)
    assert curves.index.get_level_values(0).unique().tolist() == named["groups"]
    assert curves.loc["nobody"].isna().all().all()


def test_a_ledger_is_charged_once_for_all():
    X, y, silos, _ = study(1, 900)
    by = groups_of(X)["text"][0]
    with PrivacyLedger(epsilon=1.0) as ledger:
        kaplan_meier(y, by=by, epsilon=0.9, silos=silos, **HORIZON)
        assert ledger.spent.epsilon <= 0.9
        with pytest.raises(BudgetExceeded):
            kaplan_meier(y, epsilon=0.9, silos=silos, **HORIZON)


class Elsewhere(Federation):
    n_silos = 2


Elsewhere.__abstractmethods__ = frozenset()
WRONG = {
    "no horizon": ({}, {"target_bounds": None}, "target_bounds"),
    "breaks": ({}, {"breaks": [3, 12]}, "breaks"),
    "confidence": ({}, {"confidence": 95}, "confidence"),
    "epsilon": ({}, {"epsilon": 0}, "epsilon"),
    "times": ({"y": np.ones(90)}, {}, "event .* time"),
    "by": ({}, {"by": np.ones(5)}, "one group for each of the 90"),
    "rare groups": ({}, {"by": np.arange(90).astype(str)}, "groups="),
    "elsewhere": ({"y": Elsewhere()}, {}, "need facts"),
    "groups elsewhere": ({"y": Elsewhere()}, {"by": "sex"}, "declare the values of by"),
    "trust": ({}, {"trust": "nobody"}, "trust"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore:No value:UserWarning")
def test_what_is_wrong_is_said(case):
    other, given, words = WRONG[case]
    y = other.get("y", study(0, 90)[1])
    with pytest.raises(ValueError, match=words):
        kaplan_meier(y, **(HORIZON | given))
