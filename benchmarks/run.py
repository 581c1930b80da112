"""One runner for every number of the pages: ``python benchmarks/run.py`` lists, names run.

    python benchmarks/run.py                  what there is, how long it takes, which page shows it
    python benchmarks/run.py isrl shuffler    these two, one after the other
    python benchmarks/run.py --quick speed    the small version, where there is one

Minutes are those of two cores. Data are looked for in ``$SKDPFL_DATA``, see skdpfl.datasets.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Benchmark(NamedTuple):
    """A script, its minutes if known, the page that shows it, kept results, its small version."""

    script: str
    minutes: float | None
    page: str
    results: str = ""
    quick: bool = False


BENCHMARKS = {
    "auto": Benchmark("auto/study.py", 5, "docs/auto.md", "auto/results.md", True),
    "warned": Benchmark("auto/warned.py", 5, "docs/auto.md", "auto/warned.md", True),
    "small_silos": Benchmark("auto/small_silos.py", None, "docs/auto.md", "auto/small_silos.md"),
    "targets": Benchmark("auto/targets.py", None, "docs/auto.md", "auto/targets.md"),
    "wide": Benchmark("auto/wide.py", None, "docs/auto.md", "auto/wide.md"),
    "whole": Benchmark("auto/whole.py", 1, "docs/auto.md", "auto/whole.md", True),
    "budgets": Benchmark("auto/budgets.py", 15, "docs/auto.md", quick=True),
    "unseen": Benchmark("auto/unseen.py", 1, "docs/auto.md", "auto/unseen.md", True),
    "rare": Benchmark("auto/rare.py", 0.5, "docs/rare_labels.md", "auto/rare.md", True),
    "curves": Benchmark("auto/curves.py", None, "docs/curves.md", "auto/curves.md"),
    "additive": Benchmark("auto/additive.py", 4, "docs/curves.md", "auto/additive.md"),
    "scales": Benchmark("auto/scaling.py", None, "", "auto/scaling.md"),
    "means": Benchmark("auto/means.py", 1, "docs/auto.md", "auto/means.md"),
    "isrl": Benchmark("isrl/table.py", 2, "docs/isrl.md", "isrl/results.md"),
    "shuffler": Benchmark("isrl/shuffler.py", 1, "docs/isrl.md"),
    "shares": Benchmark("shared_noise.py", 0.5, "docs/which.md", "", True),
    "networks": Benchmark("networks/study.py", 20, "docs/networks.md", "networks/results.md", True),
    "step": Benchmark("networks/step.py", 0.2, "docs/networks.md", "networks/step.md", True),
    "search": Benchmark("search.py", 2, "docs/tuning.md", "search.md"),
    "race": Benchmark("silo_unit/race.py", 30, "docs/whole_silos.md", "silo_unit/race.md", True),
    "silos": Benchmark(
        "silo_unit/many_silos.py", None, "docs/whole_silos.md", "silo_unit/many_silos.md"
    ),
    "privunit": Benchmark("silo_unit/privunit.py", 0.1, "docs/whole_silos.md"),
    "speed": Benchmark("speed.py", None, "docs/speed.md", "speed.md", True),
    "noise": Benchmark("noise.py", None, "docs/speed.md", "", True),
    "prices": Benchmark("calibration.py", None, "docs/speed.md"),
    "plans": Benchmark("prices.py", 15, "docs/privacy.md", "random_plans.csv"),
    "audit": Benchmark("audit/run.py", 8, "docs/audit.md", "audit/results.csv", True),
    "mutants": Benchmark("mutants.py", None, ""),
    "papers": Benchmark("papers/run.py", None, "docs/papers/index.md", "", True),
    "ledger": Benchmark("ledger.py", 1, "docs/tuning.md", "", True),
    "same": Benchmark("same_models.py", 2, ""),
    "replay": Benchmark("replay.py", 0.5, ""),
    "fuzz": Benchmark("fuzz.py", 60, ""),
    "demo": Benchmark("../examples/demo.py", 1, "docs/index.md", "../docs/_static/demo.png", True),
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
    extra = ["--quick"] if quick and row.quick else []
    return subprocess.run([sys.executable, str(HERE / row.script), *extra], check=False).returncode


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
