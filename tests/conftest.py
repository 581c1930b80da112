"""Shared fixtures. One BLAS thread: the suite runs in parallel processes."""

import os
import zlib
from collections import defaultdict

import pytest
from hypothesis import settings

# one profile for all property tests: no example is late, however loaded the machine is
settings.register_profile("skdpfl", deadline=None)
settings.load_profile("skdpfl")

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.hookimpl(tryfirst=True)  # before slow ones are left out
def pytest_collection_modifyitems(items):
    """Mark all but one in n cases of a test that is ``sampled(n)`` as slow, whatever the order."""
    cases = defaultdict(list)
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled and not item.get_closest_marker("slow"):
            cases[item.path, item.originalname, *sampled.args].append(item)
    for (*_, n), found in cases.items():
        found.sort(key=lambda item: zlib.crc32(item.name.encode()))
        for item in found[-(-len(found) // n) :]:
            item.add_marker("slow")


@pytest.fixture(params=["compiled", "numpy"])
def products(request, monkeypatch):
    """Have groups of silos use compiled products, or NumPy's."""
    from skdpfl.models import _products

    if request.param == "numpy":
        monkeypatch.setattr(_products, "compiled", None)
    elif _products.compiled is None:
        pytest.skip("no compiled products here")
    return request.param
