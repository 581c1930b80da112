"""The study's data and models: pixels or scattering features, CNNs or linear models.

Networks of Tramer and Boneh (2021), which the paper takes: on 28 x 28 images two convolutions and
26,010 parameters, on CIFAR-10 six convolutions; activations ReLU or tanh (the tempered sigmoid of
scale 2, inverse temperature 2, offset 1). On scattering features (J=2, L=8, 81 channels for each
colour, normalised record by record in 27 groups) one linear layer or a CNN. Networks need the extra
``skdpfl[torch]``.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common.problem import Problem
from joblib import Memory

from skdpfl.datasets import fetch_cifar10, fetch_fashion_mnist, fetch_mnist
from skdpfl.preprocessing import ScatteringTransformer

CIFAR = "CIFAR-10"
FETCH = {"MNIST": fetch_mnist, "Fashion-MNIST": fetch_fashion_mnist, CIFAR: fetch_cifar10}
#: in the order of the paper's columns; the last two see scattering features
CNN_RELU, CNN_TANH, SN_LINEAR, SN_CNN = METHODS = (
    "CNN, ReLU", "CNN, tempered sigmoid", "scattering, linear", "scattering, CNN",
)  # fmt: skip
#: not in the paper
LINEAR = "pixels, linear"
GROUPS = 27
#: where features, and networks' fits until they end, are kept from one process to the next
KEPT = Path(tempfile.gettempdir()) / "skdpfl-scattering"


def cnn(activation: Any) -> Any:
    """Return the network on pixels."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, stride=2, padding=2), activation(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), activation(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), activation(), nn.Linear(32, 10),
    )  # fmt: skip


def relu_cnn() -> Any:
    """Return it with ReLU."""
    from torch import nn

    return cnn(nn.ReLU)


def tanh_cnn() -> Any:
    """Return it with tanh."""
    from torch import nn

    return cnn(nn.Tanh)


def colour_cnn(activation: Any) -> Any:
    """Return the network on colour pixels: pairs of convolutions, halved after each pair."""
    from torch import nn

    layers: list[Any] = [nn.Unflatten(1, (3, 32, 32))]
    entering = 3
    for width in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(entering, width, 3, padding=1), activation()]
            entering = width
        layers.append(nn.MaxPool2d(2))
    tail = nn.Flatten(), nn.Linear(2048, 128), activation(), nn.Linear(128, 10)
    return nn.Sequential(*layers, *tail)


def relu_colour_cnn() -> Any:
    """Return it with ReLU."""
    from torch import nn

    return colour_cnn(nn.ReLU)


def tanh_colour_cnn() -> Any:
    """Return it with tanh."""
    from torch import nn

    return colour_cnn(nn.Tanh)


def colour_scattering_cnn() -> Any:
    """Return the network on scattering features of colour images."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (243, 8, 8)),
        nn.Conv2d(243, 64, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.Tanh(),
        nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


def scattering_cnn() -> Any:
    """Return the network on scattering features."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (81, 7, 7)),
        nn.Conv2d(81, 16, 3, stride=2, padding=1), nn.Tanh(),
        nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


#: methods -> networks for grey images and for colour
NETWORKS = {
    CNN_RELU: (relu_cnn, relu_colour_cnn),
    CNN_TANH: (tanh_cnn, tanh_colour_cnn),
    SN_CNN: (scattering_cnn, colour_scattering_cnn),
}


def model_of(name: str, method: str) -> Any:
    """Return what goes into the estimator's ``model``."""
    if method in (LINEAR, SN_LINEAR):
        return "linear"
    from skdpfl.torch import TorchModel

    return TorchModel(NETWORKS[method][name == CIFAR])


def has_torch() -> bool:
    """Tell whether networks can be run here."""
    import importlib.util

    return importlib.util.find_spec("torch") is not None


@functools.lru_cache(maxsize=2)
def images(name: str, scattered: bool, quick: bool) -> tuple[np.ndarray, ...]:
    """Return training features and labels, then those of the test."""
    parts: list[np.ndarray] = []
    for subset in ("train", "test"):
        data = FETCH[name](subset=subset, n_silos=1)
        rows = slice(None, None, 100 if quick else 1)
        parts += [features(data.data[rows], scattered, quick), data.target[rows]]
    return tuple(parts)


def features(pixels: np.ndarray, scattered: bool, quick: bool) -> np.ndarray:
    """Return pixels in [0, 1], or normalised scattering features, float32."""
    X = pixels.astype(np.float32) / 255
    if not scattered:
        return X
    shape = (3, 32, 32) if X.shape[1] == 3072 else None
    kept = Memory(None if quick else KEPT, verbose=0).cache(scattered_images)
    return group_normalised(kept(X, shape), GROUPS)


def scattered_images(X: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return the scattering features of images."""
    return ScatteringTransformer(image_shape=shape).fit_transform(X)


def group_normalised(X: np.ndarray, groups: int) -> np.ndarray:
    """Return features with mean 0 and variance 1 in each group of each record, public and free."""
    parts = X.reshape(len(X), groups, -1)
    parts = parts - parts.mean(axis=2, keepdims=True)
    parts /= np.sqrt(np.square(parts).mean(axis=2, keepdims=True) + 1e-5)
    return parts.reshape(X.shape)


def problem(
    name: str, scattered: bool, n_silos: int, overlap: bool, seed: int, quick: bool
) -> tuple[Problem, int]:
    """Return the silos, and in how many of them an image is at most.

    Disjoint: the images in random parts. Overlapping: each silo has a random tenth of all.
    """
    X, y, X_test, y_test = images(name, scattered, quick)
    rng = np.random.default_rng(seed)
    if not overlap:
        return Problem(X, y, rng.permutation(len(y)) % n_silos, X_test, y_test), 1
    rows = tenths(len(y), n_silos, rng)
    silos = np.repeat(np.arange(n_silos), len(y) // 10)
    return Problem(X[rows], y[rows], silos, X_test, y_test), most_copies(rows)


def tenths(n: int, n_silos: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of overlapping silos, one after the other: random tenths of n records."""
    return np.concatenate([rng.choice(n, n // 10, replace=False) for _ in range(n_silos)])


def most_copies(rows: np.ndarray) -> int:
    """Return the largest number of silos that a record is in."""
    return int(np.bincount(rows).max())
