"""MNIST, odd or even (figures 4 and 7): 25 silos of an even and an odd digit, 25 or 12 a round.

Each image is in one silo (the paper draws with replacement, so that one can be in five), 1238 a
silo. Features: 50 principal components of 5,000 of the test images, which stand for public ones
(the paper takes all training images, unpaid), in units of the first one's deviation; the other
5,000 are scored. "optimum" is scikit-learn's logistic regression on the same features.
"""

from __future__ import annotations

import functools
from functools import partial

import numpy as np
from _common.cells import Cell, Figure, known
from _common.claims import claim
from _common.problem import Problem
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from isrl.methods import HETEROGENEITY, apart, cell, compared, fitted, one_record, sound
from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_mnist, split_into_silos
from skdpfl.inspection import Heterogeneity, heterogeneity

EPSILONS = (0.75, 1.0, 3.0, 18.0, 1.5, 6.0, 12.0)
#: images of each digit in each of its five silos
PER_DIGIT = 619
#: records of a silo, rounds and batch of the paper
SIZE = 2 * PER_DIGIT, 35, 443


@functools.lru_cache(maxsize=1)
def features() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features and labels of training and of scored images."""
    train, test = (fetch_mnist(subset=s, n_silos=1) for s in ("train", "test"))
    public = PCA(50, random_state=0).fit(test.data[:5000].astype(np.float64))
    unit = np.sqrt(public.explained_variance_[0])

    def projected(images: np.ndarray) -> np.ndarray:
        return public.transform(images.astype(np.float64)) / unit

    return projected(train.data), train.target, projected(test.data[5000:]), test.target[5000:]


@functools.lru_cache(maxsize=16)
def problem(seed: int) -> Problem:
    """Return the silos of digit pairs."""
    X, digits, X_test, digits_test = features()
    silos = split_into_silos(
        digits, 25, "pairs", records_per_silo=2 * PER_DIGIT, random_state=seed
    )  # fmt: skip
    used = silos >= 0
    return Problem(X[used], digits[used] % 2, silos[used], X_test, digits_test % 2)


def error(method: str, epsilon: float, sampled: int, seed: int, **chosen: float) -> float:
    """Return the share of wrong predictions of one fit."""
    data = problem(seed)
    model = fitted(
        ISRLDPClassifier, method, epsilon, data, scaling=None, delta=1 / (2 * PER_DIGIT) ** 2,
        silo_fraction=sampled / 25, random_state=seed, **chosen,
    )  # fmt: skip
    return 1 - model.score(data.X_test, data.y_test)


def optimum() -> float:
    """Return the error of the same linear model without privacy."""
    data = problem(0)
    found = LogisticRegression(C=100, max_iter=1000).fit(data.X, data.y)
    return 1 - found.score(data.X_test, data.y_test)


def spread() -> Heterogeneity:
    """Return the silos' heterogeneity at the optimum of a penalty of 1e-4."""
    data = problem(0)
    return heterogeneity(data.X, data.y, silos=data.silos, loss="log_loss", alpha=1e-4)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = [known("optimum", np.inf, optimum, setting="25 of 25 silos a round")]
    if not quick:
        found.append(apart(spread, "25 of 25 silos a round"))
    for sampled in (25,) if quick else (25, 12):
        setting = f"{sampled} of 25 silos a round"
        found.append(claim(0.75, partial(sound, 0.75, *SIZE), setting))
        for epsilon in (0.75,) if quick else (*EPSILONS, np.inf):
            everything = epsilon == 0.75 or (sampled == 25 and epsilon in (1.0, np.inf))
            methods = compared(epsilon, everything, everyone=sampled == 25)
            for method in ("untuned", "accelerated") if quick else methods:
                fit = partial(error, method, epsilon, sampled)
                found.append(cell(method, epsilon, fit, setting))
            if (sampled == 25 or epsilon < np.inf) and not quick:
                found.append(one_record(error, epsilon, sampled, setting, SIZE))
    return found


FIGURE = Figure(
    "MNIST, odd or even", "error", cells, higher_is_better=False, seeds=tuple(range(20)),
    tuning=(101, 102, 103, 104),
    leave_out=(HETEROGENEITY,), least=3,
)  # fmt: skip
