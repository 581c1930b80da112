"""What a fit costs beside another one that users would expect to cost as much.

Processor time, each the least of several fits, in turns, so that both meet the same neighbours.
Records have 20 features unless the name says otherwise; uneven sizes are drawn from half to one and
a half times the mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import skdpfl
from benchmarks.speed_parts.growth import COMMON
from benchmarks.tables import markdown

Fit = Callable[[], object]


def _records(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 20))
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(int)


def _ids(n: int, m: int, *, even: bool) -> np.ndarray:
    """Return the silos of n records, in mixed order."""
    rng = np.random.default_rng(1)
    sizes = np.full(m, 1.0) if even else rng.uniform(0.5, 1.5, m)
    ids = np.searchsorted(np.cumsum(sizes) / sizes.sum(), (np.arange(n) + 0.5) / n)
    return rng.permutation(ids)


def _auto(n: int, m: int, *, even: bool, **options: Any) -> Fit:
    """Return a fit in which everything is chosen."""
    X, y = _records(n)
    model = skdpfl.ISRLDPClassifier(2.0, random_state=0, **options)
    return partial(model.fit, X, y, silos=_ids(n, m, even=even))


def _rounds(n: int, m: int, rate: float, *, even: bool = True, n_rounds: int = 100) -> Fit:
    """Return a fit whose scales and noise are given."""
    X, y = _records(n)
    model = skdpfl.ISRLDPClassifier(n_rounds=n_rounds, sampling_rate=rate, **COMMON)
    return partial(model.fit, X, y, silos=_ids(n, m, even=even))


def _whole(n: int, m: int, *, even: bool) -> Fit:
    """Return a hundred rounds of about a hundred protected silos, with five local steps."""
    X, y = _records(n)
    who = COMMON | {"unit": "silo", "trust": "server", "cohort": "poisson", "local_steps": 5}
    who |= {"n_rounds": 100, "sampling_rate": 1.0, "silo_fraction": min(1, 100 / m)}
    return partial(skdpfl.DPFedAvgClassifier(**who).fit, X, y, silos=_ids(n, m, even=even))


def _layouts(by: int) -> tuple[Fit, Fit]:
    """Return a fit to a frame that stores each column by itself, and one to an array of rows."""
    fit = _whole(1_000_000 // by, 10_000 // by, even=True)
    X, y = fit.args
    return partial(fit.func, pd.DataFrame(dict(enumerate(X.T.copy()))), y, **fit.keywords), fit


def _uneven(fit: Callable[..., Fit], n: int, m: int, *rest: float) -> tuple[Fit, Fit]:
    """Return a fit to uneven silos and one to even ones; the last number is the divisor."""
    *more, by = rest
    return tuple(fit(n // by, max(10, m // by), *more, even=even) for even in (False, True))


def _central(by: int) -> tuple[Fit, Fit]:
    """Return a fit in which everything is chosen, and LogisticRegression's."""
    n = 10_000 // by
    return _auto(n, 10, even=False), partial(LogisticRegression().fit, *_records(n))


def _bounded(n: int, model: str, dtype: type = np.float64, m: int = 1) -> Fit:
    """Return a fit with a trusted server, and with curves if the model is additive."""
    X, y = _records(n)
    bounds = {"feature_bounds": (-4, 4), "trust": "server", "random_state": 0}
    classifier = skdpfl.ISRLDPClassifier(3.0, model=model, **bounds)
    return partial(classifier.fit, X.astype(dtype), y, silos=_ids(n, m, even=True))


