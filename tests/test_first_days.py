"""Two paths of a first day, as somebody would type them: one table here, the same six hospitals
elsewhere. No line needs an explanation, and none warns."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl import ISRLDPClassifier
from skdpfl.federation import Schema
from skdpfl.inspection import (
    CountsDisplay,
    PrivacySpentDisplay,
    QuantilesDisplay,
    describe,
    value_counts,
)
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Courier, Gate, RemoteFederation, SiloRecords

HOSPITALS = ["Aarhus", "Bern", "Cork", "Delft", "Evora", "Faro"]


def patients(n=2000):
    """2,000 patients in six hospitals: gaps, words, a flag; and who came back within a month."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(62, 14, n).clip(18, 100).round(),
            "weight": rng.normal(78, 15, n).clip(35, 200).round(1),
            "smoker": rng.random(n) < 0.25,
            "ward": rng.choice(["heart", "lung", "surgery", "other"], n, p=[0.3, 0.2, 0.2, 0.3]),
            "hospital": rng.choice(HOSPITALS, n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1]),
        }
    )
    risk = 0.06 * (frame["age"] - 62) + 1.2 * frame["smoker"] + 1.5 * (frame["ward"] == "heart")
    back = (risk + rng.logistic(0, 0.7, n) > 0.8).to_numpy()
    frame.loc[rng.random(n) < 0.1, "weight"] = np.nan
    frame.loc[rng.random(n) < 0.05, "ward"] = None
    return frame, back


FRAME, BACK = patients()
BOUNDS = {"age": (18, 110), "weight": (30, 250)}


