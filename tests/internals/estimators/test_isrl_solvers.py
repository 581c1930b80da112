"""More of tests/estimators/test_isrl_solvers.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.inspection._before_fit import optimum
from skdpfl.losses import AbsoluteError, Hinge, Quantile
from skdpfl.models import LinearModel
from tests.estimators.test_isrl_solvers import fit

SOLVERS = {
    "minibatch": {"n_rounds": 1000, "learning_rate": 0.3},
    "minibatch-optimal": {"n_rounds": 1500, "learning_rate": "optimal"},
    "accelerated": {"solver": "accelerated", "n_rounds": 1500},
    "accelerated-prox": {"solver": "accelerated", "n_rounds": 1500, "average": False},
    "multistage": {"solver": "multistage", "n_rounds": 600},
    # local steps drift: smaller ones, by less
    "local": {"solver": "local", "n_rounds": 1000, "local_steps": 3, "learning_rate": 0.02},
}


KINKED = {"hinge": Hinge, "absolute_error": AbsoluteError, "quantile": Quantile}


def objective(estimator, X, y, loss):
    model = LinearModel(X.shape[1], 1)
    params = model.pack(np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_))
    return float(model.mean_loss(params, X, y, loss, estimator.alpha))


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("solver", ["minibatch", "accelerated", "multistage", "local"])
def test_losses_with_a_kink_are_smoothed_and_nearly_minimised(solver, loss):
    """The envelope is within L^2 / (2 b) of the loss, so its minimiser's loss is as near."""
    found, X, y = fit(loss, **(SOLVERS[solver] | {"n_rounds": 400}))
    plain = KINKED[loss]()
    model = LinearModel(X.shape[1], 1)
    near = KINKED[loss](smoothing=1e4)
    weights = np.full(len(y), 1 / len(y))
    best = optimum(model, X, y, near, weights, found.alpha * model.penalty_mask())
    rows = model.squared_row_norms(X)
    # the documented b with n = 200 records: (L / 2 D) sqrt(n), and alpha n for strong convexity
    lipschitz = plain.lipschitz(1) * np.sqrt(4.0)
    distance = 3.0 if found._is_classifier() else 1.0
    b = max(lipschitz / (2 * distance) * np.sqrt(200), 0.1 * 200)
    bias = plain.lipschitz(1) ** 2 * rows.mean() / (2 * b)
    gap = objective(found, X, y, plain) - model.mean_loss(best, X, y, plain, 0.1)
    assert -1e-3 < gap < bias + 1e-2
