"""The races: data, goals and grids. ``race.py`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skdpfl.datasets import fetch_mnist, make_federated_regression

#: FedAvg* is FedAvg with the server's step tuned as well
METHODS = ("FedEXP", "FedAvg", "SCAFFOLD", "FedAvg*")


class Data(NamedTuple):
    """Records in silos and how far a model is from where it should be."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    n_silos: int
    n_outputs: int
    score: Callable[[np.ndarray], float]


def linear_regression(
    n_silos: int, n_features: int, n_records: int = 30, common: bool = True
) -> Data:
    """FedExP's rows and targets; with ``common`` the silos' models differ by a third only.

    The published set-up draws each silo's model by itself. That has a common solution as long as
    there are fewer records than features (20 silos of 30); with a thousand silos there is none.
    """
    if common:
        raw = make_federated_regression(
            n_silos, n_records, n_features=n_features, alpha=0.1, beta=1.0, random_state=0
        )
        X = raw.data / np.linalg.norm(raw.data, axis=1, keepdims=True)
        y = raw.target / np.sqrt(np.bincount(raw.silos, raw.target**2))[raw.silos]
    else:
        raw = make_federated_regression(
            n_silos, n_records, n_features=n_features, design="fedexp", random_state=0
        )
        X, y = raw.data, raw.target
    best = np.linalg.lstsq(X, y, rcond=None)[0] if len(X) < n_features else _least_squares(X, y)
    # with fewer records than features the solutions are an affine space: measure across it only
    across = np.linalg.qr(X.T)[0] if len(X) < n_features else np.eye(n_features)

    def distance(w: np.ndarray) -> float:
        return float(np.linalg.norm((w - best) @ across) / np.linalg.norm(best))

    return Data(X.astype(np.float32), y.astype(np.float32), raw.silos, n_silos, 1, distance)


def _least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.solve(X.T @ X, X.T @ y)


@lru_cache(maxsize=1)
def mnist(split: str) -> Data:
    """Unit rows in 1,000 silos: equal parts ("iid"), or classes and sizes by a Dirichlet law."""
    train = fetch_mnist(subset="train", n_silos=1000, split=split, alpha=0.3, random_state=0)
    test = fetch_mnist(subset="test", random_state=0)
    X, X_test = _unit_rows(train.data), _unit_rows(test.data)
    y, y_test = train.target.astype(int), test.target.astype(int)

    def error(w: np.ndarray) -> float:
        return float(np.mean((X_test @ w.reshape(784, 10)).argmax(axis=1) != y_test))

    return Data(X, y, train.silos, 1000, 10, error)


def _unit_rows(X: np.ndarray) -> np.ndarray:
    X = X.astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@dataclass(frozen=True)
class Setting:
    """One race. ``goal`` is the score to reach, in ``unit`` words; lower is better.

    Every method chooses among the same ``rates`` and ``clips``, FedAvg* among ``servers`` as well.
    """

    title: str
    make: Callable[[], Data]
    epsilon: float
    n_rounds: int
    local_steps: int
    goal: float
    words: str
    rates: tuple[float, ...]
    clips: tuple[float, ...]
    servers: tuple[float, ...] = (3.0, 10.0, 30.0)
    trust: str = "server"
    silo_fraction: float = 1.0
    delta: float = 1e-5
    methods: tuple[str, ...] = METHODS
    figure: str = "race"


def mnist_race(
    title: str, split: str, epsilon: float, goal: float, trust: str = "server", n_rounds: int = 30
) -> Setting:
    """Logistic regression with 7,840 parameters, a fifth of the silos a round."""
    return Setting(
        f"MNIST, 1000 silos, {title}",
        lambda: mnist(split),
        epsilon,
        n_rounds,
        local_steps=5,
        goal=goal,
        words="test error",
        rates=(8.0, 32.0, 128.0),
        clips=(3.0, 10.0, 30.0),
        servers=(2.0, 4.0, 8.0),
        trust=trust,
        silo_fraction=0.2,
        methods=METHODS if trust == "server" else (*METHODS, "PrivUnit"),
        figure="race_mnist",
    )


SETTINGS = {
    "regression": Setting(
        "linear regression, 1000 silos, d = 1000",
        lambda: linear_regression(1000, 1000),
        epsilon=8.0,
        n_rounds=40,
        local_steps=20,
        goal=0.6,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.2, 0.4, 0.8),
    ),
    "published": Setting(
        "linear regression as published, 20 silos, d = 1000",
        lambda: linear_regression(20, 1000, common=False),
        epsilon=float("inf"),
        n_rounds=200,
        local_steps=20,
        goal=0.5,
        words="distance to the nearest solution",
        rates=(0.1,),
        clips=(1.0,),
    ),
    "local": Setting(
        "nobody trusted, 20000 silos, d = 30, Gaussian noise",
        lambda: linear_regression(20_000, 30, 3),
        epsilon=10.0,
        n_rounds=10,
        local_steps=20,
        goal=0.5,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.3, 0.6),
        trust="silo",
    ),
    "privunit": Setting(
        "nobody trusted, 20000 silos, d = 30, PrivUnit",
        lambda: linear_regression(20_000, 30, 3),
        epsilon=10.0,
        n_rounds=3,
        local_steps=20,
        goal=0.5,
        words="distance to the optimum",
        rates=(2.0,),
        clips=(0.3, 0.6),
        trust="silo",
        methods=("PrivUnit",),
    ),
    "mnist": mnist_race("Dirichlet(0.3), trusted server", "dirichlet", 8.0, 0.12),
    "mnist_2": mnist_race("Dirichlet(0.3), trusted server", "dirichlet", 2.0, 0.15),
    "mnist_local": mnist_race(
        "Dirichlet(0.3), nobody trusted", "dirichlet", 20.0, 0.4, "silo", n_rounds=10
    ),
    "mnist_local_8": mnist_race(
        "Dirichlet(0.3), nobody trusted", "dirichlet", 8.0, 0.6, "silo", n_rounds=10
    ),
    "mnist_iid": mnist_race("silos alike, trusted server", "iid", 8.0, 0.12),
}
