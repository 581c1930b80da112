"""docs/papers/coverage.md: every item of the papers, where it is, by which command, and how whole.

``coverage.csv`` says what an item is and what it lacks; file, command, cells and seeds are read
from the code and from the tables that were kept. An item that has no place is missing, and one of a
figure of which cells were not run is partly there, whatever the file says.
"""

from __future__ import annotations

import csv
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from _common.cells import figure_of
from _common.table import Store, key

ROOT = Path(__file__).parents[3]
ITEMS = ROOT / "benchmarks" / "papers" / "coverage.csv"
STATES = ("whole", "partly", "missing")


class Item(NamedTuple):
    """One row of the page."""

    paper: str
    item: str
    files: tuple[str, ...]
    commands: tuple[str, ...]
    seeds: str
    state: str
    missing: str


def items(folder: Path) -> list[Item]:
    """Return all rows, in the order of the file."""
    with ITEMS.open() as file:
        return [item_of(row, folder) for row in csv.DictReader(file, delimiter="|")]


def item_of(row: dict[str, str], folder: Path) -> Item:
    """Return a row with what code and tables say."""
    places = row["where"].split()
    figures = [place for place in places if "/" in place]
    files = [f"benchmarks/papers/{name}.py" for name in figures]
    files += [file_of(place) for place in places if "/" not in place]
    counts = [cells_run(name, folder) for name in figures]
    missing, state = row["missing"], row["state"]
    idle = [f"{of - done} cells of {name} not run" for name, (done, of, _) in
            zip(figures, counts, strict=True) if done < of]  # fmt: skip
    if not places:
        state = "missing"
    elif idle and state == "whole":
        state, missing = "partly", "; ".join(idle)
    seeds = ", ".join(str(seeds) for _, _, seeds in counts)
    return Item(row["paper"], row["item"], tuple(files), tuple(figures), seeds, state, missing)


def file_of(place: str) -> str:
    """Return the file, from the root, in which a public name is defined."""
    module, name = place.rsplit(".", 1)
    found: Any = getattr(import_module(module), name)
    return str(Path(inspect.getsourcefile(found) or "").resolve().relative_to(ROOT))


def cells_run(name: str, folder: Path) -> tuple[int, int, str]:
    """Return how many cells of a figure were run, of how many, and on how many seeds."""
    cells = [cell for cell in figure_of(name).cells(False) if not cell.fixed]
    there = Store(folder, name).seeds()
    seeds = [len(there[k]) for k in (key(*cell.key) for cell in cells) if k in there]
    if not seeds:
        return 0, len(cells), "–"
    least, most = min(seeds), max(seeds)
    return len(seeds), len(cells), f"{least}" if least == most else f"{least} to {most}"


def page(folder: Path) -> str:
    """Return the tables, one a paper, after a table of how many items are in which state."""
    rows = items(folder)
    papers = list(dict.fromkeys(row.paper for row in rows))
    lines = ["| paper | whole | partly | missing |", "|---|---|---|---|"]
    for paper in [*papers, "all"]:
        states = [row.state for row in rows if paper in (row.paper, "all")]
        lines.append(f"| {paper} | " + " | ".join(str(states.count(s)) for s in STATES) + " |")
    for paper in papers:
        lines += [
            "",
            f"## {paper}",
            "",
            "| item | where | seeds | state | what is missing, or how ours differs |",
        ]
        lines += ["|---|---|---|---|---|"]
        lines += [line(row) for row in rows if row.paper == paper]
    return "\n".join(lines)


def line(row: Item) -> str:
    """Return a row as Markdown."""
    where = ", ".join(f"`{file}`" for file in row.files)
    return f"| {row.item} | {where} | {row.seeds} | {row.state} | {row.missing} |"
