"""Curves or lines on ten drawn tables that chose nothing.

Silos add their own noise or share it, at epsilon 1, 3 and 8: ``model="auto"`` less
``model="linear"``, means of two seeds. The score is R2 of numbers, the area under the ROC curve of
two labels, the accuracy of more; log losses are those of labels. More budget hurts where the next
epsilon has a score lower by .005 or a loss higher by .003.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.auto.fits import fitted, loss_over_constant, score
from benchmarks.auto.problems import of_all_kinds
from benchmarks.tables import markdown

SEEDS = 2
CASES = [str(number) for number in range(10)]
EPSILONS, TRUSTS = (1.0, 3.0, 8.0), ("silo", "secagg")


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield means of the seeds, one row for each trust and epsilon."""
    data = of_all_kinds(int(case))

    def judged(seed: int, epsilon: float, **options: str) -> tuple[float, float]:
        model = fitted(data, epsilon, int(case) + 1_000 * seed, **options)
        return score(data, model), 0.0 if data.is_regression else loss_over_constant(data, model)

    for trust, epsilon in itertools.product(TRUSTS, EPSILONS):
        fits = [
            [judged(seed, epsilon, trust=trust, model=model) for model in ("linear", "auto")]
            for seed in range(seeds)
        ]
        (line, line_loss), (own, loss) = np.mean(fits, axis=0)
        found = {"score": own - line, "loss": loss - line_loss, "above": loss, "own": own}
        yield {"trust": trust, "epsilon": epsilon, "labels": not data.is_regression} | found


def page(found: pd.DataFrame) -> str:
    """Count cells."""
    of_labels, each = found[found["labels"]], found.groupby(["case", "trust"])
    hurt = (each["own"].diff() < -0.005) | (each["above"].diff() > 0.003)
    lines = [
        ["score below by .005", (found["score"] < -0.005).sum(), len(found)],
        ["score above by .005", (found["score"] > 0.005).sum(), len(found)],
        ["log loss worse by .005", (of_labels["loss"] > 0.005).sum(), len(of_labels)],
        [
            "log loss above the constant's by .003",
            (of_labels["above"] > 0.003).sum(),
            len(of_labels),
        ],
        ["more budget hurts", hurt.sum(), len(found) - each.ngroups],
    ]
    mean, least, most = found["score"].agg(["mean", "min", "max"])
    words = (
        f"Scores differ by {mean:+.4f} in the mean, {least:+.3f} at worst and {most:+.3f} at best."
    )
    return f"{markdown(['', 'cells', 'of'], lines)}\n\n{words}"
