"""Which rounds' models the one that is given out is an average of."""

import numpy as np
import pytest

from skdpfl.estimators import _training
from tests.estimators.fits import data, make

N_ROUNDS = 10
#: average -> how many of the last rounds' models
LAST = [
    (1, 1),
    (3, 3),
    (np.int64(4), 4),
    (99, N_ROUNDS),
    (0.3, 3),
    (0.25, 3),
    (0.01, 1),
    (np.float32(0.5), 5),
    (True, 5),
    (np.True_, 5),
]
FAMILIES = ["ISRLDPClassifier", "DPFedAvgRegressor", "DPScaffoldClassifier", "DPFedEXPRegressor"]


def fit(name, average, monkeypatch, seen=None, **kw):
    """Fit under noise; ``seen`` gets the model that the engine tells of after each round."""
    run = _training.run

    def recorded(*args, on_round, **options):
        def both(r, params):
            if seen is not None:
                seen.append(params.copy())
            return on_round(r, params)

        return run(*args, on_round=both, **options)

    monkeypatch.setattr(_training, "run", recorded)
    twin = name if name.startswith("DPFedEXP") else None
    X, y, silos = data("DPFedAvgRegressor" if twin else name)
    options = {"epsilon": 3.0, "n_rounds": N_ROUNDS, "scaling": None, "random_state": 0}
    options["calibrate"] = False  # which rescales the model after the rounds
    model = make(name, **(options | kw), average=average).fit(X, y, silos=silos)
    monkeypatch.setattr(_training, "run", run)
    return np.append(model.coef_.ravel(), model.intercept_)


@pytest.mark.filterwarnings("ignore::UserWarning")  # noise on whole silos of so few
@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_is_the_mean_of_the_last_rounds_models(name, monkeypatch):
    models = []
    last = fit(name, False, monkeypatch, models)
    np.testing.assert_allclose(last, models[-1], rtol=1e-12)
    assert len(models) == N_ROUNDS and not np.allclose(models[-1], models[-2])
    for average, k in LAST if name == FAMILIES[0] else [(3, 3), (0.4, 4), (True, 5)]:
        expected = np.mean(models[-k:], axis=0)
        found = fit(name, average, monkeypatch)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_number_that_was_given_counts_without_noise_too(monkeypatch):
    models, kw = [], {"epsilon": np.inf, "learning_rate": "auto"}
    fit("DPFedAvgRegressor", False, monkeypatch, models, **kw)
    found = fit("DPFedAvgRegressor", 0.4, monkeypatch, **kw)
    np.testing.assert_allclose(found, np.mean(models[-4:], axis=0), rtol=1e-10)
    # True averages against noise, and there is none
    np.testing.assert_array_equal(fit("DPFedAvgRegressor", True, monkeypatch, **kw), models[-1])
