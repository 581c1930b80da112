"""Shared fixtures. One BLAS thread: the suite runs in parallel processes."""

import os

import pytest
from hypothesis import settings

# one profile for all property tests: no example is late, however loaded the machine is
settings.register_profile("skdpfl", deadline=None)
settings.load_profile("skdpfl")

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(params=["compiled", "numpy"])
def products(request, monkeypatch):
    """Have groups of silos use compiled products, or NumPy's."""
    from skdpfl.models import _products

    if request.param == "numpy":
        monkeypatch.setattr(_products, "compiled", None)
    elif _products.compiled is None:
        pytest.skip("no compiled products here")
    return request.param
