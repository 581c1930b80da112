"""When a network pays: ``python benchmarks/networks/study.py``.

Every fit is untuned: DP-FedAvg with one local step gets epsilon, ``delta=1e-5``, bounds (those of
the images' bytes, or the observed ranges rounded outward to one digit) and a seed, under "replace".
Scores are accuracy or R2 on records that no fit sees. Two parts:

auto    ``model="linear"`` and ``model=MLP((100,))`` at epsilon 1, 3 and 8, both trusts; where
        PyTorch is, also a small CNN on images, with a trusted server
steps   what the rules of :mod:`skdpfl.models._rules` chose, changed one at a time: the
        learning rate and the clip norm (per clip norm the step stays) by 1/3 and 3, half and twice
        the rounds, the average of the last half of the models; mean differences to "auto" over the
        small problems and both trusts at epsilon 1, 3 and 8

``--quick`` takes the digits at epsilon 3 only. Writes results.csv and results.md beside this file,
row by row; what is in results.csv is not run again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import functools
import importlib.util
import itertools
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import skdpfl
from benchmarks.problems import NETWORKS as PROBLEMS
from benchmarks.problems import SMALL, Problem
from benchmarks.tables import header, markdown
from skdpfl.models import MLP

HERE = Path(__file__).parent
EPSILONS, TRUSTS = [1.0, 3.0, 8.0], ("silo", "server")
#: name -> factors of what auto chose, or other parameters
CHANGES: dict[str, dict[str, Any]] = {
    "steps of 1/3": {"step": 1 / 3},
    "steps of 3": {"step": 3.0},
    "clip norm of 1/3": {"clip": 1 / 3},
    "clip norm of 3": {"clip": 3.0},
    "half the rounds": {"rounds": 0.5},
    "twice the rounds": {"rounds": 2.0},
    "average of the last half": {"average": 0.5},
}
#: trust and model of each column
COLUMNS = [
    ("silo", "linear"), ("silo", "MLP(100)"),
    ("server", "linear"), ("server", "MLP(100)"), ("server", "CNN"),
]  # fmt: skip
HAS_TORCH = importlib.util.find_spec("torch") is not None
KEYS = ["part", "problem", "epsilon", "trust", "method"]


@functools.lru_cache(maxsize=1)
def problem(name: str) -> Problem:
    """Return a problem, made once in turn."""
    return PROBLEMS[name]()


def fit(name: str, epsilon: float, trust: str, model: Any, seed: int, **kw: Any) -> Any:
    """Fit one estimator, without warnings of what a budget cannot do."""
    data = problem(name)
    kind = "Regressor" if data.y.dtype.kind == "f" else "Classifier"
    made = getattr(skdpfl, f"DPFedAvg{kind}")(
        epsilon, delta=1e-5, trust=trust, local_steps=1, model=model, random_state=seed, **kw
    )
    known = made.get_params()
    made.set_params(**{k: v for k, v in data.bounds.items() if k in known})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(data.X, data.y, silos=data.silos)


def score(name: str, fitted: Any) -> float:
    """Return the score on the test records."""
    return float(fitted.score(problem(name).X_test, problem(name).y_test))


def convolutions() -> Any:
    """The small network for 28 x 28 images that the papers use, with tanh: 26,010 parameters."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def models(name: str, trust: str) -> Iterator[tuple[str, Any]]:
    """Yield the models that a problem is fitted with."""
    yield "linear", "linear"
    yield "MLP(100)", MLP((100,))
    if name == "digits":
        yield "MLP(50)", MLP((50,))
    if HAS_TORCH and trust == "server" and name in ("MNIST", "Fashion-MNIST"):
        from skdpfl.torch import TorchModel

        yield "CNN", TorchModel(convolutions)


def auto(names: list[str], seeds: int, done: set[tuple]) -> Iterator[dict[str, Any]]:
    """Yield a row for each problem, budget, trust and model."""
    for name, epsilon, trust in itertools.product(names, EPSILONS, TRUSTS):
        for label, model in models(name, trust):
            cell = ("auto", name, epsilon, trust, label)
            if cell in done:
                continue
            start = time.process_time()
            scores = [score(name, fit(name, epsilon, trust, model, s)) for s in range(seeds)]
            seconds = (time.process_time() - start) / seeds
            figures = {"score": np.mean(scores), "seeds": seeds, "seconds": seconds}
            yield dict(zip(KEYS, cell, strict=True)) | figures


