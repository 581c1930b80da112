"""Where the compiled modules cannot be used they are None, and NumPy does the same."""

from types import SimpleNamespace

import pytest

from skdpfl import _compiled


def not_built(name):
    raise ImportError(name)


@pytest.mark.parametrize("setting", [None, "1", "0"])
@pytest.mark.parametrize(
    ("load", "there"),
    [
        (lambda name: SimpleNamespace(available=lambda: True), True),
        (lambda name: SimpleNamespace(available=lambda: False), False),
        (lambda name: SimpleNamespace(), True),
        (not_built, False),
    ],
    ids=["fit", "processor lacks it", "runs anywhere", "not built"],
)
def test_modules_are_there_where_they_can_be_used(monkeypatch, setting, load, there):
    monkeypatch.setattr(_compiled, "import_module", load)
    monkeypatch.delenv("SKDPFL_COMPILED", raising=False)
    if setting is not None:
        monkeypatch.setenv("SKDPFL_COMPILED", setting)
    assert (_compiled._load("products") is not None) == (there and setting != "0")
