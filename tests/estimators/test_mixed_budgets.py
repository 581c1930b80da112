"""Silos with budgets of their own: weights, scales at each silo's noise, and their prices."""

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.privacy.events import Gaussian
from tests.guaranteed import plan_of

SIZES = pd.Series({"a": 300, "b": 500, "c": 200})
BOUNDS = {"feature_bounds": (-4, 4)}


def plan_for(epsilon, sizes=SIZES, **kw):
    clf = skdpfl.ISRLDPClassifier(epsilon, random_state=0, **BOUNDS | kw)
    return clf.plan_for(silo_sizes=sizes, n_features=6)


# ---- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kw",
    [
        {"epsilon": 1.0},
        {"epsilon": {"a": 1.0, "b": 1.0, "c": 1.0}},
        {"epsilon": {"a": np.inf, "b": np.inf, "c": np.inf}},
        {"epsilon": {"a": 0.3, "b": 3.0, "c": 1.0}, "silo_weights": "size"},
        {"epsilon": {"a": 0.3, "b": 3.0, "c": 1.0}, "trust": "server"},
        {"epsilon": 1.0, "delta": {"a": 1e-6, "b": 1e-5, "c": 1e-4}},
    ],
    ids=str,
)
def test_sizes_where_budgets_are_alike_or_asked_for(kw):
    assert np.array_equal(plan_for(**kw).weights, SIZES.to_numpy() / 1000)


# ---- scales, each silo's at its own noise --------------------------------------------------------


def test_releases_beside_count_even_where_all_train_alike():
    """One noise for all: the silo that released most beside decides it, be it the last of many."""
    setups = tuple(((Gaussian(z), 1),) for z in (50.0, 4.0, 50.0, 20.0))
    plan = plan_of(
        silo_sizes=np.full(4, 100),
        steps=(1,) * 10,
        clip_norm=1.0,
        noise_multiplier=np.ones(4),
        delta=np.full(4, 1e-5),
        setup=setups,
    ).calibrated(3.0)
    per_silo = plan.spent().per_silo
    assert per_silo.max() <= 3.0
    assert per_silo.idxmax() == 1
    assert per_silo[1] >= 0.99 * 3
    assert per_silo[0] == per_silo[2] < per_silo[3] < per_silo[1]
