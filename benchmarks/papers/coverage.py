"""What is here of the papers: ``python benchmarks/papers/coverage.py --out coverage.md``.

docs/papers/index.md has the counts and what is not whole.

``coverage.csv`` states each item as the paper has it, with columns

    paper, item, where    public names (``skdpfl.papers.noble2022``), figures (``scaffold/table1``)
    setting               of items with runs: ``K=50 / 100; metric=accuracy; seeds=3``
    lacking               what a formula or algorithm lacks of the paper's
    differs               a remark that does not change the state

and the state is computed. A setting lists columns of the figures' tables, or facts that a figure
states of itself (``Figure.facts``: data, K, rounds), each with the values that the paper has. Every
combination must be there, on so many seeds; `` & `` stands between two such lists. "whole": nothing
lacks; "missing": no name and no row; else "partly", and why follows from the rows: values that no
row has, combinations without rows, and too few seeds. So fewer rows make fewer whole.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import itertools
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from _common.cells import figure_of
from _common.claims import CLAIM, PRINTED
from _common.table import Store

import skdpfl

ROOT = Path(__file__).parents[2]
ITEMS = ROOT / "benchmarks" / "papers" / "coverage.csv"
STATES = ("whole", "partly", "missing")


class Item(NamedTuple):
    """One row of the page."""

    paper: str
    item: str
    files: tuple[str, ...]
    state: str
    lacking: str
    differs: str


def items(folder: Path) -> list[Item]:
    """Return all rows, in the order of the file."""
    with ITEMS.open() as file:
        return [item_of(row, folder) for row in csv.DictReader(file, delimiter="|")]


def item_of(row: dict[str, str], folder: Path) -> Item:
    """Return a row with the state that code and tables give it."""
    places = row["where"].split()
    figures = [place for place in places if "/" in place]
    files = [f"benchmarks/papers/{name}.py" for name in figures]
    files += dict.fromkeys(file_of(place) for place in places if "/" not in place)
    rows = pd.concat([rows_of(name, folder) for name in figures]) if figures else None
    lacking = [row["lacking"]] if row["lacking"] else []
    if row["setting"]:
        parts = [lacks(wanted(part), rows) for part in row["setting"].split(" & ")]
        lacking += dict.fromkeys(why for part in parts for why in part)
    elif rows is not None and not len(rows):
        lacking.append("not run")
    nothing = not places or (rows is not None and not len(rows) and len(figures) == len(places))
    state = "missing" if nothing else "partly" if lacking else "whole"
    return Item(row["paper"], row["item"], tuple(files), state, "; ".join(lacking), row["differs"])


def file_of(place: str) -> str:
    """Return the file, from the root, in which a public name is defined."""
    module, name = place.rsplit(".", 1)
    found: Any = getattr(import_module(module), name)
    file = Path(inspect.getsourcefile(found) or "").resolve()
    library = Path(skdpfl.__file__).resolve().parents[1]
    return str(file.relative_to(ROOT if file.is_relative_to(ROOT) else library))


def rows_of(name: str, folder: Path) -> pd.DataFrame:
    """Return what was run of a figure, as text, with what the figure states of itself."""
    table = Store(folder, name).read()
    ours = ~table["method"].astype(str).str.startswith(PRINTED) & (table["method"] != CLAIM)
    return table[ours].map(text).assign(**{k: text(v) for k, v in figure_of(name).facts.items()})


def text(value: object) -> str:
    """Return a value as the settings have it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def wanted(setting: str) -> dict[str, list[str]]:
    """Return the values of each column that a setting lists."""
    pairs = (part.split("=", 1) for part in setting.split("; "))
    return {name: values.split(" / ") for name, values in pairs}


def lacks(setting: dict[str, list[str]], rows: pd.DataFrame | None) -> list[str]:
    """Return what the rows lack of a setting."""
    seeds = int(setting.get("seeds", ["1"])[0])
    columns = {name: values for name, values in setting.items() if name != "seeds"}
    if rows is None or not len(rows):
        return ["not run"]
    found = []
    for name, values in columns.items():
        there = set(rows[name].dropna()) if name in rows else set()
        absent = [value for value in values if value not in there]
        if absent:
            ours = "" if len(there) > 3 or not there else f" (ours: {' / '.join(sorted(there))})"
            found.append(f"{name} {' / '.join(absent)}{ours}")
    if found:
        return found
    counts = rows.groupby(list(columns))["seed"].nunique()
    cells = [cell if len(columns) > 1 else cell[0] for cell in itertools.product(*columns.values())]
    idle = [cell for cell in cells if cell not in counts.index]
    if idle:
        example = ", ".join(idle[0]) if isinstance(idle[0], tuple) else idle[0]
        found.append(f"{len(idle)} of {len(cells)} combinations, such as {example}")
    least = min((int(counts[cell]) for cell in cells if cell in counts.index), default=seeds)
    if least < seeds:
        found.append(f"{least} seed{'s' * (least > 1)} of {seeds}")
    return found


def page(folder: Path, *, all_items: bool = False) -> str:
    """Return how many items are in which state, what the others lack and, if asked, the whole."""
    rows = items(folder)
    papers = list(dict.fromkeys(row.paper for row in rows))
    lines = ["| paper | whole | partly | missing |", "|---|---|---|---|"]
    for paper in [*papers, "all"]:
        states = [row.state for row in rows if paper in (row.paper, "all")]
        lines.append(f"| {paper} | " + " | ".join(str(states.count(s)) for s in STATES) + " |")
    for paper in papers:
        here = [row for row in rows if row.paper == paper]
        lines += ["", f"### {paper}"]
        if all_items:
            lines += ["", "Whole:", "", *whole([row for row in here if row.state == "whole"])]
        head = "| item | where | what is missing | how ours differs |"
        lines += ["", head, "|---|---|---|---|"]
        lines += [line(row) for row in here if row.state != "whole"]
    return "\n".join(lines)


def whole(rows: list[Item]) -> list[str]:
    """Return one point of a list for each file, with all items that it holds."""
    by_file: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        differs = f" ({row.differs})" if row.differs else ""
        by_file.setdefault(row.files, []).append(row.item + differs)
    return [f"- {named(files)}: {'; '.join(found)}" for files, found in by_file.items()]


def named(files: tuple[str, ...]) -> str:
    """Return files as Markdown."""
    return ", ".join(f"`{file}`" for file in files)


def line(row: Item) -> str:
    """Return a row of what is not whole as Markdown."""
    lacking = row.lacking if row.state == "partly" else "missing: " + (row.lacking or "all")
    return f"| {row.item} | {named(row.files)} | {lacking} | {row.differs} |"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, default=ITEMS.parent, help="where the tables are")
    parser.add_argument("--out", type=Path, help="the page; without it, it is printed")
    options = parser.parse_args()
    text = page(options.tables, all_items=True)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
