"""Tables in docs/papers/*.md, made from the tables beside the scripts.

A page says what it wants in a comment and gets it between that and the next one::

    <!-- table scaffold/accuracy: setting, method / epsilon -->
    ...
    <!-- end -->

rows before the slash, columns behind it; ``where metric=accuracy; x=27.0 or 30.0`` picks rows. A
cell is the mean over the seeds (and what else is not in rows or columns), with their standard
deviation if there are several. ::

    <!-- paper scaffold/accuracy: 3 -->

is the table that every page has, with 3 as the published epsilon: see :func:`compared`; ``where``
and settings pick its rows. What is between ``<!-- coverage -->`` and the end is ``coverage.py``'s.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
from coverage import page as coverage

from _common.cells import figure_of
from _common.claims import CLAIM, PRINTED
from _common.table import Store, in_order

DOCS = Path(__file__).parents[3] / "docs" / "papers"
WANTED = re.compile(
    r"(<!-- table (?P<name>\S+): (?P<rows>[\w, ]+) / (?P<columns>[\w, ]+?)"
    r"(?: where (?P<where>.+?))? -->\n).*?(<!-- end -->)",
    re.DOTALL,
)
COMPARED = re.compile(
    r"(<!-- paper (?P<name>\S+): (?P<epsilon>[\d.]+)(?: where (?P<settings>.+?))? -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)
COVERED = re.compile(r"(<!-- coverage -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_pages(folder: Path) -> None:
    """Write all tables that the pages ask for."""
    for page in sorted(DOCS.glob("*.md")):
        page.write_text(filled(page.read_text(), folder))


def filled(text: str, folder: Path) -> str:
    """Return a page's text with its tables as they are on disk."""
    text = WANTED.sub(lambda found: found[1] + markdown(found, folder) + found[6], text)
    text = COVERED.sub(lambda found: f"{found[1]}\n{coverage(folder)}\n\n{found[2]}", text)
    return COMPARED.sub(lambda found: found[1] + compared(found, folder) + found[5], text)


def compared(asked: re.Match[str], folder: Path) -> str:
    """Return a figure's table: what is printed, the claim priced soundly, ours at three budgets.

    Printed values and the claim are cells of their own, see ``_common.claims``. "not run" is a cell
    of the full run that the table on disk lacks, a dash one that there is not; rows without any
    value are named below, columns without any are left out, and so are settings without cells at
    the published epsilon. Where there is one setting, it heads the methods.
    """
    name, published = asked["name"], float(asked["epsilon"])
    figure = figure_of(name)
    table, wanted = Store(folder, name).read(), figure.cells(False)
    keys = {(cell.setting, cell.method, round(cell.epsilon, 4)) for cell in wanted}
    there = {setting for setting, _, epsilon in keys if epsilon == round(published, 4)}
    if asked["settings"]:
        there &= set(asked["settings"].split(" or "))
    rows = dict.fromkeys(
        (cell.setting, cell.method) for cell in wanted if not cell.fixed and cell.setting in there
    )
    table = table.assign(epsilon=table["epsilon"].round(4))
    last = {cell.metric or figure.metric for cell in wanted if not cell.fixed}
    means = table[table["metric"].isin(last | {CLAIM})].groupby(["setting", "method", "epsilon"])
    means = means["value"].agg(["mean", "std"])

    def cell(setting: str, method: str, epsilon: float) -> str:
        if (at := (setting, method, round(epsilon, 4))) in means.index:
            return number(*means.loc[at])
        return "not run" if at in keys else "–"

    heading = ["setting", "method", "published", f"the claim (ε {published:g}), sound"]
    heading += [f"ours, ε {published:g}", "ours, ε 1", "no privacy"]
    lines, idle = [heading, ["---"] * len(heading)], dict.fromkeys((s for s, _ in rows), 0)
    for setting, method in rows:
        claim, printed = cell(setting, CLAIM, published), f"{PRINTED}{method}"
        ours = [cell(setting, method, epsilon) for epsilon in (published, 1.0, np.inf)]
        claim = claim if claim in ("–", "not run") else f"ε {claim}"
        line = [setting, method, cell(setting, printed, published), claim, *ours]
        if set(line[2:3] + ours) <= {"–", "not run"}:
            idle[setting] += 1
        else:
            lines.append(line)
    shown = [column for column in zip(*lines, strict=True) if set(column[2:]) != {"–"}]
    if len(there) == 1:
        shown[:2] = [(*there, *shown[1][1:])]
    body = "\n".join("| " + " | ".join(line) + " |" for line in zip(*shown, strict=True))
    body = f"{body}\n\n" if len(lines) > 2 else ""
    rest = "; ".join(f"{s} ({idle[s]} methods)" for s in idle if idle[s])
    rest = f"Not run: {rest}.\n\n" if rest else ""
    fits = table[table["method"].isin({method for _, method in rows})]
    made = source(name, fits) if len(fits) else f"*`{name}` has not been run in full.*"
    return f"\n{body}{rest}{made}\n\n"


