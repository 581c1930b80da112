"""Frames as they are, against the same columns prepared by hand, at the same budget.

    python -m benchmarks.frames [seeds]

Rows are a table and a trust; columns the mean score (AUC, or accuracy of several labels) of a frame
that is declared, of one with nothing declared, and of an imputer and an encoder with their own
budgets before the model, which share one epsilon (`SharedBudget`). Then: codes as levels and as
numbers, and 1,000 random plans of which none may cost more than its budget.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpfl import DPFedAvgClassifier, DPScaffoldRegressor, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.model_selection import SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer

DATA = Path(os.environ.get("SKDPFL_DATA", "."))
ADULT = "age work weight education years marital job relation race sex gain loss hours country"
RANGES = {
    "age": (17, 90), "years": (1, 16), "gain": (0, 99_999), "loss": (0, 4_500), "hours": (1, 99),
    "weight": (10_000, 1_500_000),
}  # fmt: skip
OBESITY = {
    "Age": (14, 61), "Height": (1.4, 2.0), "Weight": (35, 180), "FCVC": (1, 3), "NCP": (1, 4),
    "CH2O": (1, 3), "FAF": (0, 3), "TUE": (0, 2),
}  # fmt: skip


def adult() -> tuple[pd.DataFrame, np.ndarray, dict[str, Any], int]:
    """Return adult's frame with "?" as gaps, its labels, declarations, and number of silos."""
    names, path = [*ADULT.split(), "label"], DATA / "adult" / "adult-train.csv.gz"
    frame = pd.read_csv(path, names=names, skipinitialspace=True, na_values="?")
    return *_labelled(frame, "label", RANGES), 8


def obesity() -> tuple[pd.DataFrame, np.ndarray, dict[str, Any], int]:
    """Return the same of obesity."""
    frame = pd.read_csv(DATA / "obesity" / "ObesityDataSet_raw_and_data_sinthetic.csv")
    return *_labelled(frame, "NObeyesdad", OBESITY), 3


def _labelled(
    frame: pd.DataFrame, label: str, ranges: dict[str, Any]
) -> tuple[pd.DataFrame, np.ndarray, dict[str, Any]]:
    y, frame = frame[label].to_numpy(), frame.drop(columns=label)
    words = [name for name in frame if name not in ranges]
    return frame, y, ranges | {name: sorted(frame[name].dropna().unique()) for name in words}


def by_transformers(frame: pd.DataFrame, model: Any) -> Any:
    """Return a pipeline of an imputer and an encoder with budgets of their own."""
    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    numbers.remove("silo")
    words = [name for name in frame if name not in numbers and name != "silo"]
    options = {"silo_column": "silo", "keep_silo_column": False, "trust": model.trust}
    columns = [
        ("numbers", DPSimpleImputer(**options), [*numbers, "silo"]),
        ("words", DPOneHotEncoder(max_categories=20, **options), [*words, "silo"]),
        ("silo", "passthrough", ["silo"]),
    ]
    prepare = ColumnTransformer(columns, verbose_feature_names_out=False)
    return make_pipeline(prepare.set_output(transform="pandas"), model)


def score(model: Any, frame: pd.DataFrame, y: np.ndarray) -> float:
    """Return the area under the ROC curve for two labels, the accuracy for more."""
    if len(np.unique(y)) > 2:
        return float(np.mean(model.predict(frame) == y))
    return float(roc_auc_score(y, model.predict_proba(frame)[:, 1]))


def compare(seeds: int) -> None:
    """Print the scores of frames and of transformers."""
    for read in (adult, obesity):
        frame, y, declared, n_silos = read()
        for trust, epsilon in (("silo", 3.0), ("server", 1.0), ("silo", 8.0)):
            found: dict[str, list[float]] = {}
            for seed in range(seeds):
                silos = np.random.default_rng(seed).integers(0, n_silos, len(frame))
                parts = train_test_split(frame.assign(silo=silos), y, random_state=seed)
                train, test, y_train, y_test = parts
                kw = {"trust": trust, "silo_column": "silo", "random_state": seed}
                plain = ISRLDPClassifier(epsilon, **kw)
                steps = by_transformers(train, ISRLDPClassifier(**kw))
                models = {
                    "declared": ISRLDPClassifier(epsilon, feature_bounds=declared, **kw),
                    "nothing declared": plain,
                    "transformers": SharedBudget(steps, epsilon=epsilon, random_state=seed),
                }
                for name, model in models.items():
                    model.fit(train, y_train)
                    found.setdefault(name, []).append(score(model, test, y_test))
            means = {name: round(float(np.mean(values)), 4) for name, values in found.items()}
            print(read.__name__, trust, epsilon, means, flush=True)


def codes(seeds: int) -> None:
    """Print R2 of codes as levels, and as numbers, whose effects are not monotone."""
    for as_levels in (True, False):
        found = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            plan, age = rng.integers(1, 8, 6000), rng.uniform(18, 90, 6000)
            effect = np.array([0, 2, -1, 3, -2, 1, -3])[plan - 1]
            y = effect + (age - 54) / 20 + rng.normal(0, 1, 6000)
            frame = pd.DataFrame({"plan": plan, "age": age, "sex": rng.choice(["f", "m"], 6000)})
            declared = {"plan": set(range(1, 8)) if as_levels else (1, 7), "age": (18, 90)}
            model = ISRLDPRegressor(
                3.0, feature_bounds=declared | {"sex": ["f", "m"]}, target_bounds=(-9, 9),
                model="linear", random_state=seed,
            )  # fmt: skip
            silos = rng.integers(0, 4, 6000)
            model.fit(frame[:5000], y[:5000], silos=silos[:5000])
            found.append(model.score(frame[5000:], y[5000:]))
        print("codes as", "levels" if as_levels else "numbers", round(float(np.mean(found)), 3))


def plans(n: int) -> None:
    """Print how many of n random plans cost more than their budgets."""
    rng, over = np.random.default_rng(0), 0
    families = ISRLDPClassifier, DPFedAvgClassifier, ISRLDPRegressor, DPScaffoldRegressor
    for _ in range(n):
        kinds = rng.choice(["number", "category", "flag", "date"], rng.integers(1, 9))
        columns = {f"c{j}": str(kind) for j, kind in enumerate(kinds)} | {"word": "category"}
        epsilon, family = float(10 ** rng.uniform(-0.3, 1)), families[rng.integers(4)]
        trust = "silo" if family is DPScaffoldRegressor else str(rng.choice(["silo", "server"]))
        more = {"local_steps": 1} if family is DPFedAvgClassifier else {}
        model = family(epsilon, trust=trust, max_categories=int(rng.integers(1, 30)), **more)
        sizes = rng.integers(3000, 30_000, rng.integers(1, 12)).tolist()
        cost = model.plan_for(silo_sizes=sizes, columns=columns).spent().epsilon
        over += cost > epsilon
    print(f"{over} of {n} random plans cost more than their budgets", flush=True)


def main() -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    codes(seeds)
    compare(seeds)
    plans(1000)


if __name__ == "__main__":
    main()
