"""The examples in docstrings of public names print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import skdpfl

MODULES = sorted(m.name for m in pkgutil.walk_packages(skdpfl.__path__, "skdpfl."))


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    if name.startswith("skdpfl.torch"):
        pytest.importorskip("torch")
    if name.startswith("skdpfl.flower."):
        pytest.importorskip("flwr")
    if name.startswith("skdpfl.nvflare."):
        pytest.importorskip("nvflare")
    module = importlib.import_module(name)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(module, optionflags=flags)
    assert result.failed == 0
