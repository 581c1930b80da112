"""The papers' silos of classes: one class each and a share of all, or a pair of classes.

Formulas (k classes, N silos of up to r records, share s of all classes):
    one class    silo i: up to (1 - s) r records of class i mod k, then s r times a record of a
                 uniform class among those with records left
    pairs        silo i k' + j: its part of the class at place 2 i and of the one at place 2 j + 1,
                 each class cut in equal parts, k' = k / 2
A record is in one silo at most; -1: in none.
"""

import numpy as np


def one_class(y: np.ndarray, n_silos: int, n_records: int, share: float, rng) -> np.ndarray:
    """Return the silos; one ends early where its class does."""
    silos = np.full(len(y), -1)
    pools = [rng.permutation(np.flatnonzero(y == c)).tolist() for c in np.unique(y)]
    own = round((1 - share) * n_records)
    for silo in range(n_silos):
        pool = pools[silo % len(pools)]
        silos[pool[:own]] = silo
        del pool[:own]
    for _ in range(n_records - own):
        for silo in range(n_silos):
            left = [pool for pool in pools if pool]
            if left:
                silos[left[rng.integers(len(left))].pop()] = silo
    empty = np.setdiff1d(np.arange(n_silos), silos)
    if len(empty):
        raise ValueError(
            f"how='one_class': no records are left for silo {empty[0]} of {n_silos}; "
            f"records_per_silo={n_records} is too much for the {len(pools)} classes"
        )
    return silos


def pairs(y: np.ndarray, n_silos: int, n_records: int | None, rng) -> np.ndarray:
    """Return the silos; ``n_records`` of each, half of one class and half of the other."""
    classes = np.unique(y)
    half = len(classes) // 2
    if n_silos != half**2 or len(classes) % 2:
        raise ValueError(
            f"how='pairs' makes (k / 2)^2 silos of an even number k of classes; got "
            f"n_silos={n_silos} for {len(classes)} classes"
        )
    silos = np.full(len(y), -1)
    for at, c in enumerate(classes):
        parts = np.array_split(rng.permutation(np.flatnonzero(y == c)), half)
        for other, part in enumerate(parts):
            first, second = (at // 2, other) if at % 2 == 0 else (other, at // 2)
            taken = part if n_records is None else part[: (n_records + 1 - at % 2) // 2]
            silos[taken] = half * first + second
    return silos
