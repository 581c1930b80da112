"""The papers' tables and figures: ``python benchmarks/papers/run.py`` runs what is named, or all.

    python benchmarks/papers/run.py scaffold/table1      one of them, in full
    python benchmarks/papers/run.py scaffold             all of a paper
    python benchmarks/papers/run.py --quick --out /tmp/p small versions of all of them, minutes
    python benchmarks/papers/run.py --pictures           pictures and pages from the tables there

Each writes ``<out>/<paper>/<figure>.csv`` and a picture (without ``--out``: beside the scripts and,
where a page shows it, into docs/papers, whose tables are then made anew). A full run goes on where
the last one stopped, seed by seed; what a cell's first seed chose holds for the others, and a
search that ended at an edge goes on. With
``--again`` the rows that are there are forgotten first. ``--minutes`` starts nothing
further after that time; ``--cells "10 silos.* 1$"`` runs cells whose setting, method, epsilon and,
if it has one, place on the x axis (``at 5``) match. A search that was stopped goes on, too:
its fits are in ``<figure>.*.tuning`` until it ends. Data are looked for in ``$SKDPFL_DATA``, see
skdpfl.datasets.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import argparse
import math
import multiprocessing
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from _common.cells import Cell, figure_of, run_cell, seeds_of
from _common.draw import draw
from _common.memory import Memory
from _common.pages import DOCS, fill_pages
from _common.table import Store, in_order, key

HERE = Path(__file__).parent
#: the cheapest first
FIGURES = (
    "scaffold/table1", "scaffold/table4", "scaffold/accuracy", "scaffold/best", "scaffold/curves",
    "scaffold/curves_100",
    "scaffold/theory", "scaffold/emnist", "scaffold/local_steps", "scaffold/emnist_paper",
    "scaffold/network", "scaffold/sweeps", "scaffold/protocol",
    "scaffold/dissimilarity",
    "isrl/bounds", "isrl/insurance", "isrl/obesity", "isrl/mnist", "isrl/inside", "drift/bounds",
    "drift/schemes", "drift/best",
    "fedexp/start", "fedexp/small", "fedexp/synthetic", "fedexp/mnist",
    "fedexp/mnist_whole",
    "pfl/epochs", "pfl/silos", "pfl/grid", "pfl/cifar",
)  # fmt: skip
#: run where they are named: hours, and data of 170 MB
NAMED_ONLY = ("pfl/grid", "pfl/cifar")


class Task(NamedTuple):
    """The ``at``-th cell of a figure, on one of its seeds."""

    name: str
    at: int
    seed: int
    options: argparse.Namespace


def work(task: Task) -> tuple[str, list[dict[str, Any]]]:
    """Run it."""
    name, at, seed, options = task
    warnings.simplefilter("ignore")  # steps of a lattice may diverge, and deltas are the papers'
    figure, store = figure_of(name), Store(options.out, name)
    cell = figure.cells(options.quick)[at]
    if rows := store.rows_like(cell, seed):
        return name, rows
    memory = Memory(store.path, cell)
    if not options.quick:
        cell = memory.remembering(cell, figure.tuning)
    rows = list(run_cell(figure, cell, options.quick, (seed,), store.tuned(cell.key)))
    memory.forget()
    return name, rows


def missing(options: argparse.Namespace) -> Iterator[Task]:
    """Yield what is wanted and not in its table."""
    for name in options.names:
        figure, there = figure_of(name), Store(options.out, name).seeds()
        for at, cell in wanted(name, options):
            done = there.get(key(*cell.key), set())
            for seed in seeds_of(figure, cell, options.quick):
                if seed not in done:
                    yield Task(name, at, seed, options)


def wanted(name: str, options: argparse.Namespace) -> Iterator[tuple[int, Cell]]:
    """Yield the cells of a figure that match, with their places."""
    for at, cell in enumerate(figure_of(name).cells(options.quick)):
        small = options.quick and cell.method.startswith("published")
        if not small and re.search(options.cells, named(cell)):
            yield at, cell


def named(cell: Cell) -> str:
    """Return what ``--cells`` is matched with."""
    where = "" if math.isnan(cell.x) else f" at {cell.x:g}"
    return f"{cell.setting} {cell.method} {cell.epsilon:g}{where}"


def told(name: str, rows: list[dict[str, Any]]) -> str:
    """Return what is printed of a cell."""
    first = rows[0]
    values = [row["value"] for row in rows if row["metric"] == first["metric"]]
    mean, seconds = sum(values) / len(values), sum({r["seed"]: r["seconds"] for r in rows}.values())
    where = (
        f"{first['setting']:24s} {first['method']:28s} eps {first['epsilon']:<6g} {first['at']:g}"
    )
    edge = "" if first["inside"] else "  (at the edge)"
    return f"{name:20s} {where} {mean:8.4g}  {seconds:6.1f} s  {first['chosen']}{edge}"


def run(options: argparse.Namespace) -> None:
    """Run all cells that are missing, in processes of their own."""
    start = time.perf_counter()
    # one seed of everything, then the next
    tasks = sorted(missing(options), key=lambda task: task.seed)

    def in_time() -> Iterator[Task]:
        for task in tasks:
            if time.perf_counter() - start < 60 * options.minutes:
                yield task

    def keep(done: tuple[str, list[dict[str, Any]]]) -> None:
        Store(options.out, done[0]).append(done[1])
        print(told(*done), flush=True)

    if options.jobs == 1:
        for task in in_time():
            keep(work(task))
        return
    with multiprocessing.Pool(options.jobs) as pool:
        queued = []
        for task in in_time():
            queued.append(pool.apply_async(work, (task,)))
            while sum(not job.ready() for job in queued) >= options.jobs:
                time.sleep(0.05)
            for job in [job for job in queued if job.ready()]:
                keep(job.get())
                queued.remove(job)
        for job in queued:
            keep(job.get())


def picture(name: str, out: Path) -> Path:
    """Return where a figure's picture goes: beside its table, that of a kept one to the pages."""
    return DOCS / f"{name.replace('/', '-')}.png" if out == HERE else out / f"{name}.png"