def _additive(n: int, dtype: type, m: int, by: int) -> tuple[Fit, Fit]:
    """Return a fit with curves and one without."""
    return _bounded(n // by, "additive", dtype, m), _bounded(n // by, "linear", dtype, m)


def _wide(n: int, d: int) -> tuple[Fit, Fit]:
    """Return a fit that could have curves, but for its columns, and one that could not."""
    X = np.random.default_rng(0).uniform(-1, 1, (n, d))
    given = {"feature_bounds": (-1, 1), "n_rounds": 10, "learning_rate": 0.1, "random_state": 0}
    return tuple(
        partial(skdpfl.ISRLDPClassifier(3.0, model=model, **given).fit, X, X[:, 0] > 0)
        for model in ("additive", "linear")
    )


def _drawn_sizes(by: int) -> tuple[Fit, Fit]:
    """Return fits of silos whose sizes are drawn, from few records to thousands, and of even ones.

    The shares are those of a Dirichlet distribution with all parameters .1.
    """
    n, m, rng = 30_000 // by, 300 // by, np.random.default_rng(1)
    X, y = _records(n)
    drawn = rng.choice(m, n, p=rng.dirichlet(np.full(m, 0.1)))
    model = skdpfl.ISRLDPClassifier(n_rounds=100, sampling_rate=1.0, **COMMON)
    return tuple(partial(model.fit, X, y, silos=ids) for ids in (drawn, _ids(n, m, even=True)))


def _levels(n: int) -> tuple[Fit, Fit]:
    """Return a fit to ten categories of 20 levels and five numbers, and one to columns of 0 and 1.

    The second has one column less a category: that of what is missing, or no level.
    """
    rng, numbers = np.random.default_rng(0), range(10, 15)
    codes, values = rng.integers(0, 20, (n, 10)), rng.random((n, 5))
    frame = pd.DataFrame(codes).astype(str).astype("category")
    frame[list(numbers)] = values
    levels = set(map(str, range(20)))
    known = {j: levels if j < 10 else (0, 1) for j in frame}
    dense = np.column_stack([(codes[:, :, None] == range(20)).reshape(n, -1), values])
    y, ids = codes[:, 0] + 20 * values[:, 0] > 19, _ids(n, 10, even=True)
    given = {"model": "linear", "trust": "server", "random_state": 0}
    return tuple(
        partial(skdpfl.ISRLDPClassifier(3.0, feature_bounds=b, **given).fit, X, y, silos=ids)
        for X, b in ((frame, known), (dense, (0, 1)))
    )


def _predictions(dtype: type, by: int, what: str = "predict") -> tuple[Fit, Fit]:
    """Return predictions of clipped records, and LogisticRegression's."""
    n = 1_000_000 // by
    X, y = _records(max(n, 20_000))
    X, ours = X.astype(dtype), _bounded(20_000, "linear", dtype)()
    theirs = LogisticRegression().fit(X[:20_000], y[:20_000])
    return tuple(partial(getattr(model, what), X[:n]) for model in (ours, theirs))


def _one_row(what: str, by: int) -> tuple[Fit, Fit]:
    """Return a thousand predictions of one record, and LogisticRegression's."""
    each = _predictions(np.float64, 1_000_000, what)
    return tuple(lambda one=one: [one() for _ in range(1000 // by)] for one in each)


def _groups(by: int) -> tuple[Fit, Fit]:
    """Return the price of two records under a sampled plan, and that plan, each time another."""
    epsilons = (2 + k / 1000 for k in range(10_000))

    def plan() -> Any:
        model = skdpfl.ISRLDPClassifier(next(epsilons), sampling_rate=0.1, scaling=None)
        return model.plan_for(silo_sizes=[2000 // by] * 10, n_features=20)

    return lambda: plan().spent().group(2), lambda: plan().spent()


def _grid(by: int) -> tuple[Fit, Fit]:
    """Return a search over penalties with silos by metadata routing, and a central one."""
    n, penalties, folds = (2000, 20, 5) if by == 1 else (500, 2, 2)
    (X, y), silos = _records(n), _ids(n, 10, even=True)

    def ours() -> object:
        with sklearn.config_context(enable_metadata_routing=True):
            model = skdpfl.ISRLDPClassifier(3.0, feature_bounds=(-4, 4), random_state=0)
            model.set_fit_request(silos=True)
            search = GridSearchCV(model, {"alpha": np.logspace(-4, 0, penalties)}, cv=folds)
            return search.fit(X, y, silos=silos)

    return ours, partial(
        GridSearchCV(LogisticRegression(), {"C": np.logspace(-2, 2, penalties)}, cv=folds).fit, X, y
    )


#: name -> two fits, numbers of records and silos divided by ``by``
PAIRS: dict[str, Callable[[int], tuple[Fit, Fit]]] = {
    "uneven / even, 10 silos of 1,000": partial(_uneven, _auto, 10_000, 10),
    "uneven / even, 200 silos of 50, all records": partial(_uneven, _rounds, 10_000, 200, 1.0),
    "uneven / even, 200 silos of 50, a fifth of the records": partial(
        _uneven, _rounds, 10_000, 200, 0.2
    ),
    "uneven / even, 10,000 whole silos of 20": partial(_uneven, _whole, 200_000, 10_000),
    "a frame of columns / an array, 10,000 whole silos of 100": _layouts,
    "default / calibrate=False, 10,000 silos of 20": lambda by: (
        _auto(200_000 // by, 10_000 // by, even=True, n_rounds=20),
        _auto(200_000 // by, 10_000 // by, even=True, n_rounds=20, calibrate=False),
    ),
    "default, uneven / LogisticRegression, 10 silos of 1,000": _central,
    "20 penalties x 5 folds, silos routed / LogisticRegression, 2,000": _grid,
    **{
        f"additive / linear, {n:,} of {dtype.__name__}, {m} silo{'s' * (m > 1)}": partial(
            _additive, n, dtype, m
        )
        for n, dtype in ((30_000, np.float64), (1_000_000, np.float32), (2_000_000, np.float64))
        for m in (1, 10)
    },
    "additive / linear, 2,000 x 5,000": lambda by: _wide(2000 // by, 5000 // by),
    "10 categories of 20 levels / columns of 0 and 1, 100,000": lambda by: _levels(100_000 // by),
    "sizes by Dirichlet(.1) / even, 300 silos, 30,000": _drawn_sizes,
    "100,000 silos of 10 / 1,000 silos of 1,000": lambda by: tuple(
        _rounds(1_000_000 // by, m // by, 1.0, n_rounds=10) for m in (100_000, 1000)
    ),
    "a plan and its group(2) / the plan, 10 silos of 2,000, a tenth of the records": _groups,
    **{
        f"1,000 calls of {what} for one record / LogisticRegression": partial(_one_row, what)
        for what in ("predict", "decision_function", "predict_proba")
    },
    "predictions / LogisticRegression, 1,000,000 of float32": partial(_predictions, np.float32),
    "predictions / LogisticRegression, 1,000,000 of float64": partial(_predictions, np.float64),
}
#: no pair is repeated after so many seconds
_LONG = 15.0


def measure_ratios(quick: bool) -> str:
    """Return a table of all pairs."""
    by, repeats = (20, 1) if quick else (1, 7)
    lines = []
    for name, pair in PAIRS.items():
        fits, taken = pair(by), ([], [])
        for number in range(repeats + 1):  # the first ones warm up
            if sum(map(sum, taken)) > _LONG:
                break
            for fit, times in zip(fits, taken, strict=True):
                start = time.process_time()
                fit()
                times += [time.process_time() - start] if number else []
        first, second = map(min, taken)
        lines.append([name, f"{first / second:.2f}", f"{first:.3f} / {second:.3f}"])
    return markdown(["fits", "ratio", "seconds"], lines)
