"""Studies of "auto": ``python benchmarks/auto/run.py NAME`` writes its part of results.md.

additive  curves beside lines on tables of mixed columns
alone     what one silo alone reaches on one of them
budgets   does more budget ever hurt? 176 rows
judge     curves beside lines on ten tables that chose nothing
rare      weights and log losses of rare labels
unseen    classifiers on 300 tables that chose nothing

Each is a module beside this file, whose docstring says what is measured. ``--seeds 2`` and
``--cases`` (words that their names start with) are a part of a study, and write no page; neither do
other constants of rules, such as ``--constants models._rules.FEW_STEPS=20``.
``pictures`` draws those of docs/models.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib
import sys
import warnings
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.auto.fits import fitted
from benchmarks.auto.problems import named
from benchmarks.problems import Problem
from benchmarks.tables import header
from skdpfl.inspection import ShapeDisplay
from skdpfl.models import Additive

HERE = Path(__file__).parent
STUDIES = ("additive", "alone", "budgets", "judge", "rare", "unseen")


def draw() -> None:
    """Write the pictures of docs/models.md: adult at epsilon 1, insurance at epsilon 3."""
    smoking = Additive(interactions=[("bmi", "smoker_yes")])
    columns = ["age", "education_years", "hours", "gain", "loss", "sex_Male"]
    for name, epsilon, asked, shown, n_products in (
        ("adult", 1.0, "auto", columns, 0),
        ("insurance", 3.0, smoking, ["age", "bmi", "smoker_yes"], 1),
    ):
        X, y, bounds = named(name).columns(), named(name).y, named(name).bounds()
        data = Problem(X, y, None, X, y, bounds)
        model = fitted(data, epsilon, 0, model=asked, trust="server")
        display = ShapeDisplay.from_estimator(model, features=shown, n_products=n_products)
        display.figure_.savefig(HERE.parents[1] / f"docs/_static/curves_{name}.png", dpi=80)


def main() -> None:
    """Run a study, print its page, and write it if it is whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[*STUDIES, "pictures"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--cases", nargs="*", default=[""])
    parser.add_argument("--constants", nargs="*", default=[])
    options = parser.parse_args()
    for place, value in (each.split("=") for each in options.constants):
        module, name = place.rsplit(".", 1)
        holder = importlib.import_module(f"skdpfl.{module}")
        getattr(holder, name)  # a misspelt name is an error
        setattr(holder, name, float(value))
    warnings.simplefilter("ignore")
    if options.name == "pictures":
        return draw()
    study = importlib.import_module(f"benchmarks.auto.{options.name}")
    seeds = options.seeds or study.SEEDS
    found = pd.DataFrame(
        {"case": case} | row
        for case in study.CASES
        if case.startswith(tuple(options.cases))
        for row in study.rows(case, seeds)
    )
    command = f"`python benchmarks/auto/run.py {options.name}`, seeds: {seeds}"
    command += "".join(f", {each}" for each in options.constants)
    text = f"{command}; {header()}.\n\n{study.page(found)}"
    print(text)
    whole = len(found["case"].unique()) == len(study.CASES) and seeds == study.SEEDS
    if whole and not options.constants:
        write(options.name, text)


def write(name: str, text: str) -> None:
    """Write a study's part of results.md."""
    page, end = HERE / "results.md", f"\n\n<!-- end of {name} -->"
    before, rest = page.read_text().split(start := f"<!-- {name} -->\n\n")
    page.write_text(f"{before}{start}{text}{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()
