"""The examples in the docstrings run, and every public name has one."""

import doctest

import pytest

from skdpfl import model_selection


@pytest.mark.parametrize(
    "name",
    [
        "LeaveOneSiloOut",
        "SiloKFold",
        "SiloStratifiedKFold",
        "make_silo_scorer",
        "silo_scores",
        "worst_silo_scorer",
    ],
)
def test_example(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(model_selection, name), name)
    assert test.examples, "no example"
    assert doctest.DocTestRunner().run(test).failed == 0
