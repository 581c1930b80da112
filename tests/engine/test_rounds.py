"""Every algorithm against hand-computed rounds and against a record-by-record reference."""

import numpy as np
import pytest

from skdpfl.engine import run
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import NORMALS
from skdpfl.privacy.sampling import PoissonSampling, WithoutReplacement
from tests.engine.reference import Reference, Setting
from tests.engine.settings import federation_of, problem, run_rounds, work_of

SIZES = np.array([5, 9, 2, 6])
BY_SIZE = SIZES / SIZES.sum()
COHORTS = [[0, 2], [1, 2, 3], [], [0], [1, 3]]

ALGORITHMS = {
    "minibatch": {},
    "minibatch-momentum": {"momentum": 0.8},
    "fedavg": {"steps": [3] * 5, "global_lr": 0.7},
    "fedavg-momentum": {"steps": [3] * 5, "momentum": 0.5},
    "fedavg-growing": {"steps": [1, 2, 3, 2, 1]},
    "scaffold": {"steps": [3] * 5, "global_lr": 0.7},
    "scaffold-warm": {"steps": [2] * 5, "warm": 2},
    "scaffold-growing": {"steps": [1, 2, 3, 2, 1]},
}
PROBLEMS = {
    "binary": {},
    "multiclass": {"k": 3},
    "squared": {"loss": "squared_error"},
    "penalised": {"alpha": 0.3},
}
NOISE = {
    "exact": {"clip": np.inf, "z": None},
    "noised": {"clip": 0.8, "z": [0.5, 1.0, 2.0, 0.25]},
    "decaying": {"clip": 0.8, "z": [0.5] * 4, "decay": 0.9},
}
WHO = {
    "everyone": {},
    "cohorts": {"cohorts": COHORTS},
    "poisson-records": {"sampling": PoissonSampling(0.5)},
    "few-records": {"sampling": PoissonSampling(0.1)},
    "fixed-batches": {"sampling": WithoutReplacement(0.4)},
}


def setting(algorithm="minibatch", noise="exact", who="everyone", **kw):
    options = {"n_rounds": 5, "steps": [1] * 5, "lr": 0.4, "weights": BY_SIZE}
    options |= ALGORITHMS[algorithm] | NOISE[noise] | WHO[who] | kw
    decay = options.pop("decay", None)
    if decay is not None:
        per_round = decay ** np.maximum(0, np.arange(1, 6) - 2)
        options["factors"] = np.repeat(np.sqrt(per_round), options["steps"])
    return Setting(**options), decay


def compare(algorithm, p, s, decay=None, rtol=2e-6, **kw):
    name = algorithm.partition("-")[0]
    schedule = None if decay is None else ("round", decay, 2)
    got = run_rounds(name, p, s, noise_schedule=schedule, **kw)
    reference = Reference(p, s)
    expected = np.array(list(getattr(reference, name)()))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    return reference


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_five_rounds_agree_with_the_reference(algorithm, who, noise):
    s, decay = setting(algorithm, noise, who)
    compare(algorithm, problem(), s, decay)


@pytest.mark.parametrize("what", PROBLEMS)
@pytest.mark.parametrize("algorithm", ["minibatch", "fedavg-growing", "scaffold-growing"])
def test_every_loss_agrees_with_the_reference(algorithm, what):
    s, decay = setting(algorithm, "noised", "cohorts")
    compare(algorithm, problem(**PROBLEMS[what]), s, decay)


@pytest.mark.parametrize("decay", [None, 0.9])
@pytest.mark.parametrize("what", PROBLEMS)
def test_noise_on_the_sum_agrees_with_the_reference(what, decay):
    s, _ = setting("minibatch-momentum", "exact", "cohorts", clip=0.8, on_sum=0.05)
    if decay is not None:
        s.factors = np.sqrt(decay ** np.maximum(0, np.arange(1, 6) - 2))
    compare("minibatch", problem(**PROBLEMS[what]), s, decay)


def test_rows_of_a_silo_need_not_stand_together():
    s, decay = setting("scaffold", "noised", "poisson-records")
    p = problem()
    compare("scaffold", p, s, decay, federation=federation_of(p, shuffle=True))


