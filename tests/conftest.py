"""Shared fixtures. One BLAS thread: the suite runs in parallel processes."""

import os
import re
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


#: so many of a test's fast cases, and of its slow ones; the others are wide
CASES = 2
ESTIMATOR = re.compile(r"(DP|ISRL)\w*(Classifier|Regressor)")


def estimator_of(item):
    """Return the name of the estimator that a case is about, or None."""
    for value in item.callspec.params.values():
        name = value if isinstance(value, str) else type(value).__name__
        if ESTIMATOR.fullmatch(name):
            return name
    return None


def chosen_cases(test, items):
    """Choose a test's cases, whatever their order: other tests choose other estimators."""

    def by_hash(name):
        return zlib.crc32(f"{test} {name}".encode())

    names = sorted({estimator_of(item) for item in items} - {None}, key=by_hash)
    two = {None, *names} if len(names) < 3 else {None}
    for kind in ("Classifier", "Regressor"):
        two |= set([name for name in names if name.endswith(kind)][:1])
    chosen = [item for item in items if estimator_of(item) in two]
    if items[0].get_closest_marker("every"):
        return chosen
    return sorted(chosen, key=lambda item: by_hash(item.name))[:CASES]


def pytest_addoption(parser):
    """Let a lane run a part of the cases: ``--part 2/4``."""
    parser.addoption("--part", default="1/1", help="which of how many parts of the cases to run")


@pytest.hookimpl(tryfirst=True)  # before slow ones are left out
def pytest_collection_modifyitems(config, items):
    """Mark as wide what shows no more than others of its test; wide ones are slow."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("wide"):
            item.add_marker("slow")
        elif hasattr(item, "callspec"):
            slow = item.get_closest_marker("slow") is not None
            cases[f"{item.path.name} {item.originalname}", item.path, item.cls, slow].append(item)
    for (test, *_), found in cases.items():
        for item in set(found).difference(chosen_cases(test, found)):
            item.add_marker("wide")
            item.add_marker("slow")
    number, parts = map(int, config.getoption("part").split("/"))
    left = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == number - 1]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left


@pytest.fixture(params=["compiled", "numpy"])
def products(request, monkeypatch):
    """Have groups of silos use compiled products, or NumPy's."""
    from skdpfl.models import _products

    if request.param == "numpy":
        monkeypatch.setattr(_products, "compiled", None)
    elif _products.compiled is None:
        pytest.skip("no compiled products here")
    return request.param
