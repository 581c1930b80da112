"""One runner for every number of the pages: ``python benchmarks/run.py`` lists, names run.

    python benchmarks/run.py                  what there is, how long it takes, which page shows it
    python benchmarks/run.py search shuffler  these two, one after the other
    python benchmarks/run.py --quick speed    the small version, in a copy: kept results stay

Minutes are those of two cores. Data are looked for in ``$SKDPFL_DATA``, see skdpfl.datasets.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MEASURED = "docs/measurements.md"


class Benchmark(NamedTuple):
    """A script's command, its minutes if known, the page that shows it, and kept results.

    ``quick`` are the arguments of its small version, a minute at most; None: there is none.
    """

    script: str
    minutes: float | None
    page: str
    results: str = ""
    quick: str | None = "--quick"


BENCHMARKS = {
    **{
        name: Benchmark(f"auto/run.py {name}", minutes, page, "auto/results.md", quick)
        for name, minutes, page, quick in (
            ("budgets", 15, "docs/raw_frames.md", "--seeds 1 --cases A"),
            ("unseen", 1, "docs/auto.md", "--cases 00 01"),
            ("rare", 0.5, MEASURED, "--seeds 2"),
            ("additive", 4, "docs/models.md", "--cases wine"),
            ("alone", 0.5, MEASURED, "--seeds 1"),
            ("judge", 2, "docs/models.md", "--cases 0"),
        )
    },
    "shuffler": Benchmark("shuffler.py", 1, MEASURED, quick=""),
    "shares": Benchmark("shared_noise.py", 0.5, MEASURED),
    "networks": Benchmark("networks/study.py", 20, "docs/models.md", "networks/results.md"),
    "step": Benchmark("networks/step.py", 0.2, "docs/models.md", "networks/step.md"),
    "search": Benchmark(
        "search.py", 2, MEASURED, "search.md", "--seeds 1 --data digits --epsilons 1"
    ),
    "privunit": Benchmark("privunit.py", 0.1, "docs/whole_silos.md", quick=""),
    "speed": Benchmark("speed.py", None, MEASURED, "speed.md"),
    "prices": Benchmark("calibration.py", None, MEASURED, quick="--repeats 1"),
    "plans": Benchmark("prices.py", 15, "docs/privacy.md", quick="--chunks 0:1"),
    "audit": Benchmark("audit/run.py", 8, "docs/security.md", "audit/results.csv"),
    "mutants": Benchmark("mutants.py", None, "", quick=None),
    "papers": Benchmark("papers/run.py", None, "docs/papers/index.md"),
    "coverage": Benchmark("papers/coverage.py", 1, "docs/papers/index.md", quick=""),
    "ledger": Benchmark("ledger.py", 1, "docs/tuning.md"),
    "same": Benchmark("same_models.py", 2, "", quick="--only 'ISRLDP radius float64'"),
    "replay": Benchmark("replay.py", 0.5, "", quick="--only 'ISRLDP two s'"),
    "fuzz": Benchmark("fuzz.py", 60, "", quick="--calls 20"),
    "panels": Benchmark("panels.py", 2, "docs/raw_frames.md", quick="--splits 1"),
    "intervals": Benchmark("intervals.py", None, MEASURED, quick="'labels d5' --studies 2"),
    "survival": Benchmark("survival.py", None, MEASURED, quick="--seeds 1"),
    "demo": Benchmark("../examples/demo.py", 1, "docs/index.md", "../docs/_static/demo.png"),
}


def listing() -> str:
    """Return what there is, a line each."""
    lines = [f"{'name':10s} {'minutes':>7s}  {'page':22s} script and kept results"]
    for name, row in BENCHMARKS.items():
        kept = f" -> {row.results}" if row.results else ""
        minutes = "" if row.minutes is None else f"{row.minutes:g}"
        lines.append(f"{name:10s} {minutes:>7s}  {row.page:22s} {row.script}{kept}")
    return "\n".join(lines)


def run(name: str, quick: bool) -> int:
    """Run one of them in a process of its own and return how it ended."""
    row = BENCHMARKS[name]
    script, *words = shlex.split(row.script)
    if not quick:
        command = [sys.executable, str(HERE / script), *words]
        return subprocess.run(command, check=False).returncode
    if row.quick is None:
        print(f"{name} has no small version.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / HERE.name
        shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(HERE.parent / "examples", copy.parent / "examples")
        command = [sys.executable, str(copy / script), *words, *shlex.split(row.quick)]
        found = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        return subprocess.run(command, check=False, env=found).returncode


def main() -> None:
    """List, or run what is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], metavar="name")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not options.names:
        print(listing())
    sys.exit(max((run(name, options.quick) for name in options.names), default=0))


if __name__ == "__main__":
    main()