@pytest.mark.parametrize("algorithm", ["minibatch", "fedavg", "scaffold"])
def test_single_precision_agrees_with_the_reference(algorithm):
    s, decay = setting(algorithm, "exact")
    compare(algorithm, problem(), s, decay, rtol=2e-5, dtype=np.float32)


# ---- by hand: squared loss, one feature, silo A = {(1, 1), (2, 0)}, silo B = {(1, 3)} ----------
# g_A(w) = ((w - 1) + 2 * 2 w) / 2 = (5 w - 1) / 2, g_B(w) = w - 3, weights 2/3, 1/3, step 0.1

HAND = {
    # 0.1 (2/3 0.5 + 1/3 3)
    ("ISRLDPRegressor", 1, ()): 0.4 / 3,
    # records clipped to norm 1: g_A = -0.5, g_B = -1
    ("ISRLDPRegressor", 1, (("clip", 1.0),)): 0.2 / 3,
    # A: 0 -> 0.05 -> 0.0875, B: 0 -> 0.3 -> 0.57
    ("DPFedAvgRegressor", 1, (("local_steps", 2),)): 0.745 / 3,
    # v_A = -0.5, -0.625, v_B = -3, -4.2: A ends at 0.1125, B at 0.72
    ("DPFedAvgRegressor", 1, (("local_steps", 2), ("momentum", 0.5))): 0.945 / 3,
    # the server walks half of it
    ("DPFedAvgRegressor", 1, (("local_steps", 2), ("global_learning_rate", 0.5))): 0.3725 / 3,
    # no control variates yet
    ("DPScaffoldRegressor", 1, (("local_steps", 2),)): 0.745 / 3,
    # c_A = -0.4375, c_B = -2.85, c = -3.725 / 3; from x = 0.745 / 3
    # A: g = 0.36250/3, 0.29166667: ends at 0.36791667; B: g = -8.255/3, -2.63733333: 0.46556667
    ("DPScaffoldRegressor", 2, (("local_steps", 2),)): (2 * 0.36791666667 + 0.46556666667) / 3,
    # the first round only learns c_A = -0.5, c_B = -3, c = -4/3; then
    # A: -0.5 + 0.5 - 4/3, ((5 * 0.4/3 - 1) / 2 + 0.5 - 4/3): 0 -> 0.4/3 -> 0.7/3
    # B: -3 + 3 - 4/3, 0.4/3 - 4/3: 0 -> 0.4/3 -> 0.76/3
    ("DPScaffoldRegressor", 2, (("local_steps", 2), ("warm_start_rounds", 1))): 2.16 / 9,
    ("DPFederatedRegressor", 1, ()): 0.4 / 3,
}


@pytest.mark.parametrize(("name", "n_rounds", "options"), HAND)
def test_rounds_computed_by_hand(name, n_rounds, options):
    import skdpfl

    X, y, silos = np.array([[1.0], [2.0], [1.0]]), np.array([1.0, 0.0, 3.0]), ["A", "A", "B"]
    given = dict(options)
    clip = given.pop("clip", None)
    if clip is not None:  # noise of 1e-6 does not show in five digits
        given |= {"epsilon": None, "noise_multiplier": 1e-6, "clip_norm": clip}
    estimator = getattr(skdpfl, name)(
        **({"epsilon": np.inf} | given),
        n_rounds=n_rounds,
        learning_rate=0.1,
        sampling_rate=1.0,
        fit_intercept=False,
        scaling=None,
        average=False,
        random_state=0,
    ).fit(X, y, silos=silos)
    expected = HAND[name, n_rounds, options] * (1 if clip is None else 1 - NORMALS)
    assert estimator.coef_[0] == pytest.approx(expected, abs=1e-5)


def test_a_warm_start_is_not_averaged():
    p, s = problem(), setting("scaffold-warm", steps=[2] * 5, warm=3)[0]

    models = run_rounds("scaffold", p, s)
    assert not models[:3].any()
    late = run(work_of("scaffold", p, s), federation_of(p), streams_for(0)).params
    np.testing.assert_allclose(late, models[4:].mean(axis=0), rtol=1e-12)
