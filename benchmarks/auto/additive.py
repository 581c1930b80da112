"""What curves bring within the budget: ``model="auto"`` beside ``model="linear"``.

Tables of mixed columns: 70 % of the records train, the others test; numeric columns have bounds
rounded outward to one digit, categories are columns of True and False. AUC for two labels, accuracy
for more, R2 for numbers; means over splits, and the standard error of the difference. The
thresholds of "auto" (``skdpfl/choosing/_choose.py``) were chosen on other splits of these tables,
with seeds below 10 and from 100 on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from benchmarks.auto.fits import fitted, score
from benchmarks.auto.problems import named
from benchmarks.tables import markdown

SEEDS = 3
EPSILONS = (0.5, 1.0, 3.0, 8.0)
#: no seed from here to 99 chose anything
FIRST = 10
#: table and silos -> number of silos; one is a trusted server's
CASES = {
    "adult, server": 1,
    "adult, ten silos": 10,
    "obesity, server": 1,
    "insurance, server": 1,
    "heart disease, server": 1,
    "wine, server": 1,
    "breast cancer, server": 1,
    "diabetes, server": 1,
    "loans (synthetic), five silos": 5,
    "wages (synthetic), four silos": 4,
    "straight (synthetic), five silos": 5,
    "straight labels (synthetic), server": 1,
}


def rows(case: str, seeds: int) -> Iterator[dict[str, object]]:
    """Yield the scores of both models for each split and budget."""
    name, where = case.split(", ")
    trust = "server" if where == "server" else "silo"
    for seed in range(FIRST, FIRST + seeds):
        data = named(name).split(seed, CASES[case])
        for epsilon in EPSILONS:
            scores = {
                model: score(data, fitted(data, epsilon, seed, model=model, trust=trust))
                for model in ("linear", "auto")
            }
            yield {"seed": seed, "epsilon": epsilon} | scores


def page(found: pd.DataFrame) -> str:
    """Return a table of means."""
    found = found.assign(gain=found["auto"] - found["linear"])
    each = found.groupby(["case", "epsilon"], sort=False)
    means, errors = each.mean(numeric_only=True), each["gain"].sem()
    lines = [
        [case, f"{epsilon:g}", f"{row.linear:.3f}", f"{row.auto:.3f}", f"{row.gain:+.3f}",
         f"{errors[case, epsilon]:.3f}"]
        for (case, epsilon), row in means.iterrows()
    ]  # fmt: skip
    return markdown(["case", "epsilon", "linear", "auto", "gain", "standard error"], lines)