@pytest.mark.slow
def test_one_table(tmp_path):
    """Describe, impute, encode, fit, search, ledger, display, report."""
    book = tmp_path / "study.ledger"
    with PrivacyLedger(8.0, delta=1e-5, path=book) as ledger:
        table = describe(
            FRAME, epsilon=1.0, delta=1e-5, feature_bounds=BOUNDS, silo_column="hospital",
            by_silo=True, random_state=0,
        )  # fmt: skip
        words = value_counts(
            FRAME[["ward", "hospital"]], epsilon=0.5, delta=1e-5, silo_column="hospital",
            random_state=1,
        )  # fmt: skip

        passing = {"silo_column": "hospital", "keep_silo_column": False}
        columns = ColumnTransformer(
            [
                ("numbers", DPSimpleImputer(feature_bounds=BOUNDS, **passing),
                 ["age", "weight", "hospital"]),
                ("words", DPOneHotEncoder(categories={"ward": list(words.index)}, **passing),
                 ["ward", "hospital"]),
                ("rest", "passthrough", ["smoker", "hospital"]),
            ],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas")  # fmt: skip
        model = make_pipeline(columns, ISRLDPClassifier(silo_column="hospital"))
        shared = SharedBudget(model, epsilon=3.0, delta=1e-5, random_state=2).fit(FRAME, BACK)

        prepared = shared.estimator_[0].transform(FRAME)
        search = DPRandomizedSearchCV(
            ISRLDPClassifier(silo_column="hospital", feature_bounds=None),
            {"alpha": [0.0, 0.01]}, epsilon=2.0, delta=1e-5, n_iter=2, random_state=3,
        ).fit(prepared, BACK)  # fmt: skip
        left = ledger.remaining

    assert abs(table.loc[("all silos", "age"), "mean"] - FRAME["age"].mean()) < 5
    assert set(words.index) == {"heart", "lung", "surgery", "other"}
    constant = max(BACK.mean(), 1 - BACK.mean())
    assert shared.score(FRAME, BACK) > constant + 0.05
    assert search.score(prepared, BACK) > constant
    assert 0 < left < 8.0 and len(ledger.entries) >= 4
    assert ledger.table()["name"].iloc[:2].tolist() == ["describe", "value_counts"]

    QuantilesDisplay.from_description(table, "age")
    CountsDisplay.from_counts(words)
    PrivacySpentDisplay.from_ledger(ledger)
    plt.close("all")
    page = skdpfl.report(shared, ledger=ledger).save(tmp_path / "report.html")
    assert "DPSimpleImputer" in page.read_text(encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "skdpfl", "ledger", "show", str(book)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "describe" in shown and "DPRandomizedSearchCV" in shown


class Doors(Courier):
    """A gate of each hospital, in this process."""

    def __init__(self, tables, folder):
        self.ledgers = {n: PrivacyLedger(8.0, 1e-5, path=folder / n) for n in HOSPITALS}
        self.gates = {
            name: Gate(records, self.ledgers[name], allow_simulation=True)
            for name, records in tables.items()
        }

    def deliver(self, letters):
        return {name: self.gates[name].answer(letter) for name, letter in letters.items()}


@pytest.mark.slow
def test_six_hospitals(tmp_path):
    """The same questions to silos elsewhere, each with a table and a ledger of its own."""
    at = {name: FRAME["hospital"] == name for name in HOSPITALS}
    raw = FRAME.drop(columns="hospital")
    sizes = {name: int(rows.sum()) for name, rows in at.items()}
    known = {"silo_sizes": sizes, "feature_names": list(raw), "n_features": raw.shape[1]}
    tables = {name: SiloRecords(name, raw[rows], raw=True) for name, rows in at.items()}
    doors = Doors(tables, tmp_path)
    facts = Schema(**known, dtype="object")

    how = {"delta": 1e-5, "random_state": 0}
    bounds = BOUNDS | {"smoker": (0, 1)}
    there = describe(
        RemoteFederation(doors, facts), facts=facts, epsilon=1.0, feature_bounds=bounds,
        by_silo=True, **how,
    )  # fmt: skip
    here = describe(
        FRAME.astype({"smoker": object}), epsilon=1.0, feature_bounds=bounds,
        silo_column="hospital", by_silo=True, **how,
    )  # fmt: skip
    pd.testing.assert_frame_equal(there, here, check_exact=True)

    # Each hospital prepares its records by what is public, and by what was released.
    def prepared(rows):
        filled = raw[rows].fillna({"weight": there.loc[("all silos", "weight"), "mean"]})
        wards = sorted(there.loc[("all silos", "ward"), "shares"])
        ward = pd.Categorical(filled.pop("ward"), wards)
        return filled.astype(float).join(pd.get_dummies(pd.Series(ward, filled.index), dtype=float))

    columns = list(prepared(at["Bern"]))
    tables = {
        name: SiloRecords(name, prepared(rows), BACK[rows].astype(int), classes=[0, 1])
        for name, rows in at.items()
    }
    doors = Doors(tables, tmp_path)
    facts = Schema(sizes, n_features=len(columns), feature_names=columns)
    model = ISRLDPClassifier(
        3.0, delta=1e-5, n_rounds=20, classes=[0, 1], random_state=1,
        feature_bounds={name: bounds.get(name, (0, 1)) for name in columns},
    )  # fmt: skip
    model.fit_federation(RemoteFederation(doors, facts, classes=[0, 1]), facts)
    everybody = pd.concat([prepared(rows) for rows in at.values()])
    y = np.concatenate([BACK[rows] for rows in at.values()])
    assert model.score(everybody, y.astype(int)) > max(y.mean(), 1 - y.mean()) + 0.05
    for name in HOSPITALS:
        ledger = PrivacyLedger(path=tmp_path / name, must_exist=True)
        assert len(ledger.entries) == 2 and ledger.table()["spent"].iloc[-1] < 5
    assert "6 silos" in skdpfl.report(model).methods


@pytest.mark.parametrize("column", ["age", "ward"])
def test_what_is_typed_wrong_is_answered_before_anything_is_paid(column):
    with PrivacyLedger(1.0) as ledger:
        with pytest.raises(ValueError, match=r"is not a column of X"):
            describe(FRAME.drop(columns="hospital"), silo_column="hospital")
        with pytest.raises(ValueError, match="epsilon"):
            describe(FRAME[[column]], epsilon=-1.0)
    assert not ledger.entries