def markdown(wanted: re.Match[str], folder: Path) -> str:
    """Return one table, and what it was made by."""
    table = Store(folder, wanted["name"]).read()
    table = in_order(table, figure_of(wanted["name"]).cells(False))
    for condition in filter(None, (wanted["where"] or "").split("; ")):
        column, value = condition.split("=", 1)
        table = table[table[column].map(str).isin(value.split(" or "))]
    if not len(table):
        return f"\n(`{wanted['name']}` has not been run in full.)\n\n"
    rows, columns = (names.split(", ") for names in (wanted["rows"], wanted["columns"]))
    cells = table.groupby(rows + columns, sort=False)["value"].agg(["mean", "std"])
    shown = cells.apply(lambda cell: number(*cell), axis=1)
    # pivot_table would sort
    shown = shown.unstack(columns, sort=False).fillna("")  # noqa: PD010
    if columns in (["x"], ["epsilon"]):
        shown = shown[sorted(shown.columns)]
    names = [*rows, *(", ".join(heads(columns, name)) for name in shown.columns)]
    lines = [names, ["---"] * len(names)]
    for index, row in zip(shown.index, shown.to_numpy().tolist(), strict=True):
        lines.append([*heads(rows, index), *row])
    body = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    return f"\n{body}\n\n{source(wanted['name'], table)}\n\n"


def source(name: str, table: pd.DataFrame) -> str:
    """Return when, by what and in what time a table was made."""
    fits = table.drop_duplicates(["setting", "method", "epsilon", "at", "seed"])
    dates = sorted(set(table["date"]))
    date = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    edge = table[~table["inside"].astype(bool)].drop_duplicates(["setting", "method", "epsilon"])
    tuned = ""
    if table["fits"].any():
        tuned = f", tuned by up to {int(table['fits'].max())} fits a cell"
        tuned += "" if edge.empty else f", {len(edge)} at the grid's edge"
    return f"*`{name}`: {date}, {fits['seconds'].sum():.0f} s{tuned}*"


def number(mean: float, std: float) -> str:
    """Return a cell: three digits of the mean, two of the deviation's."""
    if not np.isfinite(mean):
        return str(mean)
    if std > 0 and abs(mean) < 1e-3:
        return f"{mean:.1e} ± {std:.1e}"
    if std > 0:
        digits = min(4, max(0, 2 - int(np.floor(np.log10(std))) - 1))
        return f"{mean:.{digits}f} ± {std:.{digits}f}"
    return f"{mean:.3g}"


def heads(columns: list[str], values: object) -> list[str]:
    """Return a row's or column's names as they are shown."""
    values = values if isinstance(values, tuple) else (values,)
    return [head(*pair) for pair in zip(columns, values, strict=True)]


def head(column: str, value: object) -> str:
    """Return one name."""
    if isinstance(value, float):
        if np.isinf(value):
            return "no privacy"
        return f"ε {value:g}" if column == "epsilon" else f"{value:g}"
    return str(value)
