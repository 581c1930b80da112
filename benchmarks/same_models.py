"""Whether a change leaves every model as it was, bit for bit.

::

    python benchmarks/same_models.py --write table.json      # before the change
    python benchmarks/same_models.py --against table.json    # after it

Fits estimators x settings on small made data and keeps a digest of the coefficients, the numbers
themselves and the price. ``--against`` lists every fit that differs, with the largest relative
difference. Bits depend on the processor and on NumPy: compare on one machine.
Two minutes; ``--only "ISRLDP radius float64"`` are three fits of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import skdpfl

FAMILIES = ("ISRLDP", "DPScaffold", "DPFedAvg", "DPFedEXP", "DPFederated")
BY_HAND = {"n_rounds": 5, "learning_rate": 0.3, "clip_norm": 0.7, "scaling": None}
WHOLE = {"unit": "silo", "epsilon": 8.0}
#: settings that every family knows
COMMON: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"epsilon": np.inf},
    "bounds": {"feature_bounds": (-4, 4)},
    "no scaling": {"scaling": None},
    "private scaling": {"scaling": "private", "epsilon": 8.0},
    "given": BY_HAND | {"sampling_rate": 0.3, "average": False},
    "noise": {"epsilon": None, "noise_multiplier": 2.0, "n_rounds": 6},
    "no intercept": {"fit_intercept": False, "alpha": 0.1},
    "penalty": {"alpha": 0.5, "epsilon": 3.0},
    "fractions": {"silo_fraction": 0.5, "n_rounds": 8},
    "uniform": {"silo_weights": "uniform"},
    "server": {"trust": "server"},
    "add remove": {"neighbours": "add_remove"},
    "losses": {"loss": ("squared_hinge", "huber")},
    "kinks": {"loss": ("hinge", "quantile")},
}
#: settings of some families; ones that a family refuses are left out
OWN: dict[str, dict[str, Any]] = {
    "budgets": {"epsilon": {0: 0.5, 1: 1.0, 2: 2.0, 3: 4.0}},
    "without replacement": {"sampling": "without_replacement", "sampling_rate": 0.25},
    "disjoint": {"sampling": "disjoint", "n_rounds": 6},
    "disjoint fractions": {"sampling": "disjoint", "n_rounds": 6, "silo_fraction": 0.5},
    "silo": WHOLE,
    "silo server": WHOLE | {"trust": "server"},
    "silo server fractions": WHOLE | {"trust": "server", "silo_fraction": 0.5, "n_rounds": 6},
    "steps": {"local_steps": 4, "n_rounds": 6},
    "steps exact": {"local_steps": 4, "n_rounds": 6, "epsilon": np.inf},
    "epochs": {"local_epochs": 2, "sampling_rate": 0.5, "n_rounds": 3},
    "momentum": {"momentum": 0.5, "n_rounds": 6},
    "warm": {"warm_start_rounds": 3, "n_rounds": 6},
    "server step": {"global_learning_rate": 0.5, "n_rounds": 6},
    "schedule round": {"noise_schedule": ("round", 0.9, 2), "n_rounds": 6, "local_steps": 3},
    "schedule step": {"noise_schedule": ("step", 0.9, 2), "n_rounds": 6, "local_steps": 3},
    "shuffler": {"trust": "shuffler", "n_rounds": 4},
    "accelerated": {"solver": "accelerated"},
    "multistage": {"solver": "multistage", "alpha": 0.1},
    "local": {"solver": "local"},
    "one pass": {"solver": "accelerated", "sampling": "disjoint"},
    "radius": {"radius": 2.0},
    "privunit": {"mechanism": "privunit", "epsilon": 8.0},
}


def problem(kind: str, dtype: str, big: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, targets and silos of unlike sizes, in mixed order."""
    rng = np.random.default_rng(7)
    n, d = (24_000, 40) if big else (420, 5)
    X = rng.normal(size=(n, d))
    raw = X @ rng.normal(size=d) + rng.normal(size=n)
    y: np.ndarray = raw
    if kind != "regression":
        y = np.digitize(raw, np.quantile(raw, [0.5] if kind == "two" else [0.3, 0.7]))
    silos = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    return X.astype(dtype), y, silos


def cases() -> Iterator[tuple[str, Any, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Yield the name, the estimator and the data of every fit."""
    for family in FAMILIES:
        for kind in ("two", "three", "regression"):
            word = "Regressor" if kind == "regression" else "Classifier"
            make = getattr(skdpfl, f"{family}{word}")
            for name, settings in (COMMON | OWN).items():
                settings = dict(settings)
                if isinstance(settings.get("loss"), tuple):
                    settings["loss"] = settings["loss"][kind == "regression"]
                if not set(settings) <= set(make().get_params()):
                    continue
                if name == "privunit" and family != "DPFedEXP":  # others take objects
                    continue
                for dtype in ("float64", "float32"):
                    clf = make(random_state=3, **settings)
                    yield f"{family} {kind} {name} {dtype}", clf, problem(kind, dtype, False)
            for dtype in ("float64", "float32"):
                big = make(random_state=3, n_rounds=4, feature_bounds=(-5, 5))
                yield f"{family} {kind} large {dtype}", big, problem(kind, dtype, True)


def fitted(clf: Any, data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Return what a fit gave, or how it was refused."""
    X, y, silos = data
    try:
        clf.fit(X, y, silos=silos)
    except ValueError as error:
        return {"refused": str(error)[:60]}
    values = np.append(np.ravel(clf.coef_), clf.intercept_).astype(float)
    digest = hashlib.sha256(values.tobytes() + repr(clf.privacy_spent_).encode()).hexdigest()
    shown = values if len(values) < 20 else values[:: len(values) // 10]
    return {"digest": digest[:16], "values": shown.tolist(), "spent": clf.privacy_spent_.epsilon}


def compare(now: dict[str, Any], before: dict[str, Any]) -> int:
    """Print what differs; return how many fits do."""
    different = 0
    for name in sorted(set(now) | set(before)):
        new, old = now.get(name), before.get(name)
        if new == old or (new and old and new.get("digest", 0) == old.get("digest", 1)):
            continue
        different += 1
        if not (new and old and "values" in new and "values" in old):
            print(f"{name}: {old} -> {new}")
            continue
        a, b = np.array(old["values"]), np.array(new["values"])
        gap = float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-12)) if a.shape == b.shape else 9
        print(f"{name}: off by {gap:.1e}; epsilon {old['spent']:.6g} -> {new['spent']:.6g}")
    print(f"{len(now)} fits, {different} differ")
    return different


def main() -> None:
    """Write the table, or compare with one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="fits whose name holds these words")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    words = args.only.split()
    table = {
        name: fitted(clf, data)
        for name, clf, data in cases()
        if all(word in name.split() for word in words)
    }
    if not table:
        parser.error(f"no fit has these words in its name: {args.only!r}")
    if args.write:
        args.write.write_text(json.dumps(table, indent=0))
        print(f"{len(table)} fits, {sum('refused' in v for v in table.values())} refused")
    if args.against:
        before = json.loads(args.against.read_text())
        sys.exit(bool(compare(table, {k: v for k, v in before.items() if not words or k in table})))


if __name__ == "__main__":
    main()
