"""What a fit costs by the layout of its data, as a share of a C-ordered array of the same dtype.

500,000 records of 20 features, whole silos (10,000 of them, mixed) or records (20 silos) protected,
100 or 20 rounds. Ids of silos are integers unless the name says otherwise. Times are of the
processor, each the least of nine fits, in turns; in brackets, the program's own, without the
system's, which clears fresh memory (slowly, on a busy machine, or where a host has to find it).
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import skdpfl
from benchmarks.speed_parts.growth import COMMON

#: name -> (dtype of the array it is compared with, records in another layout)
LAYOUTS: dict[str, tuple[type, Callable[[np.ndarray], Any]]] = {
    "C array": (np.float32, np.asarray),
    "Fortran array": (np.float32, np.asfortranarray),
    "columns of a wider table": (np.float32, lambda X: np.hstack([X[:, :1], X])[:, 1:]),
    "rows backwards": (np.float32, lambda X: X[::-1].copy()[::-1]),
    "data frame": (np.float32, pd.DataFrame),
    "data frame, two dtypes": (np.float64, lambda X: pd.DataFrame(X).astype({0: np.float32})),
    "C array, float64": (np.float64, np.asarray),
    "Fortran array, float64": (np.float64, np.asfortranarray),
    "data frame, float64": (np.float64, pd.DataFrame),
    "integers": (np.float64, lambda X: np.rint(8 * X).astype(np.int64)),
    "polars": (np.float64, lambda X: _polars(X)),
    "Arrow": (np.float32, lambda X: _arrow(X)),
}
IDS: dict[str, Callable[[np.ndarray], Any]] = {
    "ids as text": lambda silos: silos.astype(str),
    "ids as text in a frame": lambda silos: pd.Series(silos.astype(str)),
    "ids as categories": lambda silos: pd.Categorical(silos.astype(str)),
}


def _polars(X: np.ndarray) -> Any:
    import polars

    return polars.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])


def _arrow(X: np.ndarray) -> Any:
    import pyarrow

    return pyarrow.table({f"x{j}": X[:, j].copy() for j in range(X.shape[1])})


def whole_silos(n_silos: int, X: Any, y: np.ndarray, silos: Any) -> None:
    """Fit a hundred rounds of a hundred silos."""
    who = {"unit": "silo", "trust": "server", "cohort": "poisson"}
    share = min(1.0, 100 / n_silos)
    skdpfl.DPFedAvgClassifier(
        n_rounds=100, local_steps=1, sampling_rate=1.0, silo_fraction=share, **who, **COMMON
    ).fit(X, y, silos=silos)


def records(X: Any, y: np.ndarray, silos: Any) -> None:
    """Fit twenty rounds of a tenth of all records."""
    skdpfl.ISRLDPClassifier(n_rounds=20, sampling_rate=0.1, **COMMON).fit(X, y, silos=silos)


def measure_layouts(quick: bool) -> str:
    """Return a table: processor time by layout, over that of a C-ordered array."""
    n, m = (5_000, 100) if quick else (500_000, 10_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 20))
    y = (X[:, 0] > 0).astype(np.int8)
    fits = {"whole silos": (partial(whole_silos, m), m), "records": (records, 20)}
    columns = []
    for fit, n_silos in fits.values():
        silos = rng.permutation(n) % n_silos
        columns.append(dict(_ratios(fit, X, y, silos, 1 if quick else 9)))
    lines = ["| data | " + " | ".join(fits) + " |", "|---" * 3 + "|"]
    lines += [f"| {name} | " + " | ".join(c[name] for c in columns) + " |" for name in columns[0]]
    return "\n".join(lines)


def _ratios(
    fit: Callable[..., None], X: np.ndarray, y: np.ndarray, silos: np.ndarray, repeats: int
) -> Iterator[tuple[str, str]]:
    """Time all layouts in turns, so that all of them meet the same neighbours."""
    base = {dtype: X.astype(dtype) for dtype in (np.float32, np.float64)}
    contenders: dict[str, tuple[type, Any, Any]] = {}
    for name, (dtype, layout) in LAYOUTS.items():
        try:
            contenders[name] = dtype, layout(base[dtype]), silos
        except ImportError:
            yield name, "not installed"
    for name, ids in IDS.items():
        contenders[name] = np.float32, base[np.float32], ids(silos)
    plain = {dtype: (dtype, table, silos) for dtype, table in base.items()}
    taken = {key: [] for key in [*plain, *contenders]}
    for _ in range(repeats):
        for key, (_, table, ids) in (plain | contenders).items():
            taken[key].append(_seconds(fit, table, y, ids))
    for name, (dtype, *_) in contenders.items():
        (own, least), (mine, all_mine) = (np.min(taken[key], axis=0) for key in (dtype, name))
        yield name, f"{all_mine / least:.2f} ({mine / own:.2f}) of {least:.2f} s"


def _seconds(fit: Callable[..., None], X: Any, y: np.ndarray, silos: Any) -> tuple[float, float]:
    """Return the processor time of a fit: the program's own, and all of it."""
    start = resource.getrusage(resource.RUSAGE_SELF)
    fit(X, y, silos)
    end = resource.getrusage(resource.RUSAGE_SELF)
    own = end.ru_utime - start.ru_utime
    return own, own + end.ru_stime - start.ru_stime
