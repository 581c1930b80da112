"""Classifiers on 300 tables that chose nothing.

300 to 6,000 records in 2 to 12 silos of unlike sizes, 4 to 25 normal, lognormal and 0/1 columns,
3 to 50 % positives, log odds of deviation 0 (no signal), 0.5, 1 or 2; epsilon 0.5 to 8, one seed
each; half of the fits have bounds. Log loss of 5,000 other records, less that of a constant, the
exact share of the training records; how many end so far above it, and how many of them, and of
those below by 5 % or more, were warned of.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pandas as pd

from benchmarks.auto.fits import constant_loss, fitted, loss_over_constant
from benchmarks.auto.problems import of_labels
from benchmarks.tables import markdown

SEEDS = 1
CASES = [f"{number:03d}" for number in range(300)]
EPSILONS, FAMILIES = (0.5, 1.0, 2.0, 4.0, 8.0), ("ISRLDP", "DPFedAvg", "DPScaffold")


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield how a fit ended, relative to the constant's log loss, and whether it was warned of."""
    number = int(case)
    data = of_labels(number)
    data = data if number % 2 else data._replace(bounds={})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fitted(data, EPSILONS[number % 5], number, FAMILIES[number // 5 % 3])
    warned = any("will drown" in str(each.message) for each in said)
    gain, constant = loss_over_constant(data, model), constant_loss(data)
    yield {"gain": gain, "constant": constant, "warned": warned}


def page(found: pd.DataFrame) -> str:
    """Count fits."""
    where = {f"above by {most:g}": found["gain"] > most for most in (0.0, 0.01, 0.02)}
    where["below by 5 % of it"] = found["gain"] < -0.05 * found["constant"]
    lines = [[name, those.sum(), found["warned"][those].sum()] for name, those in where.items()]
    mean, most = found["gain"].agg(["mean", "max"])
    words = f"{len(found)} fits; means of {mean:+.4f}, at most {most:+.3f} above the constant."
    heads = ["log loss and the constant's", "fits", "warned of"]
    return f"{words}\n\n{markdown(heads, lines)}"
