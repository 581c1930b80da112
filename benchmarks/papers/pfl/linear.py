"""Tables 2 and 3 as far as linear models go: E local epochs by R rounds, E R = 20, 10 silos.

Linear models on pixels; the paper's are networks and linear models on scattering features (its
row "SN+Linear" is shown beside). 10 silos of a random tenth each, no image in two; the paper's
tenths may overlap. Its batch size and delta are not given: batches of 256 of 6000, delta 1e-5.
Clip norm 1, momentum 0.5, the step tuned. The same noise pays for every split of 20 epochs.
"""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Axis, Cell, Figure, known
from _common.problem import Problem

from skdpfl import DPFedAvgClassifier
from skdpfl.datasets import fetch_fashion_mnist, fetch_mnist

FETCH = {"MNIST": fetch_mnist, "Fashion-MNIST": fetch_fashion_mnist}
#: E -> SN+Linear as printed for the published epsilon (2.93, 2.7) and for 1.2
SPLITS = {
    "MNIST": {
        1: (97.52, 96.42), 2: (97.52, 96.86), 4: (97.59, 96.71), 5: (97.34, 96.60),
        10: (97.42, 95.79), 20: (96.85, 94.57),
    },
    "Fashion-MNIST": {
        1: (86.01, 84.96), 2: (86.46, 84.77), 4: (86.13, 84.78), 5: (86.33, 84.74),
        10: (85.22, 84.59), 20: (83.73, 82.79),
    },
}  # fmt: skip
PUBLISHED = {"MNIST": 2.93, "Fashion-MNIST": 2.7}
STEP = Axis("learning_rate", 0.3, 3.0, 1e-4, 1e4)


@functools.lru_cache(maxsize=4)
def problem(name: str, n_silos: int, seed: int, quick: bool) -> Problem:
    """Return silos of random parts of the training images; the test images."""
    train = FETCH[name](subset="train", n_silos=n_silos, split="iid", random_state=seed)
    test = FETCH[name](subset="test", n_silos=1)
    rows = slice(None, None, 20 if quick else 1)
    X, X_test = (part.astype(np.float32) / 255 for part in (train.data[rows], test.data))
    return Problem(X, train.target[rows], train.silos[rows], X_test, test.target)


def accuracy(
    name: str, epsilon: float, epochs: int, n_silos: int, quick: bool, seed: int, **chosen: float
) -> float:
    """Return the test accuracy of one fit."""
    data = problem(name, n_silos, seed, quick)
    size = len(data.y) / n_silos
    private: dict[str, Any] = {} if math.isinf(epsilon) else {"clip_norm": 1.0}
    model = DPFedAvgClassifier(
        epsilon=epsilon, delta=1e-5, local_epochs=epochs, n_rounds=20 // epochs, momentum=0.5,
        sampling_rate=min(1.0, 256 / size), scaling=None, average=False, random_state=seed,
        **private, **chosen,
    )  # fmt: skip
    model.fit(data.X, data.y, silos=data.silos)
    return model.score(data.X_test, data.y_test)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = []
    for name in ("MNIST",) if quick else FETCH:
        published = PUBLISHED[name]
        for epsilon in (published,) if quick else (published, 1.2, 1.0, np.inf):
            for epochs in (1, 20) if quick else SPLITS[name]:
                fit = partial(accuracy, name, epsilon, epochs, 10, quick)
                found.append(Cell("linear on pixels", epsilon, fit, (STEP,), name, float(epochs)))
        for epochs, printed in SPLITS[name].items():
            for epsilon, value in zip((published, 1.2), printed, strict=True):
                at = {"setting": name, "x": float(epochs)}
                found.append(known("SN+Linear, printed", epsilon, value / 100, **at))
    return found


FIGURE = Figure(
    "Local epochs by rounds, 20 epochs in all", "accuracy", cells, xlabel="local epochs a round",
    lines=("method", "epsilon"),
)  # fmt: skip
