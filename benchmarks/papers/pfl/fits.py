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

from _common.cells import Fit
from _common.claims import CLAIM

from pfl.models import KEPT, NETWORKS, SN_CNN, SN_LINEAR, model_of, problem
from skdpfl import Checkpoint, DPFedAvgClassifier
from skdpfl.exceptions import PrivacyLeakWarning

DELTA, BATCH, EPOCHS, STEP = 1e-5, 64, 20, 0.3
#: the paper's relation, and the one that this library promises by default
RELATIONS = {"add/remove": "add_remove", "replace": "replace"}


def accuracy(
    name: str, method: str, epsilon: float, epochs: int, n_silos: int, relation: str,
    overlap: bool, quick: bool, seed: int,
) -> Fit:  # fmt: skip
    """Return the test accuracy of one fit; of overlapping silos also the price for one person.

    A person whose image is in m silos is in the releases of m silos, each with noise of its own:
    they compose, as m fits would. That is less than `group(m)`, the price of m records in the same
    releases (m = 10: epsilon 10.5 instead of 80; m = 20: 16 instead of infinity).
    """
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
    with warnings.catch_warnings():  # that it is one seed: silos draw noise of their own
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        person = sum([model.privacy_spent_] * copies).epsilon
    return Fit(value, ((CLAIM, float(n_silos), person),))


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
