"""scikit-learn's own checks for every solver and loss of ISRL-DP."""

from itertools import cycle

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from tests.estimators.test_scikit_learn import EXPECTED

OPTIONS = {
    "minibatch": {},
    "accelerated": {},
    "multistage": {"alpha": 0.1},
    "local": {"local_steps": 2},
}
#: no check asks more of the number of rounds
FEW = {"n_rounds": 10}
INSTANCES = (
    [
        cls(loss=loss, solver=solver, **OPTIONS[solver], **FEW)
        for cls in (ISRLDPClassifier, ISRLDPRegressor)
        for loss, solver in [  # each solver with the default, each loss with one of them
            *((cls._losses[0], solver) for solver in OPTIONS if solver != "minibatch"),
            # ordinal labels need classes
            *zip([of for of in cls._losses[1:] if of != "ordinal"], cycle(OPTIONS)),
        ]
    ]
    + [
        ISRLDPClassifier(solver="accelerated", sampling="disjoint", **FEW),
        ISRLDPClassifier(learning_rate="optimal", alpha=0.1, radius=5.0, **FEW),
        ISRLDPRegressor(solver="accelerated", trust="server", silo_fraction=0.5, **FEW),
        ISRLDPClassifier(trust="shuffler", n_rounds=3),
        ISRLDPRegressor(trust="shuffler", solver="accelerated", sampling="disjoint", n_rounds=3),
    ]
)

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore::UserWarning")]


@parametrize_with_checks(INSTANCES, expected_failed_checks=lambda estimator: EXPECTED)
def test_checks(estimator, check):
    check(estimator)
