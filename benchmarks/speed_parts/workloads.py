"""The three workloads: data, constants, and our whole public calls.

W1 femnist-logreg   40 silos x 2,000 records, 784 features of unit norm, 47 classes, sorted;
                    a round is 8 silos x 50 local steps of 400 records, clipped per record, noised
W2 insurance-ridge  5 silos of the medical cost data, sorted by charges, 8 features, 35 rounds
W3 many-silos       10,000 silos x 20 records x 20 features in mixed order, 100 rounds of about 100
                    silos, 5 full-batch local steps, silo updates clipped, the server adds noise
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import skdpfl
from skdpfl.datasets import fetch_emnist, fetch_insurance

SEED = 20261120


class Data(NamedTuple):
    """Records of all silos, their targets and silo ids."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    source: str


class Sizes(NamedTuple):
    """How large W1 and W3 are: silos, records of each, and W1's local steps."""

    w1_silos: int = 40
    w1_records: int = 2000
    w1_steps: int = 50
    w3_silos: int = 10_000
    w3_rounds: int = 100


QUICK = Sizes(w1_silos=10, w1_records=400, w1_steps=4, w3_silos=500, w3_rounds=10)


def femnist(sizes: Sizes) -> Data:
    """Return W1's data: EMNIST if its files are at hand, else noise of the same shape."""
    n = sizes.w1_silos * sizes.w1_records
    rng = np.random.default_rng(SEED)
    try:
        images, labels = fetch_emnist(return_X_y=True, download_if_missing=False)
        source = "EMNIST"
    except OSError:
        labels = rng.integers(0, 47, n)
        images = rng.integers(0, 256, (n, 784), dtype=np.uint8) * (rng.random((n, 784)) < 0.2)
        source = "made up, in EMNIST's shape"
    chosen = rng.permutation(len(labels))[:n]
    chosen = chosen[np.argsort(labels[chosen], kind="stable")]
    X, y = images[chosen].astype(np.float32), labels[chosen]
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-6)
    y[:47] = np.arange(47)  # every class occurs, however few records there are
    return Data(X, y, np.repeat(np.arange(sizes.w1_silos), sizes.w1_records), source)


def insurance() -> Data:
    """Return W2's data: four fifths of each silo, standardised beforehand."""
    rng = np.random.default_rng(SEED)
    try:
        bunch = fetch_insurance(download_if_missing=False)
        X, y, silos, source = bunch.data, bunch.target, bunch.silos, "insurance"
    except OSError:
        X, y = rng.normal(size=(1338, 8)), rng.normal(size=1338)
        silos, source = np.repeat(np.arange(5), 268)[:1338], "made up, in its shape"
    order = rng.permutation(len(y))
    kept = np.sort(np.concatenate([order[silos[order] == i][:214] for i in range(5)]))
    X, y = (v[kept].astype(float) for v in (X, y))
    return Data((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), silos[kept], source)


def many_silos(sizes: Sizes) -> Data:
    """Return W3's data; every silo has a model of its own near a common one."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((sizes.w3_silos, 20, 20), dtype=np.float32)
    X[:, :, 0] = 1
    models = (2 * rng.normal(size=20) + 0.5 * rng.normal(size=(sizes.w3_silos, 20))) / np.sqrt(20)
    margins = np.matmul(X, models[:, :, None])[..., 0]
    y = (margins + rng.logistic(size=margins.shape) > 0).astype(np.float32)
    X /= 2 * np.linalg.norm(X, axis=2, keepdims=True) / np.sqrt(20)
    order = rng.permutation(y.size)
    silos = np.repeat(np.arange(sizes.w3_silos), 20)
    return Data(X.reshape(-1, 20)[order], y.ravel()[order], silos[order], "made up")


def fit_w1(data: Data, sizes: Sizes, n_rounds: int, n_jobs: int = 1, **kw) -> object:
    """Fit W1 for some rounds."""
    options = {"sampling": "without_replacement", "random_state": 0} | kw
    callbacks = options.pop("callbacks", None)
    model = skdpfl.DPScaffoldClassifier(
        epsilon=None,
        noise_multiplier=5.0,
        n_rounds=n_rounds,
        local_steps=sizes.w1_steps,
        clip_norm=1.0,
        learning_rate=0.5,
        sampling_rate=0.2,
        silo_fraction=0.2,
        scaling=None,
        n_jobs=n_jobs,
        **options,
    )
    if callbacks is not None:
        model.set_callbacks(callbacks)
    return model.fit(data.X, data.y, silos=data.silos)


def fit_w2(data: Data, **kw) -> object:
    """Fit W2."""
    options = {"n_rounds": 35, "scaling": None, "random_state": 0} | kw
    return skdpfl.ISRLDPRegressor(
        epsilon=2.0,
        clip_norm=1.0,
        learning_rate=0.2,
        sampling_rate=36 / 214,
        alpha=1e-3,
        **options,
    ).fit(data.X, data.y, silos=data.silos)


def fit_w3(data: Data, sizes: Sizes, **kw) -> object:
    """Fit W3."""
    options = {"random_state": 0} | kw
    return skdpfl.DPFedAvgClassifier(
        unit="silo",
        trust="server",
        cohort="poisson",
        silo_fraction=min(1.0, 100 / sizes.w3_silos),
        n_rounds=sizes.w3_rounds,
        local_steps=5,
        clip_norm=0.5,
        epsilon=None,
        noise_multiplier=1.0,
        learning_rate=0.5,
        sampling_rate=1.0,
        fit_intercept=False,
        scaling=None,
        **options,
    ).fit(data.X, data.y, silos=data.silos)
