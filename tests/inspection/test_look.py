"""Looks before a fit: near what pandas says, as far off as they say, paid once."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.exceptions import BudgetExceeded
from skdpfl.inspection import correlation, describe, histogram, quantile, value_counts
from skdpfl.privacy import PrivacyLedger
from tests.estimators.test_frames import in_polars, raw

N = 6000
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(60, 15, N).clip(18, 100),
        "hospital": RNG.choice(["east", "north", "west"], N, p=[0.5, 0.3, 0.2]),
        "cost": RNG.lognormal(8, 1, N),
        "smoker": RNG.random(N) < 0.3,
        "ward": RNG.choice(["heart", "lung", "other"], N, p=[0.3, 0.2, 0.5]),
    }
)
FRAME["pressure"] = 100 + 0.5 * FRAME["age"] + RNG.normal(0, 7.5, N)
FRAME.loc[::8, "age"] = np.nan
FRAME.loc[::5, "ward"] = None
BOUNDS = {"age": (0, 120), "cost": (0, 60_000), "pressure": (50, 250)}
NUMBERS = ["age", "cost", "smoker", "pressure"]
SHARES = [0.05, 0.25, 0.5, 0.75, 0.95]


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("bounds", [None, BOUNDS, {"age": (0, 120)}], ids=["none", "all", "one"])
def test_descriptions_are_as_far_off_as_they_say(bounds, trust):
    table = describe(
        FRAME,
        epsilon=3.0,
        feature_bounds=bounds,
        silo_column="hospital",
        trust=trust,
        random_state=0,
    )
    assert list(table.index) == ["age", "cost", "smoker", "ward", "pressure"]
    plain = FRAME[NUMBERS].astype(float)
    exact = pd.DataFrame({"mean": plain.mean(), "std": plain.std(), "count": plain.count()})
    exact["missing"] = plain.isna().mean()
    for share in SHARES:
        exact[f"{share:.0%}"] = plain.drop(columns="smoker").quantile(share)
    for name in exact:
        of = exact[name].dropna()
        apart = (table.loc[of.index, name].astype(float) - of).abs()
        errors = table.loc[of.index, f"{name}_error"].astype(float)
        if name in ("mean", "std") and (bounds is None or "cost" not in bounds):
            assert apart.pop("cost") < 0.15 * of["cost"]  # its range is found without the tail
            del errors["cost"]
        assert (apart <= 5 * errors + 1e-9).all(), name
        if name in ("mean", "std"):
            assert (errors < 0.35 * exact.loc[errors.index, "std"]).all()
    assert table.loc["smoker", "50%":"95%_error"].isna().all()
    assert table.loc["ward", ["mean", "50%"]].isna().all()
    shares = table.loc["ward", "shares"]
    for ward, share in (FRAME["ward"].value_counts() / N).items():
        assert abs(shares[ward] - share) < 5 * table.loc["ward", "shares_error"]
    assert abs(table.loc["ward", "missing"] - 0.2) < 5 * table.loc["ward", "missing_error"]
    spent = table.attrs["privacy_spent"]
    assert 2.97 <= spent.epsilon <= 3.0 and spent.trust == trust


@pytest.mark.slow
def test_errors_are_those_that_new_noise_makes():
    """Between half and five sixths of 60 looks err by less than they say.

    68 % are meant; a binomial of 60 at .68 is outside with a probability below 1e-2 per name, and
    the seeds are fixed. Errors at half or twice the size would give 38 % or 95 %.
    """
    exact = {"mean": FRAME["age"].mean(), "std": FRAME["age"].std(), "count": 5250}
    within = dict.fromkeys(exact, 0)
    for seed in range(60):
        table = describe(FRAME[["age"]], feature_bounds=(0, 120), random_state=seed)
        for name, value in exact.items():
            within[name] += abs(table.loc["age", name] - value) < table.loc["age", f"{name}_error"]
    assert all(30 <= count <= 50 for count in within.values()), within


def test_each_silo_has_its_own_statistics_at_no_cost():
    how = {"epsilon": 3.0, "silo_column": "hospital", "feature_bounds": BOUNDS, "random_state": 0}
    both, alone = describe(FRAME, by_silo=True, **how), describe(FRAME, **how)
    assert both.attrs["privacy_spent"] == alone.attrs["privacy_spent"]
    pd.testing.assert_frame_equal(both.loc["all silos"], alone)
    assert list(both.index.levels[0]) == ["all silos", "east", "north", "west"]
    means = FRAME.groupby("hospital")["age"].mean()
    for silo in means.index:
        row = both.loc[(silo, "age")]
        assert abs(row["mean"] - means[silo]) < 5 * row["mean_error"]
        assert row["mean_error"] > alone.loc["age", "mean_error"]
    with pytest.raises(ValueError, match="by_silo=True is for trust"):
        describe(FRAME, by_silo=True, trust="server", **how)


LOOKS = {
    "describe": lambda **how: describe(FRAME.drop(columns="hospital"), **how),
    "numbers": lambda **how: describe(FRAME[NUMBERS], **how),
    "quantile": lambda **how: quantile(FRAME["age"], SHARES, **how),
    "histogram": lambda **how: histogram(FRAME["cost"], feature_bounds=(0, 1e5), **how),
    "value_counts": lambda **how: value_counts(FRAME["ward"], **how),
    "declared": lambda **how: value_counts(FRAME["ward"], categories=["lung", "skin"], **how),
    "correlation": lambda **how: correlation(FRAME[NUMBERS], feature_bounds=None, **how),
}


@pytest.mark.parametrize("neighbours", ["auto", "add_remove"])
@pytest.mark.parametrize("name", LOOKS)
def test_a_look_costs_what_it_was_given_and_is_charged_once(name, neighbours):
    look = LOOKS[name]
    spent = look(epsilon=0.7, delta=1e-6, neighbours=neighbours, random_state=0).attrs[
        "privacy_spent"
    ]
    assert 0.99 * 0.7 <= spent.epsilon <= 0.7 and spent.delta == 1e-6
    relation = "replace" if neighbours == "auto" else neighbours
    assert (spent.unit, spent.trust, spent.neighbours) == ("record", "silo", relation)
    with PrivacyLedger(1.0, delta=1e-6) as ledger:
        look(epsilon=0.6, delta=1e-6, neighbours=neighbours)
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceeded, match="largest epsilon that still fits"):
            look(epsilon=0.7, delta=1e-6, neighbours=neighbours)
        assert len(ledger.entries) == 1


def test_histograms_and_quantiles_of_a_column():
    silos = FRAME["hospital"]
    counts = histogram(FRAME["age"], 6, feature_bounds=(0, 120), silos=silos, random_state=0)
    exact = np.histogram(FRAME["age"].dropna(), 6, (0, 120))[0]
    assert (np.abs(counts.to_numpy() - exact) < 5 * counts.attrs["noise_error"]).all()
    assert counts.name == "age" and 60 in counts.index[3] and 60 not in counts.index[2]
    each = histogram(
        FRAME["age"], 6, feature_bounds=(0, 120), silos=silos, by_silo=True, random_state=0
    )
    np.testing.assert_allclose(each.loc["all silos"], counts)
    np.testing.assert_allclose(
        each.loc[["east", "north", "west"]].groupby(level=1).sum(), counts.to_numpy()
    )
    assert each.attrs["noise_error"] == counts.attrs["noise_error"]
    found = quantile(FRAME["age"].to_numpy(), 0.5, feature_bounds=(0, 120), random_state=0)
    assert abs(found.loc[0, "50%"] - FRAME["age"].median()) < 5 * found.loc[0, "50%_error"]
    for bad in (1.2, [0.5, -0.1], [[0.5]]):
        with pytest.raises(ValueError, match="q must be"):
            quantile(FRAME["age"], bad)
    with pytest.raises(ValueError, match="bins must be an integer"):
        histogram(FRAME["age"], 200)


def test_counts_of_values():
    counts = value_counts(FRAME[["ward", "hospital"]], silo_column="hospital", random_state=0)
    exact = FRAME["ward"].value_counts()
    assert list(counts.index) == list(exact.index) and counts.name == "ward"
    assert ((counts - exact).abs() < 5 * counts.attrs["noise_error"]).all()
    wards = FRAME["ward"].copy()
    wards[1] = "Atlantis"
    for seed in range(20):
        assert "Atlantis" not in value_counts(wards, random_state=seed).index
    declared = value_counts(wards, categories=["skin", "lung"], random_state=0)
    assert list(declared.index) == ["skin", "lung"]
    assert abs(declared["skin"]) < 5 * declared.attrs["noise_error"] < 200
    floors = value_counts(np.repeat([1, 2], [2000, 1000]), epsilon=3.0, random_state=0)
    assert list(floors.index) == [1, 2] and abs(floors[2] - 1000) < 100
    flags = value_counts(FRAME["smoker"], categories=[True, False], random_state=0)
    assert abs(flags[True] - FRAME["smoker"].sum()) < 5 * flags.attrs["noise_error"]
    for bad, words in ((["a", "a"], "twice"), ("a", "list of values")):
        with pytest.raises(ValueError, match=words):
            value_counts(wards, categories=bad)


@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_correlations_of_columns(bounds):
    found = correlation(FRAME, epsilon=4.0, feature_bounds=bounds, silo_column="hospital",
                        random_state=0)  # fmt: skip
    exact = FRAME[NUMBERS].corr()
    assert list(found.index) == list(found.columns) == ["age", "cost", "smoker", "pressure"]
    errors = pd.DataFrame(found.attrs["noise_error"])
    assert ((found - exact).abs().to_numpy() < 5 * errors.to_numpy() + 0.03).all()
    skewed = errors.index == "cost"  # clipped most
    assert errors.to_numpy()[~skewed][:, ~skewed].max() < 0.1 and (np.diag(found) == 1).all()
    assert found.loc["age", "pressure"] > 0.5
    constant = FRAME[["age"]].assign(same=3.0)
    found = correlation(constant, epsilon=4.0, feature_bounds=(0, 120), random_state=0)
    assert np.isnan(found.loc["age", "same"]) or abs(found.loc["age", "same"]) < 1


def test_errors_of_correlations_contain_what_clipping_changes():
    """Noise alone explains one in seven: rows with a rare flag or a large value are clipped."""
    bounds = {"one": (-5, 5), "near": (-5, 5), "half": (-5, 5), "flag": (0, 1), "skewed": (0, 100)}
    within, silos = [], np.arange(20_000) % 3
    for seed in range(12):
        one, *rest = np.random.default_rng(seed).normal(size=(4, 20_000))
        frame = pd.DataFrame({"one": one, "near": 0.9 * one + 0.19**0.5 * rest[0]})
        frame["half"] = 0.5 * one + 0.75**0.5 * rest[1]
        frame["flag"], frame["skewed"] = (one + rest[2] > 2).astype(float), np.exp(one)
        found = correlation(frame, feature_bounds=bounds, random_state=seed, silos=silos)
        off = (found - frame.corr()).abs() / pd.DataFrame(found.attrs["noise_error"])
        off = off.to_numpy()[np.triu_indices(5, 1)]
        within += (off[~np.isnan(off)] < 2).tolist()
    assert len(within) > 80 and np.mean(within) > 0.93


def test_dates_and_flags_of_polars_are_those_of_pandas():
    frame, _, silos = raw(4000)
    known = {"smoker": "flag", "age": (18, 100), "seen": ("2015-01-01", "2020-12-31")}
    options = {"silos": silos, "epsilon": 4.0, "feature_bounds": known, "random_state": 0}
    table = describe(frame, **options)
    pd.testing.assert_frame_equal(describe(in_polars(frame), **options), table)
    assert abs(table.loc["seen", "mean"] - 17_430) < 5 * table.loc["seen", "mean_error"] + 30


def test_ranges_that_are_not_seen_are_named():
    small = pd.DataFrame({"seen": np.arange(90.0)})
    with pytest.warns(UserWarning, match=r"The range of \['seen'\] could not be estimated"):
        table = describe(small, epsilon=0.1, random_state=0)
    assert np.isnan(table.loc["seen", "mean"]) and np.isnan(table.loc["seen", "mean_error"])


def test_words_that_are_not_found_are_named():
    words = pd.DataFrame({"ward": ["a", "b"] * 20, "age": 1.0})
    with pytest.warns(UserWarning, match=r"No value of \['ward'\] is frequent.* records in a silo"):
        table = describe(words, feature_bounds={"age": (0, 2)}, delta=1e-6, random_state=0)
    assert table.loc["ward", "shares"] == {}


def test_without_privacy_it_is_pandas():
    table = describe(FRAME, epsilon=np.inf, silo_column="hospital")
    exact = FRAME[NUMBERS].astype(float).describe().T
    np.testing.assert_allclose(table.loc[NUMBERS, "mean"].astype(float), exact["mean"], rtol=1e-3)
    np.testing.assert_allclose(table.loc[NUMBERS, "std"].astype(float), exact["std"], rtol=1e-2)
    assert table.attrs["privacy_spent"].epsilon == np.inf