def pictures(names: list[str], out: Path) -> None:
    """Draw what has a table; of those kept beside the scripts what a page shows."""
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    for name in names:
        table, figure = Store(out, name).read(), figure_of(name)
        for suffix, shown in {"": figure, **figure.more}.items():
            file = picture(f"{name}{suffix}", out)
            if len(table) and (out != HERE or file.name in pages):
                draw(shown, in_order(table, figure.cells(out != HERE)), file)
    if out == HERE:
        fill_pages(HERE)


def chosen(given: list[str]) -> list[str]:
    """Return the figures that the names mean: their own, or their paper's."""
    usual = [f for f in FIGURES if f not in NAMED_ONLY]
    names = [f for f in usual if not given or f.split("/")[0] in given]
    names = [f for f in FIGURES if f in given or f in names]
    unknown = [g for g in given if not any(g in (f, f.split("/")[0]) for f in FIGURES)]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    return names


def main() -> None:
    """Run, draw, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--out", type=Path, help="default: beside the scripts (quick: papers-quick)"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--cells", default="", help="a regular expression")
    parser.add_argument("--again", action="store_true", help="forget the rows of these cells first")
    parser.add_argument("--pictures", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.names = chosen(options.names)
    options.out = options.out or (Path("papers-quick") if options.quick else HERE)
    if options.quick and options.out.resolve() == HERE.resolve():
        sys.exit("--quick does not write over the full tables: give another --out")
    for name in options.names:
        if (options.quick or options.again) and not options.pictures:
            Store(options.out, name).drop([cell for _, cell in wanted(name, options)])
    start = time.perf_counter()
    if not options.pictures:
        try:
            run(options)
        except OSError as error:  # data that are not at hand
            sys.exit(str(error))
    pictures(options.names, options.out)
    print(f"{time.perf_counter() - start:.0f} s, tables and pictures in {options.out}")


if __name__ == "__main__":
    main()
