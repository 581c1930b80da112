"""A given clip norm clips where nothing is hidden, too; "auto" does not."""

import numpy as np
import pytest

from skdpfl import DPFedAvgRegressor, DPFedEXPRegressor, ISRLDPRegressor
from skdpfl.privacy.mechanisms import NoPrivacy

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X @ np.array([1.0, -2.0, 0.5])
SILOS = np.repeat([0, 1, 2, 3], 10)
CLIP = 0.6
WILD = Y.copy()
WILD[7] = 1e9
PLAIN = {
    "epsilon": np.inf, "scaling": None, "fit_intercept": False, "average": False,
    "n_rounds": 1, "learning_rate": 1.0, "random_state": 0,
}  # fmt: skip


def clipped(rows, norm=CLIP):
    return rows * np.minimum(1, norm / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_records_gradients_are_clipped(trust, n_jobs):
    model = ISRLDPRegressor(**PLAIN, clip_norm=CLIP, trust=trust, n_jobs=n_jobs)
    model.fit(X, WILD, silos=SILOS)
    # at 0 a record's gradient is -x y
    np.testing.assert_allclose(model.coef_, clipped(X * WILD[:, None]).mean(axis=0), rtol=1e-9)
    assert model.clip_norm_ == model.plan_.clip_norm == CLIP
    assert isinstance(model.plan_.mechanism, NoPrivacy)
    assert model.privacy_spent_.epsilon == np.inf
    again = model.set_params(random_state=1).fit(X, WILD, silos=SILOS)
    assert np.array_equal(again.coef_, model.coef_)  # no noise


@pytest.mark.parametrize("cls", [DPFedAvgRegressor, DPFedEXPRegressor])
def test_whole_silos_messages_are_clipped_and_not_their_records(cls):
    unit = {"unit": "silo"} if cls is DPFedAvgRegressor else {}
    options = PLAIN | unit | {"local_steps": 1, "silo_weights": "uniform"}
    model = cls(**options, clip_norm=CLIP).fit(X, WILD, silos=SILOS)
    messages = (X * WILD[:, None]).reshape(4, 10, 3).mean(axis=1)
    mean = clipped(messages).mean(axis=0)
    assert (np.linalg.norm(messages, axis=1) > CLIP).any()
    if cls is DPFedEXPRegressor:
        squares = np.square(clipped(messages)).sum(axis=1).mean()
        step = max(1.0, squares / (mean @ mean))
        np.testing.assert_allclose(model.global_step_sizes_, [step], rtol=1e-9)
        mean = mean * step
    np.testing.assert_allclose(model.coef_, mean, rtol=1e-9)
    assert model.clip_norm_ == model.plan_.clip_norm == CLIP
    free = cls(**options).fit(X, Y, silos=SILOS)
    assert free.clip_norm_ == free.plan_.clip_norm == np.inf
