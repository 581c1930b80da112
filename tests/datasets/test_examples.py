"""The examples in the docstrings run, and every public name has one."""

import doctest

import pytest

from skdpfl import datasets


@pytest.mark.parametrize("name", datasets.__all__)
def test_example(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(datasets, name), name)
    assert test.examples, "no example"
    assert doctest.DocTestRunner().run(test).failed == 0
