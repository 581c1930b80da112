"""Rounds that DP-FedEXP, DP-FedAvg and DP-SCAFFOLD need, at equal epsilon, for whole silos.

``python benchmarks/silo_unit/race.py`` (an hour on two busy cores; ``--quick``: a minute) writes
``race.json``, ``race.md`` and ``race.png`` beside itself. Settings stand in SETTINGS. Each curve is
the mean of the last two models, as FedExP reports them, for all methods alike. Steps and clip norms
are chosen for each method by itself on a seed of its own, without privacy: a comparison of methods
at their best, not a recipe. FedAvg* is FedAvg with the server's step chosen so as well: what FedEXP
saves one from tuning.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import skdpfl
from skdpfl.algorithms import FedAvg, FedExp, Scaffold, whole_silo_control_rate
from skdpfl.datasets import fetch_mnist, make_federated_regression
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for

HERE = Path(__file__).parent
METHODS = ("FedEXP", "FedAvg", "SCAFFOLD", "FedAvg*")


class Data(NamedTuple):
    """Records in silos and how far a model is from where it should be."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    n_silos: int
    n_outputs: int
    score: Callable[[np.ndarray], float]


def linear_regression(
    n_silos: int, n_features: int, n_records: int = 30, common: bool = True
) -> Data:
    """FedExP's rows and targets; with ``common`` the silos' models differ by a third only.

    The published set-up draws each silo's model by itself. That has a common solution as long as
    there are fewer records than features (20 silos of 30); with a thousand silos there is none.
    """
    if common:
        raw = make_federated_regression(
            n_silos, n_records, n_features=n_features, alpha=0.1, beta=1.0, random_state=0
        )
        X = raw.data / np.linalg.norm(raw.data, axis=1, keepdims=True)
        y = raw.target / np.sqrt(np.bincount(raw.silos, raw.target**2))[raw.silos]
    else:
        raw = make_federated_regression(
            n_silos, n_records, n_features=n_features, design="fedexp", random_state=0
        )
        X, y = raw.data, raw.target
    best = np.linalg.lstsq(X, y, rcond=None)[0] if len(X) < n_features else _least_squares(X, y)
    # with fewer records than features the solutions are an affine space: measure across it only
    across = np.linalg.qr(X.T)[0] if len(X) < n_features else np.eye(n_features)

    def distance(w: np.ndarray) -> float:
        return float(np.linalg.norm((w - best) @ across) / np.linalg.norm(best))

    return Data(X.astype(np.float32), y.astype(np.float32), raw.silos, n_silos, 1, distance)


def _least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.solve(X.T @ X, X.T @ y)


def mnist(n_silos: int, alpha: float) -> Data:
    """Unit rows; classes shared out by a Dirichlet law, so that silos differ."""
    train = fetch_mnist(
        subset="train", n_silos=n_silos, split="dirichlet", alpha=alpha, random_state=0
    )
    test = fetch_mnist(subset="test", random_state=0)
    unit = lambda X: (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)  # noqa: E731
    y, X_test, y_test = train.target.astype(int), unit(test.data), test.target.astype(int)

    def error(w: np.ndarray) -> float:
        return float(np.mean((X_test @ w.reshape(784, 10)).argmax(axis=1) != y_test))

    return Data(unit(train.data), y, train.silos, n_silos, 10, error)


@dataclass(frozen=True)
class Setting:
    """One race. ``goal`` is the score to reach, in ``unit`` words; lower is better."""

    title: str
    make: Callable[[], Data]
    epsilon: float
    n_rounds: int
    local_steps: int
    goal: float
    words: str
    rates: tuple[float, ...]
    clips: tuple[Any, ...]
    trust: str = "server"
    mechanism: str = "gaussian"
    silo_fraction: float = 1.0
    delta: float = 1e-5
    methods: tuple[str, ...] = field(default=METHODS)


