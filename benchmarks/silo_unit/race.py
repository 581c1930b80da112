"""Rounds that DP-FedEXP, DP-FedAvg and DP-SCAFFOLD need, at equal epsilon, for whole silos.

``python benchmarks/silo_unit/race.py`` (half an hour of one core; ``--quick``: a minute) writes
``race.json``, ``race.md``, ``race.png`` and ``race_mnist.png`` beside itself; MNIST is looked for
in ``$SKDPFL_DATA``. Settings stand in ``races.py``. Each curve is the mean of the last two models,
as FedExP reports them, for all methods alike. Steps and clip norms are chosen for each method by
itself, among the same, on a seed of its own, without privacy: a comparison of methods at their
best, not a recipe. FedAvg* is FedAvg with the server's step chosen so as well: what FedEXP saves
one from tuning.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from race_report import save, table
from races import METHODS, SETTINGS, Data, Setting

import skdpfl
from skdpfl.algorithms import FedAvg, FedExp, Scaffold, whole_silo_control_rate
from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.randomness.streams import streams_for

HERE = Path(__file__).parent


class Steps(NamedTuple):
    """What is tuned: the silos' step, the clip norm and (FedAvg*) the server's step."""

    rate: float
    clip: float
    server: float = 1.0


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
    if method in ("FedEXP", "PrivUnit"):
        options |= {"mechanism": "privunit" if method == "PrivUnit" else "gaussian"}
    else:
        options |= {"unit": "silo"}
    name = {"FedEXP": "DPFedEXP", "PrivUnit": "DPFedEXP", "SCAFFOLD": "DPScaffold"}
    estimator = getattr(skdpfl, name.get(method, "DPFedAvg") + kind)(**options)
    sizes = np.bincount(data.silos, minlength=data.n_silos)
    return estimator.plan_for(
        silo_sizes=sizes, n_features=data.X.shape[1], n_classes=max(2, data.n_outputs)
    )


def algorithm_for(setting: Setting, method: str, plan: Any, steps: Steps, size: int) -> Any:
    """The method with its steps."""
    if method in ("FedEXP", "PrivUnit"):
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
    work = Work(model, loss, algorithm, plan, np.dtype(np.float32))
    records = SiloData.from_codes(data.X, data.y, data.silos, data.n_silos)
    streams = streams_for(seed)
    scores, last = [], [model.init(dtype=np.float32)]

    def watch(r: int, params: np.ndarray) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            scores.append(data.score((params + last[0]) / 2))
        last[0] = params
        return not np.isfinite(scores[-1]) or scores[-1] > 1e3

    outcome = run(work, LocalFederation(records, streams), streams, average=False, on_round=watch)
    taken = getattr(outcome.state, "step_sizes", ())
    return {"scores": scores, "steps": list(taken), "epsilon": plan.spent().epsilon}


def rounds_to(scores: list[float], goal: float) -> float:
    """The first round after which the goal is reached; infinite if never."""
    reached = np.flatnonzero(np.asarray(scores) <= goal)
    return float(reached[0] + 1) if reached.size else float("inf")


def tuned(setting: Setting, method: str, data: Data, seed: int) -> Steps:
    """The steps and clip norm that reach the goal first, then with the best score."""
    servers = setting.servers if method == "FedAvg*" else (1.0,)
    grid = list(itertools.starmap(Steps, itertools.product(setting.rates, setting.clips, servers)))
    if len(grid) == 1:
        return grid[0]

    def key(steps: Steps) -> tuple[float, float]:
        scores = curve(setting, method, data, steps, seed)["scores"]
        return rounds_to(scores, setting.goal), min(scores)

    return min(grid, key=key)


def race(name: str, n_seeds: int, methods: tuple[str, ...]) -> dict:
    """The setting's methods that are asked for."""
    setting = SETTINGS[name]
    data, results = setting.make(), {}
    for method in [m for m in setting.methods if m in methods]:
        start = time.process_time()
        steps = tuned(setting, method, data, 1000)
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
            "cpu_seconds": round(time.process_time() - start, 1),
        }
        last = np.mean(results[method]["last"])
        print(name, method, *steps, "rounds", needed, f"last {last:.3f}", flush=True)
    head = {"goal": setting.goal, "words": setting.words, "title": setting.title}
    return head | {"methods": results}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=[*METHODS, "PrivUnit"])
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
        if not args.quick:
            save({name: known[name] for name in SETTINGS if name in known}, args.out)
    print(table({name: known[name] for name in SETTINGS if name in known}))


if __name__ == "__main__":
    main()
