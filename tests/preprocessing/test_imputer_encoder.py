"""The imputer and the encoder in scikit-learn's world."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpfl.exceptions import BudgetExceeded
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer
from skdpfl.privacy import PrivacyLedger

CHECKED = [
    DPSimpleImputer(),
    DPSimpleImputer(strategy="median", feature_bounds=(-10, 10)),
    DPOneHotEncoder(epsilon=1e4),
]


@pytest.mark.filterwarnings("ignore:.*(oo few|Only categories|fewer records|No category)")
@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    check(estimator)


N = 6000
RNG = np.random.default_rng(0)
SILOS = RNG.choice(["east", "north", "west"], N)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(60, 10, N),
        "hospital": SILOS,
        "cost": RNG.lognormal(8, 1, N),
        "region": RNG.choice(["rural", "urban", "coast"], N, p=[0.2, 0.5, 0.3]),
        "smoker": RNG.choice(["no", "yes"], N),
    },
    index=np.arange(N) + 7,
)
FRAME.loc[FRAME.index[::9], ["age", "region"]] = None
NUMBERS = FRAME[["age", "hospital", "cost"]]
WORDS = FRAME[["region", "hospital", "smoker"]]


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("bounds", [None, {"age": (0, 120), "cost": (0, 50_000)}])
@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_statistics_are_near_the_exact_ones(strategy, bounds, trust):
    imputer = DPSimpleImputer(
        2.0,
        strategy=strategy,
        feature_bounds=bounds,
        trust=trust,
        silo_column="hospital",
        random_state=0,
    ).fit(NUMBERS)
    exact = getattr(NUMBERS[["age", "cost"]], strategy)()
    np.testing.assert_allclose(imputer.statistics_, exact, rtol=0.12)
    assert imputer.privacy_spent_.trust == trust
    out = imputer.transform(NUMBERS)
    assert not out.isna().any().any() and list(out) == ["age", "hospital", "cost"]
    kept = NUMBERS["age"].notna()
    pd.testing.assert_frame_equal(out[kept], NUMBERS[kept])


def test_most_frequent_values_of_a_mixed_frame():
    imputer = DPSimpleImputer(
        4.0, strategy="most_frequent", silo_column="hospital", random_state=0
    ).fit(WORDS)
    assert imputer.statistics_[0] == "urban"
    out = imputer.transform(WORDS)
    assert out["region"].iloc[0] == "urban" and not out.isna().any().any()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_are_found_and_silos_pass_through(kind):
    columns = {c: WORDS[c].astype(object).where(WORDS[c].notna(), None).to_list() for c in WORDS}
    X = WORDS if kind == "pandas" else pl.DataFrame(columns)
    encoder = DPOneHotEncoder(2.0, silo_column="hospital", random_state=0).fit(X)
    assert [set(c) for c in encoder.categories_] == [{"urban", "coast", "rural"}, {"no", "yes"}]
    assert encoder.categories_[0][0] == "urban"
    out = encoder.transform(X)
    assert type(out) is type(X)
    assert list(out.columns) == list(encoder.get_feature_names_out())
    assert list(out.columns).index("hospital") == 3 and out["hospital"].to_list() == SILOS.tolist()
    np.testing.assert_array_equal(
        out["region_coast"].to_numpy(), (WORDS["region"] == "coast").to_numpy()
    )
    assert out["region_urban"].to_list()[0] == 0  # missing: zeros


def test_declared_categories_are_free_and_may_be_mixed_with_unknown_ones():
    free = DPOneHotEncoder(categories={"region": ["coast", "rural"], "smoker": ["no", "yes"]})
    free = free.set_params(silo_column="hospital").fit(WORDS)
    assert free.privacy_spent_.epsilon == 0 and free.width_is_public_
    mixed = DPOneHotEncoder(
        categories=["auto", ["no", "yes"]], silo_column="hospital", random_state=0
    ).fit(WORDS)
    both = DPOneHotEncoder(silo_column="hospital", random_state=0).fit(WORDS)
    assert mixed.counts_[1] is None and list(mixed.categories_[1]) == ["no", "yes"]
    assert mixed.threshold_ < both.threshold_  # one column's noise, not two


def test_max_categories_makes_the_width_public():
    encoder = DPOneHotEncoder(2.0, max_categories=4, silo_column="hospital", random_state=0).fit(
        WORDS
    )
    assert encoder.width_is_public_
    names = list(encoder.get_feature_names_out())
    assert len(names) == 9 and names[3] == "region_unused3"
    assert (encoder.transform(WORDS)["region_unused3"] == 0).all()
    one = clone(encoder).set_params(max_categories=1).fit(WORDS)
    assert list(one.categories_[0]) == ["urban"] and len(one.counts_[0]) == 1


@pytest.mark.parametrize(
    "transformer",
    [
        DPSimpleImputer(feature_bounds=(0, 120)),
        DPSimpleImputer(strategy="median"),
        DPSimpleImputer(strategy="most_frequent"),
        DPOneHotEncoder(),
    ],
    ids=["mean", "median", "mode", "categories"],
)
@pytest.mark.parametrize("neighbours", ["auto", "add_remove"])
def test_the_budget_is_spent_and_not_overspent(transformer, neighbours):
    X = WORDS[["smoker"]] if isinstance(transformer, DPOneHotEncoder) else NUMBERS[["age"]].round()
    paid = clone(transformer).set_params(epsilon=0.7, delta=1e-6, neighbours=neighbours)
    spent = paid.set_params(random_state=0).fit(X).privacy_spent_
    assert 0.99 * 0.7 <= spent.epsilon <= 0.7 and spent.delta == 1e-6
    relation = "replace" if neighbours == "auto" else neighbours
    assert (spent.unit, spent.trust, spent.neighbours) == ("record", "silo", relation)
    with PrivacyLedger(0.5, delta=1e-6) as ledger, pytest.raises(BudgetExceeded):
        clone(paid).set_params(random_state=None, neighbours="auto").fit(X)
    assert not ledger.spent or ledger.spent.epsilon == 0


def test_hopeless_counts_are_refused_and_rare_ones_warned_of():
    small = WORDS.iloc[:60]
    with pytest.raises(ValueError, match="No category can be found"):
        DPOneHotEncoder(0.1, silo_column="hospital").fit(small)
    with pytest.raises(ValueError, match="No most frequent value"):
        DPSimpleImputer(0.1, strategy="most_frequent", silo_column="hospital").fit(small)
    with pytest.warns(UserWarning, match="Only categories with"):
        DPOneHotEncoder(1.0, random_state=0).fit(WORDS[["smoker"]].iloc[:150])
    with pytest.warns(UserWarning, match="too few records"):
        DPSimpleImputer(0.1, feature_bounds=(0, 120)).fit(NUMBERS[["age"]].iloc[:20])
    with pytest.warns(UserWarning, match=r"Too few values in \[0\] .* filled with \[[\d.-]+\]"):
        DPSimpleImputer(feature_bounds=(0, 1), random_state=0).fit(np.full((2000, 1), np.nan))
    with pytest.warns(UserWarning, match="No category was found"):
        DPOneHotEncoder(random_state=0).fit(np.arange(1000)[:, None])


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_values_beyond_the_magnitudes_that_are_looked_for_are_said(strategy):
    """Nanoseconds since 1970 were filled with 1e12, without a word."""
    times = pd.DataFrame({"t": 1.7e18 + 1e15 * np.arange(2000), "age": np.arange(2000) % 90})
    imputer = DPSimpleImputer(strategy=strategy, random_state=0)
    with pytest.warns(UserWarning, match=r"Values in \['t'\] are beyond 5e11"):
        imputer.fit(times)
    imputer.set_params(feature_bounds={"t": (1e18, 5e18), "age": (0, 120)}).fit(times)
    assert 1.7e18 < imputer.statistics_[0] < 3.7e18


@pytest.mark.parametrize(
    ("transformer", "words"),
    [
        (DPSimpleImputer(strategy="constant"), "learns nothing"),
        (DPSimpleImputer(strategy="mode"), "strategy must be one of"),
        (DPSimpleImputer(strategy="most_frequent", feature_bounds=(0, 1)), "leave them out"),
        (DPSimpleImputer(trust="shuffler"), "trust must be one of"),
        (DPOneHotEncoder(categories="all"), "categories must be"),
        (DPOneHotEncoder(categories={"region": ["a"]}), "no entry for 'smoker'"),
        (DPOneHotEncoder(categories=[["a"]]), "one entry per column"),
        (DPOneHotEncoder(categories=[["a", "a"], "auto"]), "twice"),
        (DPOneHotEncoder(categories=["rural", "auto"]), "list of values"),
        (DPOneHotEncoder(epsilon=0), "epsilon must be"),
    ],
)
def test_bad_parameters(transformer, words):
    with pytest.raises(ValueError, match=words):
        transformer.fit(WORDS[["region", "smoker"]])
    assert not hasattr(transformer, "n_features_in_")


def test_an_infinite_value_shows_in_no_sum_however_wide_the_bounds_are():
    X = 1e308 * np.linspace(-1, 1, 2000)[:, None]
    X[7] = np.inf
    imputer = DPSimpleImputer(feature_bounds=(-1.7e308, 1.7e308), delta=1e-5, random_state=0)
    assert np.isfinite(imputer.fit(X).statistics_).all()


@pytest.mark.parametrize(
    "step", [DPOneHotEncoder(8.0), DPSimpleImputer(8.0, strategy="most_frequent")]
)
def test_one_value_of_a_list_changes_no_other(step):
    """Its array would be text if one value is."""
    rows = [[1.0]] * 400 + [[2.0]] * 600
    learnt = []
    for last in (2.0, "x"):
        fitted = clone(step).set_params(random_state=0).fit([*rows[:-1], [last]])
        learnt.append(getattr(fitted, "categories_", None) or [fitted.statistics_])
        one, two = fitted.transform(rows[:1]), fitted.transform([rows[0], ["x"]])
        assert one[0].tolist() == two[0].tolist()
    assert [names.tolist() for names in learnt[0]] == [names.tolist() for names in learnt[1]]
