"""What boosted trees reach on census records that one of so many silos fits alone, without noise.

The area under the ROC curve on the splits of ``additive``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.auto.additive import FIRST
from benchmarks.auto.fits import score
from benchmarks.auto.problems import named
from benchmarks.tables import markdown

SEEDS = 3
CASES = {"3 silos": 3, "10 silos": 10, "100 silos": 100}


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield the score of each split."""
    for seed in range(FIRST, FIRST + seeds):
        data = named("adult").split(seed, CASES[case])
        own = data.silos == 0
        trees = HistGradientBoostingClassifier(random_state=0).fit(data.X[own], data.y[own])
        yield {"records": own.sum(), "AUC": score(data, trees)}


def page(found: pd.DataFrame) -> str:
    """Return a table of means."""
    means = found.groupby("case", sort=False).mean()
    lines = [[case, f"{row.records:.0f}", f"{row.AUC:.3f}"] for case, row in means.iterrows()]
    return markdown(["adult, one of", "records", "AUC alone"], lines)
