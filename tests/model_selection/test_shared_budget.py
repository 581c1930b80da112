"""One budget for a pipeline: what it is divided into, and that no more is spent."""

import numpy as np
import pandas as pd
import pytest
from sklearn import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdpfl
from skdpfl import DPFedAvgClassifier, ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate

N = 4000
RNG = np.random.default_rng(0)
SILOS = RNG.choice(["east", "west"], N)
FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(20, 90, N),
        "dose": RNG.uniform(0, 10, N),
        "region": RNG.choice(["rural", "urban", "coast"], N),
    }
)
Y = (FRAME["age"] + 10 * (FRAME["region"] == "coast") > 58).to_numpy()
FRAME.loc[::9, "age"] = np.nan
BOUNDS = {"age": (0, 100), "dose": (0, 10)}


def columns(**encoding):
    return ColumnTransformer(
        [
            ("num", DPSimpleImputer(feature_bounds=BOUNDS), ["age", "dose"]),
            ("cat", DPOneHotEncoder(**encoding), ["region"]),
        ]
    )


CLASSIFIER = ISRLDPClassifier(feature_bounds=(0, 100), n_rounds=20)


@pytest.mark.parametrize("encoding", [{}, {"max_categories": 4}], ids=["found", "public"])
def test_one_budget_is_spent_and_not_overspent(encoding):
    model = make_pipeline(columns(**encoding), clone(CLASSIFIER))
    shared = SharedBudget(model, epsilon=3.0, delta=1e-5, random_state=0)
    shared.fit(FRAME, Y, silos=SILOS)
    spent, epsilons = shared.privacy_spent_, shared.epsilons_
    assert 0.97 * 3 <= spent.epsilon <= 3 and spent.delta == 1e-5
    assert list(epsilons) == [
        "columntransformer__num",
        "columntransformer__cat",
        "isrldpclassifier",
    ]
    assert sum(epsilons.values()) > 3.3  # by composition, not by adding up
    assert list(spent.per_silo.index) == ["east", "west"]
    assert shared.score(FRAME, Y) > 0.75 and set(shared.classes_) == {False, True}
    assert not hasattr(model[-1], "coef_")
    parts = [*shared.estimator_[0].named_transformers_.values(), shared.estimator_[-1]]
    # what the fitted steps say that they released is all that there is
    assert sum(p.privacy_spent_.n_releases for p in parts) == spent.n_releases
    assert skdpfl.privacy_spent(shared) == spent


def test_a_found_width_is_priced_as_chosen_and_costs_more():
    fits = [
        SharedBudget(
            make_pipeline(columns(**how), clone(CLASSIFIER)), epsilon=3.0, random_state=0
        ).fit(FRAME, Y, silos=SILOS)
        for how in ({}, {"max_categories": 4})
    ]
    own = [fit.epsilons_["isrldpclassifier"] for fit in fits]
    assert own[0] < own[1] < 3
    events = [{e for c in fit.privacy_spent_.costs for e, _ in c.composition} for fit in fits]
    budgets = [[e.epsilon for e in some if isinstance(e, Approximate)] for some in events]
    assert max(budgets[0]) == pytest.approx(own[0], rel=0.01) and max(budgets[1]) == 0


def test_shares_decide_who_gets_how_much():
    model = make_pipeline(
        DPSimpleImputer(feature_bounds=BOUNDS), DPStandardScaler(), clone(CLASSIFIER)
    )
    X = FRAME[["age", "dose"]]
    shared = SharedBudget(model, epsilon=3.0, random_state=0).fit(X, Y)
    names = ["dpsimpleimputer", "dpstandardscaler", "isrldpclassifier"]
    assert list(shared.epsilons_) == names
    assert shared.epsilons_[names[0]] == shared.epsilons_[names[1]]
    given = clone(shared).set_params(shares={names[0]: 0.02, names[1]: 0.4}).fit(X, Y)
    assert given.epsilons_[names[0]] < shared.epsilons_[names[0]]
    assert given.epsilons_[names[1]] > shared.epsilons_[names[1]]
    assert given.epsilons_[names[2]] < shared.epsilons_[names[2]]


def test_everything_declared_leaves_all_to_the_estimator():
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=50), clone(CLASSIFIER))
    shared = SharedBudget(model, epsilon=2.0, random_state=0).fit(FRAME[["age", "dose"]], Y)
    assert shared.epsilons_ == {"isrldpclassifier": 2.0}


def test_infinite_budgets_and_ledgers():
    model = make_pipeline(DPSimpleImputer(feature_bounds=BOUNDS), clone(CLASSIFIER))
    X = FRAME[["age", "dose"]]
    shared = SharedBudget(model, epsilon=np.inf).fit(X, Y)
    assert shared.privacy_spent_.epsilon == np.inf
    with PrivacyLedger(10.0, delta=1e-4) as ledger:
        SharedBudget(model, epsilon=2.0, delta=1e-5).fit(X, Y)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize(
    ("model", "params", "words"),
    [
        (CLASSIFIER, {}, "Pipeline of several steps"),
        (make_pipeline(StandardScaler(), CLASSIFIER), {}, "standardscaler: StandardScaler learns"),
        (
            make_pipeline(DPSimpleImputer(), DPFedAvgClassifier(unit="silo")),
            {},
            "costs cannot be added",
        ),
        (make_pipeline(DPSimpleImputer(), CLASSIFIER), {"shares": {"a": 0.1}}, "a share for each"),
        (
            make_pipeline(
                DPStandardScaler(), clone(CLASSIFIER).set_params(neighbours="add_remove")
            ),
            {},
            "has neighbours='replace', the last",
        ),
        (make_pipeline(DPSimpleImputer(), CLASSIFIER), {"epsilon": 0}, "epsilon must be"),
    ],
)
def test_refusals(model, params, words):
    with pytest.raises(ValueError, match=words):
        SharedBudget(model, **params).fit(FRAME[["age", "dose"]], Y)


def test_a_search_after_a_frozen_encoder_is_priced_as_chosen():
    """Its candidates' plans follow from the number of columns that the encoder gave out."""
    X = FRAME[["region"]]
    frozen = {
        how: FrozenEstimator(DPOneHotEncoder(1.0, delta=1e-5, max_categories=how).fit(X))
        for how in (None, 4)
    }
    kinds = {}
    for how, encoder in frozen.items():
        model = make_pipeline(encoder, ISRLDPClassifier(feature_bounds=(0, 1), n_rounds=5))
        space = {"isrldpclassifier__clip_norm": [0.5, 1.0]}
        search = DPRandomizedSearchCV(model, space, n_iter=2, epsilon=2.0, delta=1e-5).fit(X, Y)
        found = skdpfl.privacy_spent(search).costs[0].composition
        kinds[how] = Approximate(search.epsilon, 1e-5) in dict(found)
    assert kinds == {None: True, 4: False}
