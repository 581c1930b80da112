"""verbose prints a line after each tenth of the rounds, and nothing of the data."""

import re

import pytest
from sklearn.datasets import load_breast_cancer

from skdpfl import DPScaffoldClassifier, ISRLDPRegressor

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)


@pytest.mark.parametrize("make", [DPScaffoldClassifier, ISRLDPRegressor])
@pytest.mark.parametrize(("n_rounds", "shown"), [(30, range(3, 31, 3)), (3, [1, 2, 3])])
def test_verbose_prints_a_line_for_each_tenth(make, n_rounds, shown, capsys):
    make(n_rounds=n_rounds, scaling=None, verbose=1).fit(X, y)
    line = rf"{make.__name__}: (\d+)/{n_rounds} rounds, \d+ s passed, \d+ s left"
    found = [re.fullmatch(line, text) for text in capsys.readouterr().out.splitlines()]
    assert [int(each[1]) for each in found] == list(shown)
    make(n_rounds=3, scaling=None).fit(X, y)
    assert capsys.readouterr().out == ""
