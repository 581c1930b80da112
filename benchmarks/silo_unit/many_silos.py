"""100,000 small silos, 1 % of them a round: ``python benchmarks/silo_unit/many_silos.py``.

A whole public fit of 100 rounds each: seconds on the clock and of the processor, and the peak of
resident memory, records included. Every fit runs in a process of its own. Writes
``many_silos.md`` beside itself.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

#: name -> (estimator, its own options)
FITS = {
    "DP-FedAvg": ("DPFedAvgClassifier", {"unit": "silo"}),
    "DP-SCAFFOLD": ("DPScaffoldClassifier", {"unit": "silo"}),
    "DP-FedEXP": ("DPFedEXPClassifier", {}),
}
SCALING = {"bounds": {"feature_bounds": (-5.0, 5.0)}, "private": {"scaling": "auto"}}


def one(name: str, scaling: str, n_silos: int) -> None:
    """Time one fit in this process."""
    import numpy as np

    import skdpfl

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_silos * 20, 20))
    y = (X @ rng.standard_normal(20) + rng.logistic(size=len(X)) > 0).astype(int)
    silos = np.repeat(np.arange(n_silos), 20)
    kind, own = FITS[name]
    model = getattr(skdpfl, kind)(
        1.0, trust="server", n_rounds=100, local_steps=5, silo_fraction=0.01, **own,
        **SCALING[scaling],
    )  # fmt: skip
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y, silos=silos)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    score = model.score(X[:50_000], y[:50_000])
    print(f"| {name} | {scaling} | {wall:.2f} | {cpu:.2f} | {peak:.2f} | {score:.3f} |")


def main() -> None:
    """Run all, each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--silos", type=int, default=100_000)
    parser.add_argument("--one", nargs=2)
    args = parser.parse_args()
    if args.one:
        return one(*args.one, args.silos)
    from where import header

    lines = [
        header(),
        "",
        f"{args.silos:,} silos of 20 records and 20 features, 1 % a round, 100 rounds of 5 local "
        "steps, epsilon 1, trusted server, float64:",
        "",
        "| fit | scaling | seconds | processor seconds | peak GiB | accuracy |",
        "|---|---|---|---|---|---|",
    ]
    for name in FITS:
        for scaling in SCALING:
            command = [sys.executable, __file__, "--one", name, scaling]
            command += ["--silos", str(args.silos)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            lines.append(done.stdout.strip().splitlines()[-1])
            print(lines[-1], flush=True)
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
