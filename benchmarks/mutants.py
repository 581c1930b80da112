"""Mutation testing: ``python benchmarks/mutants.py --sample 300 [--seed 0] [--only engine]``.

Changes one operator, constant, factor, condition or call at a time in ``skdpfl/privacy``,
``federation``, ``models`` and ``engine.py``, and runs those fast tests of the part that belongs to
it which run the changed line (``--slow``: the slow ones as well). A mutant is killed if one fails.
Which lines a test runs is recorded first and kept in ``--reach``, until a file of the part or of
its tests changes.

Mutants that change nothing are listed with reasons in ``benchmarks/mutants_equivalent.txt`` and
left out; of the others, 95 % have to die. The sample has a share of each folder by its number of
mutants, at least ``--least``. ``--named FILE`` takes those whose names are in a file (the output of
an earlier run; with a larger ``--limit``, survivors meet the tests that were left).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# what tests import, apart from the library: forked processes have it already
import dp_accounting.pld  # noqa: F401
import pandas  # noqa: F401
import scipy.special
import scipy.stats  # noqa: F401
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline  # noqa: F401
from scipy.stats import beta

from benchmarks.mutant_parts.judge import Verdict, checked, forked, pytest_in, verdicts
from benchmarks.mutant_parts.reach import COLLECTED, MARK, Reach, Recorder, digest_of
from benchmarks.mutant_parts.sites import ROOT, Mutant, mutants_of_file

#: part -> (what is changed, the fast tests that have to notice)
PARTS = {
    "engine": (["skdpfl/engine.py"], ["tests/engine", "tests/internals/engine"]),
    "federation": (["skdpfl/federation"], ["tests/federation", "tests/internals/federation",
                                           "tests/engine", "tests/internals/engine"]),
    "models": (["skdpfl/models"], ["tests/test_models.py", "tests/test_networks.py",
                                   "tests/internals/test_models.py",
                                   "tests/internals/test_networks.py",
                                   "tests/internals/test_model_rules.py",
                                   "tests/test_fitted_models.py",
                                   "tests/engine/test_model_from_outside.py"]),
    "privacy": (["skdpfl/privacy"], ["tests/privacy", "tests/internals/privacy"]),
    "searches": (["skdpfl/model_selection/_wrapped.py"], ["tests/model_selection",
                                                          "tests/internals/model_selection"]),
}  # fmt: skip
EQUIVALENT = ROOT / "benchmarks" / "mutants_equivalent.txt"


def python_files(places: Iterable[str], pattern: str = "*.py") -> list[Path]:
    """Return the files of folders and files."""
    found: list[Path] = []
    for place in places:
        where = ROOT / place
        found += sorted(where.rglob(pattern)) if where.is_dir() else [where]
    return found


def reach_of(part: str, folder: Path) -> Reach:
    """Return what the tests of a part reach, recorded anew where something has changed."""
    changed, tests = PARTS[part]
    files = python_files(changed)
    names, of_files = [str(f.relative_to(ROOT)) for f in files], digest_of(files)
    recorded, missing = {}, []
    for test in python_files(tests, "test_*.py"):
        kind = "fast" if MARK else "all"
        out = folder / f"{kind}-{of_files[:12]}-{digest_of([test])[:12]}.json"
        if not out.exists():
            missing.append((str(test.relative_to(ROOT)), out))
        recorded[str(test.relative_to(ROOT))] = out
    folder.mkdir(parents=True, exist_ok=True)
    for name, out in missing:

        def record(test: str = name, out: Path = out) -> None:
            pytest_in([test], Recorder(names, out))

        print(f"recording what {name} reaches", flush=True)
        forked(record)
    found: dict[str, Any] = {}
    for out in recorded.values():
        for name, test in json.loads(out.read_text()).items():
            if name == COLLECTED and name in found:
                for file, lines in test["lines"].items():
                    found[name]["lines"].setdefault(file, []).extend(lines)
            else:
                found[name] = test
    return Reach(found)


def known_equivalents() -> set[str]:
    """Return the keys of mutants that change nothing."""
    lines = EQUIVALENT.read_text().splitlines()
    return {x.rsplit(" | ", 1)[0] for x in lines if " | " in x and x[0] != "#"}


def keys_in(output: Path) -> set[str]:
    """Return the keys of the mutants in an earlier output."""
    found = re.findall(r"(skdpfl/\S+\.py):\d+( .*?)   ", output.read_text())
    return {file + rest for file, rest in found}


def chosen(every: dict[str, list[Mutant]], sample: int, least: int, seed: int) -> list[Mutant]:
    """Draw the sample, folder by folder."""
    total, rng, drawn = sum(map(len, every.values())), random.Random(seed), []
    for mutants in every.values():
        folders: dict[Path, list[Mutant]] = defaultdict(list)
        for mutant in mutants:
            folders[Path(mutant.file).parent].append(mutant)
        for inside in folders.values():
            wanted = max(least, round(sample * len(inside) / max(total, 1)))
            drawn += rng.sample(inside, min(wanted, len(inside)))
    return drawn


def summary(part: str, counts: Counter[str]) -> str:
    """Say how many died, with a 95 % interval (Clopper-Pearson)."""
    died = counts["killed"] + counts["timeout"]
    n = sum(counts.values()) - counts["same code"]
    low = beta.ppf(0.025, died, n - died + 1) if died else 0.0
    high = beta.ppf(0.975, died + 1, n - died) if died < n else 1.0
    share = f"{died} of {n} died: {died / max(n, 1):.1%} ({low:.1%} to {high:.1%})"
    return f"{part:27} {share}; {dict(counts)}"


def main() -> int:
    """Print each mutant's verdict, and the share that died."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--least", type=int, default=20, help="mutants of each folder, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the path")
    parser.add_argument("--named", type=Path)
    parser.add_argument("--limit", type=float, default=5.0, help="CPU seconds for a mutant")
    parser.add_argument("--slow", action="store_true", help="slow tests take part, too")
    parser.add_argument("--reach", type=Path, default=Path("/tmp/skdpfl-mutants"))
    args = parser.parse_args()
    if args.slow:
        MARK.clear()
    equivalent, every = known_equivalents(), {}
    for part, (places, _) in PARTS.items():
        files = [f for f in python_files(places) if args.only in str(f)]
        found = [m for f in files for m in mutants_of_file(f)]
        for file in files:  # every reason has to have its mutant
            here = {k for k in equivalent if k.startswith(f"{file.relative_to(ROOT)} ")}
            for key in sorted(here - {m.key for m in found}):
                print(f"no longer in the code: {key}")
        every[part] = [m for m in found if m.key not in equivalent]
    number = sum(map(len, every.values()))
    run = chosen(every, args.sample, args.least, args.seed)
    if args.named:
        named = keys_in(args.named)
        run = [m for ms in every.values() for m in ms if m.key in named]
    print(f"{number} mutants, {len(run)} of them run", flush=True)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for part, mutants in every.items():
        mine = [m for m in mutants if m in set(run)]
        if not mine:
            continue
        reach, tests = reach_of(part, args.reach), PARTS[part][1]
        judged: list[Verdict] = []
        for v in verdicts(mine, reach, tests, args.limit):
            judged.append(v)
            print(f"{v.found:8} {v.seconds:4.0f} s  {v.mutant.name}   {v.by}", flush=True)
        for v in checked(judged, reach, tests):
            print(f"{v.found:8} {v.seconds:4.0f} s  {v.mutant.name}   {v.by}", flush=True)
            judged = [v if w.mutant == v.mutant else w for w in judged]
        for v in judged:
            counts[str(Path(v.mutant.file).parent)][v.found] += 1
    for part, count in counts.items():
        print(summary(part, count))
    total: Counter[str] = sum(counts.values(), Counter())
    print(summary("all", total))
    died = total["killed"] + total["timeout"]
    return int(died < 0.95 * (sum(total.values()) - total["same code"]))


if __name__ == "__main__":
    sys.exit(main())