def steps(names: list[str], seeds: int, done: set[tuple]) -> Iterator[dict[str, Any]]:
    """Yield the scores of what auto chose and of changes to it."""
    for name, epsilon, trust in itertools.product(names, EPSILONS, TRUSTS):
        if ("steps", name, epsilon, trust, "auto") in done:
            continue
        chosen = [fit(name, epsilon, trust, MLP((100,)), seed) for seed in range(seeds)]
        row = {"part": "steps", "problem": name, "epsilon": epsilon, "trust": trust}
        row |= {"seeds": seeds, "seconds": np.nan}
        means = np.mean([score(name, one) for one in chosen])
        yield row | {"method": "auto", "score": means}
        for label, change in CHANGES.items():
            scores = [changed(name, one, change) for one in chosen]
            yield row | {"method": label, "score": np.mean(scores)}


def changed(name: str, one: Any, change: dict[str, Any]) -> float:
    """Return the score of a fit with one of the numbers changed; a fit moves as far as before."""
    clip, rounds = change.get("clip", 1.0), change.get("rounds", 1.0)
    given = {
        "clip_norm": one.clip_norm_ * clip,
        "learning_rate": one.learning_rate_ * change.get("step", 1.0) / (clip * rounds),
        "n_rounds": round(one.n_rounds_ * rounds),
        "sampling_rate": one.sampling_rate_,
        "average": change.get("average", one.average),
    }
    args = name, one.epsilon, one.trust, MLP((100,)), one.random_state
    return score(name, fit(*args, **given))


def report(frame: pd.DataFrame) -> str:
    """Return both parts as tables."""
    parts = []
    which = frame[frame.part == "auto"].pivot_table(
        index=["problem", "epsilon"], columns=["trust", "method"], values="score", sort=False
    )
    if len(which):
        columns = [c for c in COLUMNS if c in which.columns]
        lines = [
            [name, f"{epsilon:g}", *("" if np.isnan(row[c]) else f"{row[c]:.3f}" for c in columns)]
            for (name, epsilon), row in which.iterrows()
        ]
        heads = [f"{method}, {trust}" for trust, method in columns]
        parts.append(markdown(["problem", "epsilon", *heads], lines))
    tried = frame[frame.part == "steps"].pivot_table(
        index=["problem", "epsilon", "trust"], columns="method", values="score", sort=False
    )
    if len(tried):
        less = tried.sub(tried["auto"], axis=0).groupby("problem", sort=False).mean()
        lines = [[label, *(f"{m:+.3f}" for m in less[label])] for label in less if label != "auto"]
        parts.append(f"<!-- steps -->\n\n{markdown(['change', *less.index], lines)}")
    return "\n\n".join(parts) + "\n"


def place(column: pd.Series) -> pd.Series:
    """Return where rows stand: problems in the order of PROBLEMS."""
    return column.map(list(PROBLEMS).index) if column.name == "problem" else column


def main() -> None:
    """Run what is asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the digits at epsilon 3, no files")
    parser.add_argument("--parts", nargs="*", default=["auto", "steps"])
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    names = ["digits"] if args.quick else args.problems
    EPSILONS[:] = [3.0] if args.quick else args.epsilons
    seeds, file = (1, None) if args.quick else (args.seeds, HERE / "results.csv")
    tables = [name for name in names if name in SMALL]
    frame = pd.read_csv(file) if file is not None and file.exists() else pd.DataFrame()
    done = set(frame[KEYS].itertuples(index=False, name=None)) if len(frame) else set()
    made = {"auto": lambda: auto(names, seeds, done), "steps": lambda: steps(tables, seeds, done)}
    for row in (row for part in args.parts for row in made[part]()):
        print(*(f"{v:.3f}" if isinstance(v, float) else v for v in row.values()), flush=True)
        row["version"] = header()
        frame = pd.concat([frame, pd.DataFrame([row])]).drop_duplicates(KEYS, keep="last")
        frame = frame.sort_values(KEYS[:3], key=place, kind="stable")
        if file is not None:  # row by row: large problems take long
            frame.round(4).to_csv(file, index=False)
            (HERE / "results.md").write_text(report(frame))
    sys.stdout.write(report(frame))


if __name__ == "__main__":
    main()
