"""Columns of True and False that leave an encoder need no bounds; others are bounded by name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer

N = 2000
RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(20, 80, N), "town": RNG.choice(list("abcd"), N)})
Y = ((X.age > 50) ^ (X.town == "a")).to_numpy()
SILOS = np.arange(N) % 3
BOUNDS = {"age": (20, 80)}
PLAIN = OneHotEncoder(categories=[list("abcd")], sparse_output=False, dtype=bool)
DECLARED = DPOneHotEncoder(categories=[list("abcd")])


def columns(encoder, output="pandas"):
    return make_column_transformer(
        (DPSimpleImputer(feature_bounds=BOUNDS, random_state=0), ["age"]),
        (encoder, ["town"]),
        verbose_feature_names_out=False,
    ).set_output(transform=output)


@pytest.mark.parametrize("encoder", [PLAIN, DECLARED], ids=["scikit-learn", "private"])
def test_flags_need_no_bounds_behind_an_encoder(encoder):
    clf = ISRLDPClassifier(random_state=0, feature_bounds=BOUNDS)
    piped = make_pipeline(columns(encoder), clf).fit(X, Y, isrldpclassifier__silos=SILOS)
    given = ISRLDPClassifier(random_state=0, feature_bounds=([20, 0, 0, 0, 0], [80, 1, 1, 1, 1]))
    given.fit(piped[:-1].transform(X), Y, silos=SILOS)
    assert piped[:-1].transform(X).dtypes.tolist() == [float, *[bool] * 4]
    assert np.array_equal(piped[-1].coef_, given.coef_)


def test_arrays_of_an_encoder_hold_numbers():
    assert columns(DECLARED, "default").fit(X).transform(X).dtype == float


def test_a_shared_budget_prices_what_it_runs():
    encoder = DPOneHotEncoder(max_categories=4)
    model = make_pipeline(columns(encoder), ISRLDPClassifier(feature_bounds=BOUNDS))
    shared = SharedBudget(model, epsilon=3.0, random_state=0).fit(X, Y, silos=SILOS)
    assert 2.9 < shared.privacy_spent_.epsilon <= 3.0
    last = shared.estimator_[-1]
    given = ISRLDPClassifier(feature_bounds=([20, 0, 0, 0, 0], [80, 1, 1, 1, 1]))
    given.set_params(**{n: last.get_params()[n] for n in ("epsilon", "delta", "random_state")})
    sizes, flags = np.bincount(SILOS), np.arange(5) > 0
    plan = given.plan_for(silo_sizes=sizes, n_features=5, indicators=flags)
    assert last.plan_.setup == plan.setup
