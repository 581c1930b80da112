"""The paid level of quantiles: what is released for it is bounded, noised, priced, and worth it."""

import numpy as np

import skdpfl
from skdpfl.federation import SiloData, Work
from skdpfl.losses import Quantile
from skdpfl.models import LinearModel
from skdpfl.scaling import Below
from tests.made_sums import exact_sums

BOUNDS = {"feature_bounds": (-5, 5), "target_bounds": (-15, 25)}


def skewed(n, seed=0):
    """Records of a linear model with gamma errors, and their silos."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ [2.0, -1.0, 0.5, 0.0] + 2 * rng.gamma(1.0, 1.0, n), rng.integers(0, 4, n)


def work_of(quantile=0.2, size=4):
    return Work(LinearModel(size, 1), Quantile(quantile), None, None, np.dtype(float))


# ---- what is released ----------------------------------------------------------------------------


def test_sums_count_the_targets_below():
    X, y, silos = skewed(400)
    params = np.array([2.0, -1.0, 0.5, 0.0, 0.3])
    data = SiloData.from_codes(X, y, silos, 4, weights=np.linspace(0, 3, 400))
    found = exact_sums(Below(params, 0.7), data, work=work_of())
    below = y <= X @ params[:4] + 1.0
    assert found.tolist() == [below[silos == i].sum() - (silos == i).sum() / 2 for i in range(4)]


# ---- what is priced ------------------------------------------------------------------------------


def test_a_fit_asks_as_often_as_it_pays(monkeypatch):
    X, y, silos = skewed(800)
    asked, original = [], Below.sums

    def sums(self, data, work):
        for here, exact in original(self, data, work):
            asked.append(here.tolist())
            assert (abs(exact) <= 0.5 * data.sizes).all()
            yield here, exact

    monkeypatch.setattr(Below, "sums", sums)
    model = skdpfl.ISRLDPRegressor(2.0, loss=Quantile(0.2), random_state=0, **BOUNDS)
    model.fit(X, y, silos=silos)
    assert asked == 6 * [[0, 1, 2, 3]]
    assert max(count for _, count in model.plan_.setup[0]) == 6
