"""One fit of the study, and what its rows are about.

T = E R = 20 epochs in all, all silos in every round, clip norm 1, momentum 0.5, delta 1e-5,
batches of 64 on average (the default of the authors' code; the paper names none), Poisson. The
noise is calibrated for 20 epochs, so each split of them costs the same. The step is the paper's,
0.3, in all rows: nothing is tuned.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from _common.cells import Fit
from _common.claims import CLAIM

from pfl.models import KEPT, NETWORKS, SN_CNN, SN_LINEAR, model_of, most_copies, problem, tenths
from skdpfl import Checkpoint, DPFedAvgClassifier
from skdpfl.exceptions import PrivacyLeakWarning

DELTA, BATCH, EPOCHS, STEP = 1e-5, 64, 20, 0.3
#: the paper's relation, and the one that this library promises by default
RELATIONS = {"add/remove": "add_remove", "replace": "replace"}


def accuracy(
    name: str, method: str, epsilon: float, epochs: int, n_silos: int, relation: str,
    overlap: bool, quick: bool, seed: int,
) -> Fit:  # fmt: skip
    """Return the test accuracy of one fit; of overlapping silos also the price for one person."""
    scattered = method in (SN_LINEAR, SN_CNN)
    data, copies = problem(name, scattered, n_silos, overlap, seed, quick)
    rate = min(1.0, BATCH * n_silos / len(data.y))
    private: dict[str, Any] = {} if math.isinf(epsilon) else {"clip_norm": 1.0}
    model = DPFedAvgClassifier(
        epsilon=epsilon, delta=DELTA, local_epochs=epochs, n_rounds=EPOCHS // epochs,
        learning_rate=STEP, momentum=0.5, sampling_rate=rate, scaling=None, average=False,
        random_state=seed, neighbours=RELATIONS[relation], model=model_of(name, method), **private,
    )  # fmt: skip
    if method in NETWORKS and not quick:
        with resumed(name, method, epsilon, epochs, n_silos, relation, overlap, seed):
            model.fit(data.X, data.y, silos=data.silos)
    else:
        model.fit(data.X, data.y, silos=data.silos)
    value = model.score(data.X_test, data.y_test)
    if copies == 1 or math.isinf(epsilon):
        return Fit(value)
    return Fit(value, ((CLAIM, float(n_silos), composed(model.privacy_spent_, copies)),))


def composed(spent: Any, copies: int) -> float:
    """Return epsilon of a person who is in the releases of so many silos.

    Each has noise of its own, so they compose, as that many fits would. That is less than
    ``spent.group(copies)``, the price of as many records in the same releases.
    """
    with warnings.catch_warnings():  # that it is one seed: silos draw noise of their own
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return float(sum([spent] * copies).epsilon)


def of_a_person(epsilon: float, n_silos: int, by_group: bool, seed: int) -> float:
    """Return epsilon of a person in overlapping silos, at ``epsilon`` for each copy.

    The noise of a silo is that of the study: a silo of as many records with one feature has it.
    """
    copies = most_copies(tenths(60_000, n_silos, np.random.default_rng(seed)))
    model = DPFedAvgClassifier(
        epsilon, delta=DELTA, local_epochs=1, n_rounds=EPOCHS, sampling_rate=BATCH / 6000,
        clip_norm=1.0, scaling=None, random_state=seed, neighbours=RELATIONS["add/remove"],
    )  # fmt: skip
    model.fit(np.zeros((6000, 1)), np.arange(6000) % 2, silos=np.zeros(6000))
    if not by_group:
        return composed(model.privacy_spent_, copies)
    with warnings.catch_warnings():  # that it is infinite
        warnings.simplefilter("ignore")
        return float(model.privacy_spent_.group(copies).epsilon)


@contextmanager
def resumed(*fit: object) -> Iterator[None]:
    """Let a long fit that was killed go on; its file is deleted at the end.

    The time in the table is that of the last process.
    """
    KEPT.mkdir(exist_ok=True)
    path = KEPT / re.sub(r"\W+", "-", " ".join(map(str, fit)))
    with Checkpoint(path):
        yield
    path.unlink()
