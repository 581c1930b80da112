"""One record, however extreme, moves a model no more than the clipping allows.

With the same seed two fits differ by the record alone. In one round the model moves by at most

    learning_rate * 2 clip_norm * w_i / (q n_i)

in the units it is trained in, and in T steps of a convex loss by at most T times that: a step below
2 / smoothness on the other records' clipped gradients brings no two models further apart.

Scales that are found privately move with the record too; they are a release of their own (see
tests/preprocessing), so both fits here train on the same ones.
"""

from contextlib import contextmanager

import numpy as np
import pytest

from skdpfl.estimators import _training
from tests.estimators.fits import ALL, CLASSIFIERS, data, make


@contextmanager
def same_scales():
    """All fits inside train on the scales that the first one found."""
    find, found = _training.find_scales, []

    def once(*given):
        if not found:
            found.append(find(*given))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_training, "find_scales", once)
        yield


EXTREMES = {
    "1e9": 1e9,
    "1e300": 1e300,
    "mixed": np.array([1e300, -1e9, 1e-300]),
    "tiny": 5e-324,
}
SCALINGS = {
    "none": {"scaling": None},
    "squashed": {"scaling": "auto"},
    "bounded": {"feature_bounds": (-4, 6), "target_bounds": (-1, 1)},
}
NOISE = {"epsilon": None, "noise_multiplier": 1.0}
CLIP, RATE = 0.6, 0.3
N = 240


def trained(fitted):
    """Parameters in the units that the model was trained in."""
    coef, intercept = np.atleast_2d(fitted.coef_).astype(float), np.atleast_1d(fitted.intercept_)
    scaling = fitted.scaling_
    if scaling.affine and hasattr(scaling, "center"):
        intercept = intercept + coef @ scaling.center
        coef = coef * scaling.scale
    return np.append(coef.ravel(), intercept)


def moved(name, value, *, n_classes=2, dtype=np.float64, **kw):
    """How far the model moves when record 7 becomes extreme, and its target too."""
    X, y, silos = data(name, N, n_classes=n_classes, dtype=dtype)
    options = {"clip_norm": CLIP, "learning_rate": RATE, "average": False, "random_state": 3}
    estimator = make(name, **({"n_rounds": 1, "sampling_rate": 1.0} | options | kw))
    X2, y2 = X.copy(), y.copy()
    X2[7] = np.clip(value, np.finfo(dtype).min, np.finfo(dtype).max)
    if name in CLASSIFIERS:
        y2[7] = (y[7] + 1) % n_classes
    else:
        y2[7] = np.clip(np.max(value), np.finfo(dtype).min, np.finfo(dtype).max)
    with same_scales():
        before = trained(estimator.fit(X, y, silos=silos))
        after = trained(estimator.fit(X2, y2, silos=silos))
    return np.linalg.norm(after - before)


#: size weights: w_i / n_i = 1 / n
BOUND = RATE * 2 * CLIP / N

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # what scaling without bounds needs


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", ALL)
def test_one_round(name, scaling, value):
    distance = moved(name, EXTREMES[value], **SCALINGS[scaling], **NOISE)
    assert distance <= BOUND * (1 + 1e-9)


@pytest.mark.parametrize("weights", ["uniform", {0: 5.0, 1: 1.0, 2: 1.0, 3: 0.2}])
def test_by_the_silos_weight(weights):
    _, _, silos = data("ISRLDPClassifier", N)
    sizes = np.bincount(silos)
    w = np.ones(4) if weights == "uniform" else np.array([5.0, 1.0, 1.0, 0.2])
    bound = RATE * 2 * CLIP * (w / w.sum() / sizes)[silos[7]]
    for trust in ("silo", "server"):
        distance = moved("ISRLDPClassifier", 1e9, silo_weights=weights, trust=trust, scaling=None)
        assert 0.5 * bound < distance <= bound * (1 + 1e-9)
