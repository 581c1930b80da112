"""verbose prints rounds, on every version of scikit-learn."""

import pytest
from sklearn.datasets import load_breast_cancer

from skdpfl import DPScaffoldClassifier, ISRLDPRegressor

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)


@pytest.mark.parametrize("make", [DPScaffoldClassifier, ISRLDPRegressor])
def test_verbose_prints_rounds_and_nothing_of_the_data(make, capsys):
    make(n_rounds=3, scaling=None, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"[{make.__name__}] round 1 of 3")
