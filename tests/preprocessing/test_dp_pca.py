"""DPPCA: the sensitivity of what is released, its noise and price, and what is found."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl import privacy_spent
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.preprocessing import DPPCA

RELATIONS = ["replace", "add_remove"]
PROTECTED = [(u, t, r) for u in ("record", "silo") for t in ("silo", "server") for r in RELATIONS]


@pytest.mark.filterwarnings("ignore:Noise alone:UserWarning")
@parametrize_with_checks([DPPCA(), DPPCA(epsilon=np.inf, unit="silo", trust="server")])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_noise_that_underflows_is_no_noise():
    rows = 1e-162 * np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(ValueError, match="out of the range"):
        DPPCA(row_norm=1e-165).fit(rows)


@pytest.mark.filterwarnings("ignore:Noise alone:UserWarning")
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("protects", PROTECTED, ids="-".join)
def test_the_price_is_that_of_the_noise_by_another_accountant(protects, epsilon):
    names = dict(zip(("unit", "trust", "neighbours"), protects, strict=True))
    X, silos = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 5
    pca = DPPCA(1, epsilon, delta=1e-4, random_state=0, **names)
    pca.fit(X, silos=silos)
    spent = pca.privacy_spent_
    assert 0.999 * epsilon <= spent.epsilon <= epsilon
    assert (spent.unit, spent.trust, spent.neighbours) == protects
    assert spent.n_releases == 1 and hasattr(pca, "n_samples_seen_") == (names["unit"] == "record")
    # the noise of the mean matrix, times the number of units: that on the sum
    units = 60 if names["unit"] == "record" else 5
    parts = 5 if names["trust"] == "silo" else 1
    b = 0.5
    sensitivity = np.sqrt(2) * (1 + b**2) if protects[2] == "replace" else np.sqrt(1 + 2 * b**2)
    multiplier = pca.noise_scale_ * np.sqrt(2) * units / np.sqrt(parts) / sensitivity
    other = (
        PLDAccountant(value_discretization_interval=1e-3)
        .compose(GaussianDpEvent(multiplier))
        .get_epsilon(1e-4)
    )
    assert 0.985 * epsilon <= other <= 1.001 * epsilon


def data(n, d=12, seed=0):
    """Rows of norm up to 1, variances falling from .04, around a mean off zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.2 * 0.6 ** np.arange(d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ turn + 0.05


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("center", [True, False])
def test_components_are_recovered_from_many_records(center, trust):
    X = data(50_000)
    pca = DPPCA(2, 1.0, row_norm=1.5, center=center, trust=trust, random_state=0)
    pca.fit(X, silos=np.arange(len(X)) % 5)
    exact = PCA(2).fit(X) if center is not False else None
    directions = (
        np.linalg.svd(X, full_matrices=False)[2][:2] if exact is None else exact.components_
    )
    overlap = np.linalg.svd(pca.components_ @ directions.T)[1]
    assert overlap.min() > 0.99
    if exact is not None:
        np.testing.assert_allclose(pca.explained_variance_, exact.explained_variance_, rtol=0.05)
        np.testing.assert_allclose(pca.mean_, exact.mean_, atol=0.02)


@pytest.mark.parametrize("silos", [None, np.arange(3000) % 4], ids=["one", "four"])
def test_without_privacy_it_is_scikit_learns(silos):
    X = data(3000)
    ours = DPPCA(4, np.inf, row_norm=10).fit(X, silos=silos)
    exact = PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(exact.transform(X)), atol=1e-8)
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6
    )
    whole = DPPCA(None, np.inf, row_norm=10).fit(X)
    np.testing.assert_allclose(whole.inverse_transform(whole.transform(X)), X, atol=1e-8)
    assert ours.privacy_spent_.epsilon == np.inf


def test_a_center_is_learnt_or_not():
    with pytest.raises(ValueError, match="center"):
        DPPCA(1, center=np.ones(12)).fit(data(500))


@pytest.mark.filterwarnings("ignore:Noise alone:UserWarning")
@pytest.mark.parametrize("name, values", [("unit", "silo"), ("neighbours", "add_remove")])
def test_a_search_over_what_is_protected_has_no_finite_cost(name, values):
    """Half of the candidates protect something else than the best one, which names the cost."""
    candidates = {name: [DPPCA().get_params()[name], values]}
    search = GridSearchCV(DPPCA(2, 1.0, delta=1e-5, trust="server"), candidates, cv=3,
                          scoring=lambda e, X, y=None: 0.0).fit(data(600))  # fmt: skip
    lost = pytest.warns(PrivacyLeakWarning, match="best candidate has no such fit")
    with lost, pytest.warns(PrivacyLeakWarning, match="exact scores"):
        assert privacy_spent(search).epsilon == np.inf


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 13}, "n_components=13"),
        ({"row_norm": 0}, "row_norm"),
        ({"epsilon": 0}, "epsilon"),
        ({"unit": "user"}, "unit"),
        ({"trust": "shuffler"}, "trust"),
        ({"neighbours": "swap"}, "neighbours"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        DPPCA(**parameters).fit(data(50))
