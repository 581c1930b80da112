"""More of tests/docs/test_reference.py: what only private names show."""

import inspect
import re

import skdpfl
from skdpfl.estimators._docs import GROUPS
from tests.estimators.fits import ESTIMATORS

#: what a user needs first, in this order, where an estimator has it; and what comes last
FIRST = [
    "epsilon",
    "delta",
    "feature_bounds",
    "target_bounds",
    "silo_column",
    "classes",
    "loss",
    "alpha",
    "fit_intercept",
    "model",
]


LAST = ["n_jobs", "random_state", "verbose"]


def test_constructors_are_in_the_order_a_user_needs():
    for name in ESTIMATORS:
        signature = inspect.signature(getattr(skdpfl, name)).parameters
        names = list(signature)
        first = [known for known in FIRST if known in signature]
        assert names[: len(first)] == first
        assert names[-3:] == LAST
        assert [p.kind for p in signature.values()][1:] == [inspect.Parameter.KEYWORD_ONLY] * (
            len(names) - 1
        )
        every = [known for group in GROUPS.values() for known in group if known in signature]
        assert names == every
        documented = re.findall(r"^(\w+) : ", getattr(skdpfl, name).__doc__, re.MULTILINE)
        assert documented[: len(names)] == names
