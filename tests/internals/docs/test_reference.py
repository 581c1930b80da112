"""More of tests/docs/test_reference.py: what only private names show."""

import inspect
import re

import pytest

import skdpfl
from skdpfl.estimators._docs import GROUPS
from tests.docs.test_build_extensions import EXT
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


# ---- parameters of estimators stand under their groups' headings in the pages --------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_stand_under_headings(monkeypatch, name):
    pytest.importorskip("sphinx")
    from numpydoc.docscrape_sphinx import SphinxDocString

    monkeypatch.syspath_prepend(str(EXT))
    import parameter_groups

    cls = getattr(skdpfl, name)
    lines = str(SphinxDocString(inspect.getdoc(cls))).split("\n")
    page = parameter_groups.with_headings(lines)
    kept = [line for line in page if line and not line.startswith("    .. rubric:: ")]
    assert kept == [line for line in lines if line]  # nothing is lost or moved
    headings = [line.split(":: ")[1] for line in page if line.startswith("    .. rubric:: ")]
    assert headings == list(GROUPS)
    under, found = None, {}
    for line in page[: page.index(":Attributes:")]:
        if line.startswith("    .. rubric:: "):
            under = line.split(":: ")[1]
        elif entry := re.match(r"    \*\*(\w+)\*\* : ", line):
            found[entry[1]] = under
    assert list(found) == list(inspect.signature(cls).parameters)
    assert all(parameter in GROUPS[heading] for parameter, heading in found.items())
