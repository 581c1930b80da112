"""FedEXP: rounds by hand, the theory behind the step, and the step under noise."""

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.algorithms import FedAvg, FedExp, Released, Scaffold
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy import mechanisms
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of

M, N, D = 5, 4, 40


def silos(seed=0, m=M, n=N, d=D):
    """More features than records: one model fits every silo exactly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    return X, np.einsum("mnd,d->mn", X, rng.normal(size=d))


def fit(algorithm, X, y, n_rounds, mechanism=None, **kw):
    """The models after each round and the outcome."""
    m, n, d = X.shape
    options = {"clip_norm": np.inf, "noise_multiplier": 0.0, "delta": 1e-5, "unit": "silo"}
    plan = plan_of(
        silo_sizes=None,
        silo_ids=pd.RangeIndex(m),
        steps=tuple(algorithm.n_gradients(r) for r in range(n_rounds)),
        mechanism=mechanisms.NoPrivacy(algorithm.reads_squared_norm)
        if mechanism is None
        else mechanism,
        **(options | kw),
    )
    model = LinearModel(d, 1, False)
    work = Work(model, SquaredError(), algorithm, plan, np.dtype(float))
    data = SiloData.from_codes(X.reshape(-1, d), y.ravel(), np.repeat(np.arange(m), n), m)
    models = []
    outcome = run(
        work,
        LocalFederation(data, streams_for(0)),
        streams_for(0),
        average=False,
        on_round=lambda r, params: models.append(params),
    )
    return np.array(models), outcome


@pytest.mark.parametrize(("half", "longest"), [(False, np.inf), (True, np.inf), (False, 2.0)])
def test_rounds_by_hand(half, longest):
    """Rows of norm 1; of norm 3 in one silo, whose gradients are divided by 9 over the longest."""
    X, y = silos()
    X[0] *= 1 if longest == np.inf else 3
    algorithm = FedExp(0.7, (3, 2, 3), half=half, squared_row=longest)
    models, outcome = fit(algorithm, X, y, 3)
    w, steps, excess = np.zeros(D), [], np.maximum(1.0, np.array([9, 1, 1, 1, 1]) / longest)
    for r, k in enumerate((3, 2, 3)):
        moves = []
        for i in range(M):
            v = w.copy()
            for _ in range(k):
                v = v - 0.7 * X[i].T @ (X[i] @ v - y[i]) / N / excess[i]
            moves.append(v - w)
        moves = np.array(moves)
        target = (moves**2).sum() / M / (moves.mean(axis=0) ** 2).sum()
        steps.append(max(1.0, target / 2 if half else target))
        w = w + steps[-1] * moves.mean(axis=0)
        np.testing.assert_allclose(models[r], w, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(outcome.state.step_sizes, steps, rtol=1e-10)
    assert max(steps) > 1.5


class Short(FedAvg):
    """Steps that are far too long for the rows."""

    squared_row = 1e-6


@pytest.mark.parametrize("unit", ["silo", "record"])
def test_steps_depend_on_rows_only_where_whole_silos_are_protected(unit):
    """The noise of single records is for steps that are public."""
    X, y = silos()
    given = {"noise_multiplier": 1.0, "unit": unit, "n_rounds": 2, "scaling": None}
    ends = []
    for kind in (FedAvg, Short):
        model = skdpfl.DPFederatedRegressor(None, algorithm=kind(0.1, 2), random_state=0, **given)
        ends.append(model.fit(X.reshape(-1, D), y.ravel(), silos=np.repeat(range(M), N)).coef_)
    assert np.array_equal(*ends) == (unit == "record")


@pytest.mark.parametrize(
    "alike,expected", [(True, 1.0), (False, M)], ids=["all alike", "orthogonal"]
)
def test_the_step_lies_between_one_and_the_number_of_silos(alike, expected):
    messages = np.ones((M, M)) if alike else np.eye(M)
    released = Released(messages.mean(axis=0), squared_norm=float((messages**2).sum() / M))
    state = FedExp(0.1).aggregate(FedExp(0.1).init(np.zeros(M)), released)
    assert state.step_sizes == (pytest.approx(expected),)
    np.testing.assert_allclose(state.params, expected * messages.mean(axis=0))


# ---- steps of the server that differ between rounds, and what "auto" makes of them ---------------


@pytest.mark.parametrize("kind", [FedAvg, Scaffold])
def test_each_round_takes_its_own_step(kind):
    algorithm = kind(0.1, 2, global_learning_rate=(3.0, 1.0, 0.5))
    state = algorithm.init(np.zeros(2))
    for step in (3.0, 1.0, 0.5):
        before, message = algorithm.params(state), np.array([1.0, -2.0])
        state = algorithm.aggregate(state, Released(message))
        np.testing.assert_allclose(algorithm.params(state) - before, step * message)
