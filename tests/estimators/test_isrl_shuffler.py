"""trust="shuffler": what is sent, what it costs, where it gains nothing, what is refused."""

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from tests.estimators.fits import data

quiet = pytest.mark.filterwarnings("ignore:trust=.shuffler. gains nothing")


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        ({"sampling_rate": 0.5}, 'fixed size.*sampling="poisson" at sampling_rate=0.5'),
        ({"solver": "accelerated"}, 'one pass.*sampling="disjoint"'),
        ({"solver": "multistage", "alpha": 0.1}, 'one pass.*sampling="disjoint"'),
        ({"solver": "local"}, 'trust must be "silo"'),
        ({"neighbours": "add_remove"}, "replace"),
        ({"silo_weights": "uniform"}, 'silo_weights must be "auto" or "size"'),
        ({"silo_weights": {0: 1.0, 1: 2.0}}, 'silo_weights must be "auto" or "size"'),
    ],
)
def test_what_does_not_go_with_a_shuffler_is_refused(kw, words):
    with pytest.raises(ValueError, match=words):
        ISRLDPClassifier(trust="shuffler", **kw).plan_for(silo_sizes=[50, 50], n_features=3)


# ------------------------------------------------------------------ vector sums, bit by bit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fits_by_sums(dtype):
    X, y, silos = data("ISRLDPClassifier", n=400, seed=3, dtype=dtype)
    clf = ISRLDPClassifier(
        4.0, trust="shuffler", solver="accelerated", sampling="disjoint", scaling=None,
        random_state=0,
    ).fit(X, y, silos=silos)  # fmt: skip
    assert clf.coef_.dtype == dtype
    assert clf.score(X, y) > 0.75
    assert clf.privacy_spent_.epsilon <= 4.0


@quiet
@pytest.mark.parametrize(
    "solver", ["accelerated", pytest.param("minibatch", marks=pytest.mark.slow)]
)
def test_one_record_moves_what_the_shuffler_gives_by_no_more_than_is_priced(solver):
    """The same seed, one record replaced by its extreme opposite: noise and rounding cancel."""
    X, y, silos = data("ISRLDPClassifier", n=80)
    X[0] *= 1e4
    means, plan = [], None
    for target in (0, 1):
        y[0] = target
        clf = ISRLDPClassifier(
            1.0, trust="shuffler", solver=solver, sampling="disjoint", n_rounds=1, scaling=None,
            learning_rate=1.0, clip_norm=0.5, average=False, random_state=7,
        ).fit(X, y, silos=silos)  # fmt: skip
        # the first accelerated step is half the learning rate
        step = 0.5 if solver == "accelerated" else 1.0
        means.append(np.append(clf.coef_[0], clf.intercept_) / step)
        plan = clf.plan_
    moved = np.linalg.norm(means[1] - means[0]) * plan.expected_sizes.sum()
    if solver == "minibatch":
        assert 0.97 * 2 * 0.5 < moved <= 2 * 0.5
    else:
        protocol = plan.mechanism.protocol(plan, float(plan.noise_multiplier[0]))
        assert 0.97 * 2 * 0.5 < moved <= protocol.unit * protocol.largest_shift


def test_a_plan_of_hardly_any_noise_has_an_infinite_price():
    estimator = ISRLDPClassifier(
        None, noise_multiplier=0.01, delta=1e-5, trust="shuffler", scaling=None, calibrate=False,
        sampling="without_replacement", sampling_rate=0.2, n_rounds=5,
    )  # fmt: skip
    assert estimator.plan_for(silo_sizes=[50] * 20, n_features=5).spent().epsilon == np.inf
