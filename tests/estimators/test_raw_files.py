"""Public tables from their raw files: text, "?" as gaps, codes; as good as columns made by hand."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer

real = pytest.mark.skipif("SKDPFL_DATA" not in os.environ, reason="SKDPFL_DATA is not set")
ADULT = {
    "age": (17, 90), "workclass": None, "weight": (12000, 1500000), "education": None,
    "education_years": (1, 16), "marital": None, "occupation": None, "relationship": None,
    "race": None, "sex": None, "gain": (0, 100000), "loss": (0, 5000), "hours": (1, 99),
    "country": None,
}  # fmt: skip
OBESITY = {
    "Age": (10, 70), "Height": (1.4, 2.0), "Weight": (30, 180), "FCVC": (1, 3), "NCP": (1, 4),
    "CH2O": (1, 3), "FAF": (0, 3), "TUE": (0, 2),
}  # fmt: skip


def adult():
    """The census table; gaps are None, as a file's reader leaves them in text."""
    with gzip.open(Path(os.environ["SKDPFL_DATA"], "adult/adult-train.csv.gz"), "rt") as file:
        names = [*ADULT, "income"]
        frame = pd.read_csv(file, names=names, skipinitialspace=True, na_values="?")
    y = (frame.pop("income") == ">50K").to_numpy().astype(int)
    return frame, y, {name: span for name, span in ADULT.items() if span}


def obesity():
    folder = Path(os.environ["SKDPFL_DATA"], "obesity")
    frame = pd.read_csv(folder / "ObesityDataSet_raw_and_data_sinthetic.csv")
    return frame, pd.factorize(frame.pop("NObeyesdad"), sort=True)[0], OBESITY


TABLES = {"adult": adult, "obesity": obesity}


def by_hand(frame, declared):
    """The columns as a user of pandas makes them: 0 or 1 for each level and for gaps."""
    columns = {}
    for name, public in declared.items():
        if isinstance(public, tuple):
            columns[name] = frame[name].fillna(sum(public) / 2).astype(float)
        else:
            columns |= {f"{name}_{level}": frame[name] == level for level in sorted(public)}
        columns[f"{name}_missing"] = frame[name].isna()
    return pd.DataFrame(columns)


def halves(y, seed):
    """Training rows with their silos, and test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[: len(y) * 3 // 10], order[len(y) * 3 // 10 :]
    return train, np.random.default_rng(seed).integers(0, 5, len(train)), test


@real
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("name", TABLES)
def test_a_raw_file_with_declarations_is_the_table_encoded_by_hand(name, trust, epsilon):
    """Bit for bit, so no accuracy is lost."""
    frame, y, spans = TABLES[name]()
    levels = {c: sorted(frame[c].dropna().unique()) for c in frame}
    declared = {c: spans.get(c, levels[c]) for c in frame}
    hand, (train, silos, test) = by_hand(frame, declared), halves(y, 0)
    given = {"trust": trust, "delta": 1e-5, "random_state": 0}
    raw = ISRLDPClassifier(epsilon, feature_bounds=declared, **given)
    raw.fit(frame.iloc[train], y[train], silos=silos)
    same = ISRLDPClassifier(epsilon, feature_bounds=spans, **given)
    same.fit(hand.iloc[train], y[train], silos=silos)
    assert raw.get_feature_names_out().tolist() == same.get_feature_names_out().tolist()
    np.testing.assert_array_equal(raw.coef_, same.coef_)
    np.testing.assert_array_equal(raw.intercept_, same.intercept_)
    np.testing.assert_array_equal(raw.predict(frame.iloc[test]), same.predict(hand.iloc[test]))
    assert raw.privacy_spent_.epsilon == same.privacy_spent_.epsilon


@real
@pytest.mark.slow
@pytest.mark.parametrize(("trust", "epsilon"), [("silo", 3.0), ("server", 1.0)])
@pytest.mark.parametrize("name", TABLES)
def test_a_raw_file_without_declarations_is_as_good_as_a_pipeline(name, trust, epsilon):
    """At most .01 below encoder, imputer and SharedBudget, in the mean of splits (AUC, accuracy).

    Means are .005 and .018 with obesity (a split's deviation .02 and .04), .008 with adult (.003):
    bits that change raise a false alarm in at most 1 of 100.
    """
    frame, y, spans = TABLES[name]()
    text = [c for c in frame if c not in spans]

    def score(model, test):
        if name == "obesity":
            return model.score(frame.iloc[test], y[test])
        return roc_auc_score(y[test], model.predict_proba(frame.iloc[test])[:, 1])

    higher = []
    for seed in range(10 if name == "obesity" else 3):
        train, silos, test = halves(y, seed)
        given = {"delta": 1e-5, "random_state": seed}
        pieces = [
            ("text", DPOneHotEncoder(trust=trust), text),
            ("numbers", DPSimpleImputer(trust=trust), list(spans)),
        ]
        steps = make_pipeline(ColumnTransformer(pieces), ISRLDPClassifier(trust=trust))
        models = [
            ISRLDPClassifier(epsilon, trust=trust, **given),
            SharedBudget(steps, epsilon=epsilon, **given),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise and ranges, as anyone would see them
            fitted = [m.fit(frame.iloc[train], y[train], silos=silos) for m in models]
            raw, piped = (score(model, test) for model in fitted)
        higher.append(raw - piped)
    assert np.mean(higher) > -0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_codes", "n", "n_columns", "epsilon", "trust"),
    [(6, 6000, 4, 1.0, "server"), (12, 3000, 2, 3.0, "silo"), (4, 2000, 3, 3.0, "silo")],
)
def test_codes_as_levels_find_effects_that_are_not_monotone(n_codes, n, n_columns, epsilon, trust):
    """R2 + .03 over the same codes as numbers, in the mean of 4 tables.

    Six codes, the closest: .07 with a deviation of .02 for a table, so bits that change raise a
    false alarm in 1 of 10,000. With 4 codes at epsilon 8 curves find the same.
    """
    gains = [_codes(n_codes, n, n_columns, epsilon, trust, seed) for seed in range(4)]
    assert np.mean(gains) > 0.03


@pytest.mark.slow
def test_curves_of_codes_find_the_same_at_large_budgets():
    gains = [_codes(4, 2000, 3, 8.0, "silo", seed) for seed in range(4)]
    assert abs(np.mean(gains)) < 0.03


def _codes(n_codes, n, n_columns, epsilon, trust, seed):
    """Return the R2 of codes declared as levels, less that of the same codes as numbers."""
    rng = np.random.default_rng([7, n_codes, seed])
    codes = rng.integers(1, n_codes + 1, (n + 2000, n_columns))
    effects, z = rng.normal(size=(n_columns, n_codes)), rng.normal(size=n + 2000)
    raw = effects[np.arange(n_columns), codes - 1].sum(axis=1) + z / 2
    y = 50 + 10 * (raw + raw.std() * rng.normal(size=len(z)))
    names = [f"code{j}" for j in range(n_columns)]
    frame = pd.DataFrame({**dict(zip(names, codes.T, strict=True)), "z": z})
    scores = []
    for public in (set(range(1, n_codes + 1)), (1, n_codes)):
        bounds = {**dict.fromkeys(names, public), "z": (-4, 4)}
        model = ISRLDPRegressor(
            epsilon, trust=trust, feature_bounds=bounds, target_bounds=(-30, 130), random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of effects that numbers do not find
            model.fit(frame[:n], y[:n], silos=np.arange(n) % 4)
        scores.append(model.score(frame[n:], y[n:]))
    return scores[0] - scores[1]