SETTINGS = {
    "regression": Setting(
        "linear regression, 1000 silos, d = 1000",
        lambda: linear_regression(1000, 1000),
        epsilon=8.0,
        n_rounds=40,
        local_steps=20,
        goal=0.6,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.4,),
    ),
    "mnist": Setting(
        "MNIST, 1000 silos, Dirichlet(0.3)",
        lambda: mnist(1000, 0.3),
        epsilon=8.0,
        n_rounds=60,
        local_steps=10,
        goal=0.2,
        words="test error",
        rates=(0.3, 1.0, 3.0),
        clips=(0.3, 1.0),
        silo_fraction=0.2,
    ),
    "published": Setting(
        "linear regression as published, 20 silos, d = 1000",
        lambda: linear_regression(20, 1000, common=False),
        epsilon=float("inf"),
        n_rounds=200,
        local_steps=20,
        goal=0.5,
        words="distance to the nearest solution",
        rates=(0.1,),
        clips=(1.0,),
    ),
    "local": Setting(
        "nobody trusted, 20000 silos, d = 30, Gaussian noise",
        lambda: linear_regression(20_000, 30, 3),
        epsilon=10.0,
        n_rounds=10,
        local_steps=20,
        goal=0.5,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.3, 0.6),
        trust="silo",
    ),
    "privunit": Setting(
        "nobody trusted, 20000 silos, d = 30, PrivUnit",
        lambda: linear_regression(20_000, 30, 3),
        epsilon=10.0,
        n_rounds=3,
        local_steps=20,
        goal=0.5,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.3, 0.6),
        trust="silo",
        mechanism="privunit",
        methods=("FedEXP",),
    ),
}


def plan_for(setting: Setting, method: str, data: Data, clip: Any) -> Any:
    """The calibrated plan of the public estimator."""
    kind = "Regressor" if data.n_outputs == 1 else "Classifier"
    options = {
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "trust": setting.trust,
        "n_rounds": setting.n_rounds,
        "local_steps": setting.local_steps,
        "clip_norm": clip,
        "silo_fraction": setting.silo_fraction,
        "fit_intercept": False,
        "scaling": None,
    }
    options |= {"mechanism": setting.mechanism} if method == "FedEXP" else {"unit": "silo"}
    name = {"FedEXP": "DPFedEXP", "SCAFFOLD": "DPScaffold"}.get(method, "DPFedAvg")
    estimator = getattr(skdpfl, name + kind)(**options)
    sizes = np.bincount(data.silos, minlength=data.n_silos)
    return estimator.plan_for(
        silo_sizes=sizes, n_features=data.X.shape[1], n_classes=max(2, data.n_outputs)
    )


class Steps(NamedTuple):
    """What is tuned: the silos' step, the clip norm and (FedAvg*) the server's step."""

    rate: float
    clip: float
    server: float = 1.0


def algorithm_for(setting: Setting, method: str, plan: Any, steps: Steps, size: int) -> Any:
    """The method with its steps."""
    if method == "FedEXP":
        return FedExp(steps.rate, setting.local_steps)
    if method.startswith("FedAvg"):
        return FedAvg(steps.rate, setting.local_steps, steps.server)
    control = 1.0
    if plan.private:
        noise = plan.mechanism.noise_on_mean(plan) * size**0.5 / plan.clip_norm
        control = whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, noise)
    return Scaffold(steps.rate, setting.local_steps, control_rate=control)


def curve(setting: Setting, method: str, data: Data, steps: Steps, seed: int) -> dict:
    """Scores after each round, and the server's steps."""
    plan = plan_for(setting, method, data, steps.clip)
    model = LinearModel(data.X.shape[1], data.n_outputs, False)
    loss = SquaredError() if data.n_outputs == 1 else LogLoss()
    algorithm = algorithm_for(setting, method, plan, steps, model.size)
    work = Work(model, loss, algorithm, plan, streams_for(seed), np.dtype(np.float32))
    federation = LocalFederation(SiloData.from_codes(data.X, data.y, data.silos, data.n_silos))
    scores, last = [], [model.init(np.float32)]

    def watch(r: int, params: np.ndarray) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            scores.append(data.score((params + last[0]) / 2))
        last[0] = params
        return not np.isfinite(scores[-1]) or scores[-1] > 1e3

    outcome = run(work, federation, average=False, on_round=watch)
    taken = getattr(outcome.state, "step_sizes", ())
    return {"scores": scores, "steps": list(taken), "epsilon": plan.spent().epsilon}


def rounds_to(scores: list[float], goal: float) -> float:
    """The first round after which the goal is reached; infinite if never."""
    reached = np.flatnonzero(np.asarray(scores) <= goal)
    return float(reached[0] + 1) if reached.size else float("inf")


