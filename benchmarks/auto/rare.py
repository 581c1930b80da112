"""Rare labels, judged on 20,000 other records; bounds are (-5, 5).

Weights: six normal columns, two with an effect, four silos; the rarer label has a share of the
records, by quantile. Area under the ROC curve and balanced accuracy without ``class_weight``, with
{0: share, 1: 1}, and with the root of the share.

Log loss: 1,500 records in six silos, 20 normal columns, log odds 0.6 (x1 + .. + x4) + a. Log loss
less that of a constant, the exact share of the training records; "exact" is ``LogisticRegression``
without privacy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from benchmarks.auto.fits import constant_loss, fitted, loss_over_constant, score
from benchmarks.auto.problems import by_odds, by_quantile
from benchmarks.tables import markdown

SEEDS = 40
#: records, share of the rarer label, epsilon
WEIGHTS = ("1400, 0.02, 1", "1400, 0.05, 1", "1400, 0.05, 3", "1400, 0.2, 1", "5000, 0.05, 1")
#: a, epsilon
LOSSES = ("-2.4, 0.5", "-2.4, 1", "-2.4, 3", "-2.4, 8", "-4, 0.5", "-4, 2", "-4, 8")
CASES = (*WEIGHTS, *LOSSES)


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield the figures of each seed."""
    *first, epsilon = map(float, case.split(", "))
    for seed in range(seeds):
        yield (of_weights if case in WEIGHTS else losses)(*first, epsilon, seed)


def of_weights(n: float, share: float, epsilon: float, seed: int) -> dict[str, object]:
    """Return area and balanced accuracy for each weight."""
    data, found = by_quantile(int(n), share, seed), {}
    for by, weight in (("", None), (", by shares", share), (", by roots", share**0.5)):
        weights = weight and {0: weight, 1: 1}
        model = fitted(data, epsilon, seed, class_weight=weights)
        positive = model.decision_function(data.X_test) > 0
        found[f"AUC{by}"] = score(data, model)
        found[f"balanced accuracy{by}"] = balanced_accuracy_score(data.y_test, positive)
    return found


def losses(a: float, epsilon: float, seed: int) -> dict[str, object]:
    """Return log losses and the area."""
    data = by_odds(a, seed)
    model, exact = fitted(data, epsilon, seed), LogisticRegression().fit(data.X, data.y)
    return {
        "constant": constant_loss(data),
        "own": loss_over_constant(data, model),
        "exact": loss_over_constant(data, exact),
        "area": score(data, model),
    }


def page(found: pd.DataFrame) -> str:
    """Return both tables: means, and standard errors in brackets."""
    each = found.groupby("case", sort=False)
    means, worst = each.mean(), each.max()
    errors = each.std(ddof=0) / np.sqrt(len(found) / len(means))
    columns = [name for name in found if name.startswith(("AUC", "balanced"))]
    weights = [
        [case, *(f"{means[name][case]:.3f} ({errors[name][case]:.3f})" for name in columns)]
        for case in means.index.intersection(WEIGHTS, sort=False)
    ]
    parts = [
        [case, f"{row.constant:.3f}", f"{row.own:+.4f} ({errors.own[case]:.4f})",
         f"{worst.own[case]:+.3f}", f"{row.exact:+.4f}", f"{row.area:.3f}"]
        for case, row in means.loc[means.index.intersection(LOSSES, sort=False)].iterrows()
    ]  # fmt: skip
    heads = ["a, epsilon", "constant", "fit less constant", "worst", "exact", "AUC"]
    first = markdown(["records, share, epsilon", *columns], weights)
    return f"### Weights\n\n{first}\n\n### Log loss\n\n{markdown(heads, parts)}"
