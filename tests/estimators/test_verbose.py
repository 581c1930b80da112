"""verbose shows one bar, by rich or plain, and nothing of the data."""

import sys

import pytest
from sklearn.datasets import load_breast_cancer

from skdpfl import DPScaffoldClassifier, ISRLDPRegressor

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)


@pytest.fixture(params=["rich", "plain"])
def library(request, monkeypatch):
    if request.param == "rich":
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
    return request.param


@pytest.mark.parametrize("make", [DPScaffoldClassifier, ISRLDPRegressor])
def test_verbose_shows_one_bar_with_the_time_left(make, library, capsys):
    make(n_rounds=30, scaling=None, verbose=1).fit(X, y)
    out = capsys.readouterr().out.strip()
    assert make.__name__ in out and "30/30" in out.replace(" ", "") and "left" in out
    assert len(out.splitlines()) <= (1 if library == "plain" else 2)  # rich folds at 80 columns
    make(n_rounds=3, scaling=None).fit(X, y)
    assert capsys.readouterr().out == ""


def test_a_fit_that_fails_closes_its_bar(library, capsys, monkeypatch):
    model = ISRLDPRegressor(n_rounds=5, scaling=None, verbose=1)

    def fail(current):
        raise KeyboardInterrupt

    model._watch = fail
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert capsys.readouterr().out.endswith("\n")
    del model._watch
    model.fit(X, y)  # rich allows one bar at a time: it must be free again
    assert "5/5" in capsys.readouterr().out.replace(" ", "")


def test_bars_inside_a_bar_do_not_fail(capsys):
    progress = pytest.importorskip("rich.progress")
    from rich import get_console

    with progress.Progress(console=get_console()):
        ISRLDPRegressor(n_rounds=5, scaling=None, verbose=1).fit(X, y)
    assert "5/5" in capsys.readouterr().out
