"""A figure's table on disk: one row a seed, written as they come, so that a run can go on later."""

from __future__ import annotations

import datetime
import functools
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn

import skdpfl
from _common.cells import Cell, Tuned
from _common.claims import PRINTED

COLUMNS = [
    "figure", "setting", "method", "epsilon", "at", "metric", "x", "seed", "value", "seconds",
    "chosen", "inside", "fits", "date", "version",
]  # fmt: skip


#: where the tables that are kept are
KEPT = Path(__file__).parents[1]


@functools.cache
def version() -> str:
    """Return the versions that a number depends on."""
    others = f"NumPy {np.__version__}; scikit-learn {sklearn.__version__}"
    return f"skdpfl {skdpfl.__version__}; {others}; Python {platform.python_version()}"


def key(setting: str, method: str, epsilon: float, at: float) -> tuple[str, str, str, str]:
    """Return a cell's name; numbers as the file has them."""
    return setting, method, f"{epsilon:.6g}", f"{at:.6g}"


def fits(table: pd.DataFrame) -> list[tuple[tuple[str, str, str, str], int]]:
    """Return the cell, named as :func:`key` does, and the seed of each row."""
    rows = table[["setting", "method", "epsilon", "at", "seed"]].itertuples(index=False)
    return [(key(*cell), int(seed)) for *cell, seed in rows]


def in_order(table: pd.DataFrame, cells: list[Cell]) -> pd.DataFrame:
    """Return the rows by setting, epsilon and method, in the order of a figure's cells.

    A table on disk is in the order in which cells were run. What is printed comes before what it is
    compared with.
    """

    def ranks(values: Iterable[Any], known: Iterable[Any]) -> list[int]:
        rank = {value: i for i, value in enumerate(dict.fromkeys(known))}
        return [rank.get(value, len(rank)) for value in values]

    def compared_with(method: str) -> str:
        return method.removeprefix(PRINTED)

    order = pd.DataFrame(
        {
            "setting": ranks(table["setting"], (cell.setting for cell in cells)),
            "epsilon": ranks(table["epsilon"], (cell.epsilon for cell in cells)),
            "method": ranks(
                map(compared_with, table["method"]), (compared_with(c.method) for c in cells)
            ),
            "ours": [not method.startswith(PRINTED) for method in table["method"]],
        }
    )
    return table.iloc[order.sort_values(list(order.columns), kind="stable").index]


class Store:
    """The table of one figure under ``<folder>/<paper>/<figure>.csv``."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.path = (folder / name).with_suffix(".csv")

    def read(self) -> pd.DataFrame:
        """Return all rows so far."""
        if not self.path.exists():
            return pd.DataFrame(columns=COLUMNS)
        table = pd.read_csv(self.path)
        words = {name: table[name].astype(object).fillna("") for name in ("setting", "chosen")}
        return table.assign(**words).astype(dict.fromkeys(("epsilon", "at", "x", "value"), float))

    def drop(self, cells: list[Cell]) -> None:
        """Forget the rows of these cells."""
        table, gone = self.read(), {key(*cell.key) for cell in cells}
        if len(table) and gone:
            self.write(table.loc[[cell not in gone for cell, _ in fits(table)]])

    def rows_like(self, cell: Cell, seed: int) -> list[dict[str, Any]]:
        """Return a cell's rows as copies of those of the cell that has the same fits, if any."""
        table = self.read()
        wanted = cell.like and (key(*cell.like), seed)
        rows = table.loc[np.array([fit == wanted for fit in fits(table)], dtype=bool)]
        x = rows["x"].where(rows["x"] != rows["at"], cell.x)
        return rows.assign(setting=cell.setting, at=cell.x, x=x).to_dict("records")

    def tuned(self, cell: tuple[str, str, float, float]) -> Tuned | None:
        """Return what was chosen last for a cell, named by its key, if a seed of it is there."""
        table = self.read()
        rows = [at for at, (there, _) in enumerate(fits(table)) if there == key(*cell)]
        if not rows:
            return None
        row = table.iloc[rows[-1]]  # the newest
        pairs = (pair.split("=") for pair in row["chosen"].split())
        point = {name: int(value) if value.isdigit() else float(value) for name, value in pairs}
        return Tuned(point, bool(row["inside"]), int(row["fits"]))

    def seeds(self) -> dict[tuple[str, str, str, str], set[int]]:
        """Return the cells whose search ended, named as :func:`key` does, with their seeds."""
        found: dict[tuple[str, str, str, str], set[int]] = {}
        table = self.read()
        for cell, seed in fits(table[table["inside"].astype(bool)]):
            found.setdefault(cell, set()).add(seed)
        return found

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add rows in place of those of the same cells and seeds."""
        today = str(datetime.date.today())
        more = pd.DataFrame(rows).assign(figure=self.name, date=today, version=version())
        before, new = self.read(), set(fits(more))
        before = before.loc[np.array([fit not in new for fit in fits(before)], dtype=bool)]
        self.write(pd.concat([before, more[COLUMNS]]) if len(before) else more[COLUMNS])

    def write(self, table: pd.DataFrame) -> None:
        """Replace the file whole: no half of a fit is ever there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        table.to_csv(partial, index=False, float_format="%.6g")
        partial.replace(self.path)


@functools.cache
def chosen(name: str, cell: tuple[str, str, float, float]) -> dict[str, float]:
    """Return what was tuned for a cell (setting, method, epsilon, at) of a table that is kept."""
    tuned = Store(KEPT, name).tuned(cell)
    if tuned is None:
        raise LookupError(f"the table of {name} has no row of {cell}, whose step is taken: run it")
    return tuned.point
