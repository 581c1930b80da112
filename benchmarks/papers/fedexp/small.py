"""Figures 1 and 2 at a fifth of their size: 200 silos, 200 features, 20 rounds; else the same."""

from __future__ import annotations

import dataclasses
from functools import partial

from fedexp import synthetic

SIZE = synthetic.Size(200, 200, 20)
FIGURE = dataclasses.replace(
    synthetic.FIGURE,
    title="FedEXP, 200 silos, 200 features",
    cells=partial(synthetic.cells, full=SIZE),
)