def tuned(setting: Setting, method: str, data: Data, seed: int, known: dict) -> Steps:
    """The steps and clip norm that reach the goal first, then with the best score."""
    grid = [Steps(*pair) for pair in itertools.product(setting.rates, setting.clips)]
    if method == "FedAvg*":
        grid = [known["FedAvg"]._replace(server=x) for x in (3.0, 10.0, 30.0)]
    if len(grid) == 1:
        return grid[0]

    def key(steps: Steps) -> tuple[float, float]:
        scores = curve(setting, method, data, steps, seed)["scores"]
        return rounds_to(scores, setting.goal), min(scores)

    return min(grid, key=key)


def race(name: str, n_seeds: int, methods: tuple[str, ...]) -> dict:
    """The setting's methods that are asked for."""
    setting = SETTINGS[name]
    data, results, chosen = setting.make(), {}, {}
    for method in [m for m in setting.methods if m in methods]:
        start = time.process_time()
        chosen[method] = steps = tuned(setting, method, data, 1000, chosen)
        runs = [curve(setting, method, data, steps, seed) for seed in range(n_seeds)]
        needed = [rounds_to(r["scores"], setting.goal) for r in runs]
        results[method] = {
            "learning_rate": steps.rate,
            "clip_norm": steps.clip,
            "server_step": steps.server,
            "rounds": needed,
            "last": [r["scores"][-1] for r in runs],
            "epsilon": runs[0]["epsilon"],
            "scores": [np.round(r["scores"], 4).tolist() for r in runs],
            "steps": [np.round(r["steps"], 2).tolist() for r in runs],
            "cpu_seconds": time.process_time() - start,
        }
        print(name, method, *steps, "rounds", needed, flush=True)
    return {"goal": setting.goal, "words": setting.words, "title": setting.title} | {
        "methods": results
    }


def table(results: dict) -> str:
    """Markdown: medians over seeds."""
    lines = [
        "| race | epsilon | goal | method | rounds needed (median, all) | last score (mean) |",
        "|---|---|---|---|---|---|",
    ]
    for r in results.values():
        for method, m in r["methods"].items():
            needed = ", ".join("never" if np.isinf(x) else f"{x:.0f}" for x in m["rounds"])
            middle = np.median(m["rounds"])
            shown = "never" if np.isinf(middle) else f"{middle:.0f}"
            lines.append(
                f"| {r['title']} | {m['epsilon']:.3g} | {r['words']} <= {r['goal']} | {method} | "
                f"{shown} ({needed}) | {np.mean(m['last']):.3f} |"
            )
    return "\n".join(lines) + "\n"


def plot(results: dict, path: Path) -> None:
    """Curves over rounds: a panel a race, a line a method, a band over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    looks = {"FedEXP": ("#0072B2", "-"), "FedAvg": ("#D55E00", "--"), "SCAFFOLD": ("#009E73", "-.")}
    looks["FedAvg*"] = ("#CC79A7", ":")
    n = min(3, len(results))
    rows = -(-len(results) // n)
    fig, axes = plt.subplots(
        rows, n, figsize=(4.0 * n, 3.3 * rows), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(results) :]:
        ax.set_axis_off()
    for ax, r in zip(axes.flat, results.values(), strict=False):
        for method, m in r["methods"].items():
            colour, dash = looks[method]
            scores = np.array(m["scores"])
            x = np.arange(1, scores.shape[1] + 1)
            ax.plot(x, np.median(scores, axis=0), dash, color=colour, label=method)
            ax.fill_between(x, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.2)
        ax.axhline(r["goal"], color="grey", lw=0.8, ls=":")
        epsilon = next(iter(r["methods"].values()))["epsilon"]
        ax.set(title=r["title"].replace(", ", ",\n", 1) + f", ε = {epsilon:.2g}", xlabel="round")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(ylabel=r["words"], ylim=(0, 1.1))
        ax.title.set_fontsize(9)
        ax.legend(fontsize=8)
    fig.savefig(path, dpi=120)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="the small races, one seed")
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    names, seeds = (["local", "privunit"], 1) if args.quick else (args.names, args.seeds)
    path = args.out / "race.json"
    known = json.loads(path.read_text()) if path.exists() and not args.quick else {}
    for name in names:
        done = race(name, seeds, tuple(args.methods))
        before = known.get(name, {}).get("methods", {})
        known[name] = done | {"methods": before | done["methods"]}
    results = {name: known[name] for name in SETTINGS if name in known}
    print(table(results))
    if not args.quick:
        path.write_text(json.dumps(results, indent=1) + "\n")
        (args.out / "race.md").write_text(table(results))
        plot(results, args.out / "race.png")


if __name__ == "__main__":
    main()
