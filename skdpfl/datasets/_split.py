"""Assign the records of one table to silos, from identically distributed to sorted.

Formulas (n records, N silos, n_c records of class c):
    sizes        n // N each, one more for the first n mod N silos
    dirichlet    p_c ~ Dirichlet(alpha, ..., alpha); silo i gets the share p_ci of class c
    similarity   round(s n) records dealt at random, the others sorted by y
    one_class    silo i: up to (1 - s) r records of class i mod k, then s r times a record of a
                 uniform class among those with records left
    pairs        silo i k' + j: its part of the class at place 2 i and of the one at place 2 j + 1,
                 each class cut in equal parts, k' = k / 2
for k classes, up to r records a silo and a share s of all classes. A record is in one silo at most;
-1: in none.
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import type_of_target

from skdpfl import _arguments

HOW = ("iid", "sorted", "dirichlet", "similarity", "one_class", "pairs")


def split_into_silos(
    y: Any,
    n_silos: int,
    how: str = "iid",
    *,
    alpha: float = 0.5,
    similarity: float = 0.0,
    records_per_silo: int | None = None,
    random_state: Any = None,
) -> np.ndarray:
    """Assign every record of a table to a silo.

    Simulates a federation from pooled data. No silo is empty. All methods except ``"iid"`` use `y`,
    so their silo ids, which are public, reveal information about the labels. Use them in
    simulations only.

    Parameters
    ----------
    y : array-like of shape (n_records,)
        The target. Only its length matters for ``how="iid"``.
    n_silos : int
        Number of silos, between 1 and the number of records.
    how : {"iid", "sorted", "dirichlet", "similarity", "one_class", "pairs"}, default="iid"
        - ``"iid"``: shuffled and split in equal parts, so that silos are alike.
        - ``"sorted"``: sorted by `y` and split in equal parts, so that silos differ most. Ties
          stay in their order; nothing is random.
        - ``"dirichlet"``: each class is divided by proportions drawn from a symmetric Dirichlet
          distribution [1]_; sizes differ too. For classes only.
        - ``"similarity"``: a share `similarity` of the records is assigned at random, the others
          are sorted by `y` [2]_.
        - ``"one_class"``: silo i holds class i modulo their number, except for a share
          `similarity` of uniform classes [3]_. Needs `records_per_silo`; a silo is smaller if its
          class has fewer.
        - ``"pairs"``: a silo for each pair of a class at an even and one at an odd place, 25 of ten
          digits [4]_.
    alpha : float, default=0.5
        Concentration for ``"dirichlet"``: near 0 each class is in one silo; large values make silos
        alike.
    similarity : float, default=0.0
        For ``"similarity"``: 0 is ``"sorted"``, 1 is ``"iid"``. For ``"one_class"``: the share of
        records of all classes.
    records_per_silo : int, default=None
        The largest number of records of a silo; the others get the silo -1. By default all records
        are assigned.
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same silos every time.

    Returns
    -------
    silos : ndarray of shape (n_records,), dtype int64
        Silo ids from 0 to ``n_silos - 1``; -1 for records that `records_per_silo` leaves out.

    See Also
    --------
    make_federated_classification : Synthetic data in silos.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
       Visual Classification", 2019.
    .. [2] Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
       ICML 2020.
    .. [3] Noble, Bellet, Dieuleveut, "Differentially Private Federated Learning on Heterogeneous
       Data", AISTATS 2022.
    .. [4] Lowy, Razaviyayn, "Private Federated Learning Without a Trusted Server", ICLR 2023.

    Examples
    --------
    >>> from skdpfl.datasets import split_into_silos
    >>> y = [0, 1, 0, 1, 0, 1]
    >>> split_into_silos(y, 2, how="sorted")
    array([0, 1, 0, 1, 0, 1])
    >>> split_into_silos(y, 3, how="iid", random_state=0)
    array([2, 2, 0, 0, 1, 1])
    """
    target = _target(y)
    n_silos = _arguments.check_count("n_silos", n_silos)
    if n_silos > len(target):
        raise ValueError(
            f"n_silos={n_silos} is more than the {len(target)} records, but no silo may be empty"
        )
    how = _arguments.check_choice("how", how, HOW)
    rng, most = _arguments.as_generator(random_state), records_per_silo
    if most is not None:
        _arguments.check_count("records_per_silo", most)
    share = _arguments.check_number("similarity", similarity, low=0, high=1)
    if how == "one_class":
        if most is None:
            raise ValueError("how='one_class' needs records_per_silo, got None")
        return _one_class(target, n_silos, most, share, rng)
    if how == "pairs":
        return _pairs(target, n_silos, most, rng)
    if most is not None:
        return _some(target, n_silos, how, most, alpha=alpha, similarity=similarity, rng=rng)
    if how == "dirichlet":
        return _dirichlet(target, n_silos, alpha, rng)
    return _similarity(target, n_silos, {"iid": 1.0, "sorted": 0.0}.get(how, share), rng)


def _some(
    y: np.ndarray, n_silos: int, how: str, most: int, *, rng: np.random.Generator, **options: Any
) -> np.ndarray:
    """Deal ``n_silos * most`` records, drawn at random."""
    if n_silos * most > len(y):
        raise ValueError(
            f"n_silos={n_silos} of records_per_silo={most} are more than the {len(y)} records"
        )
    silos, drawn = np.full(len(y), -1), np.sort(rng.permutation(len(y))[: n_silos * most])
    silos[drawn] = split_into_silos(y[drawn], n_silos, how, random_state=rng, **options)
    return silos


def _target(y: Any) -> np.ndarray:
    """The target as a one-dimensional array without missing values."""
    target = np.asarray(y)
    if target.ndim != 1:
        raise ValueError(f"y must have one dimension, got shape {target.shape}")
    if pd.isna(target).any():
        raise ValueError("y must have no missing values")
    return target


def _sizes(n: int, n_silos: int) -> np.ndarray:
    """Equal parts of n, the first ones larger by one; grows with n in every place."""
    return n // n_silos + (np.arange(n_silos) < n % n_silos)


def _similarity(y: np.ndarray, n_silos: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Deal a share at random, the others in the order of y; sizes differ by at most one."""
    n, ids = len(y), np.arange(n_silos)
    mixed, rest = np.split(rng.permutation(n), [round(share * n)])
    silos = np.empty(n, dtype=np.int64)
    from_mixed = _sizes(len(mixed), n_silos)
    silos[mixed] = np.repeat(ids, from_mixed)
    rest.sort()
    in_order = rest[np.argsort(y[rest], kind="stable")]
    silos[in_order] = np.repeat(ids, _sizes(n, n_silos) - from_mixed)
    return silos


def _dirichlet(y: np.ndarray, n_silos: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Divide each class by its own Dirichlet proportions."""
    if _arguments.check_not_negative("alpha", alpha) == 0:
        raise ValueError("alpha must be > 0, got 0; use how='sorted' for silos of one class")
    if type_of_target(y) not in ("binary", "multiclass"):
        raise ValueError(
            "how='dirichlet' needs classes, but y looks continuous: bin it first, or use "
            "how='sorted' or how='similarity'"
        )
    classes, codes = np.unique(y, return_inverse=True)
    proportions = rng.dirichlet(np.full(n_silos, float(alpha)), size=len(classes))
    silos = np.empty(len(y), dtype=np.int64)
    for code, p in enumerate(proportions):
        members = rng.permutation(np.flatnonzero(codes == code))
        # the last cut stays open: the sum of the proportions may round to less than one
        cuts = np.cumsum(p)[:-1] * len(members)
        silos[members] = np.searchsorted(cuts, np.arange(len(members)) + 0.5)
    return _without_empty(silos, n_silos, rng)


def _without_empty(silos: np.ndarray, n_silos: int, rng: np.random.Generator) -> np.ndarray:
    """Move one record into each empty silo, never the last one of its own."""
    empty = np.flatnonzero(np.bincount(silos, minlength=n_silos) == 0)
    order = rng.permutation(len(silos))
    _, kept = np.unique(silos[order], return_index=True)
    spare = np.delete(order, kept)
    silos[spare[: len(empty)]] = empty
    return silos


def _one_class(
    y: np.ndarray, n_silos: int, n_records: int, share: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the silos; one is smaller if its class has too few records."""
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
            f"records_per_silo={n_records} is too large for the {len(pools)} classes"
        )
    return silos


def _pairs(
    y: np.ndarray, n_silos: int, n_records: int | None, rng: np.random.Generator
) -> np.ndarray:
    """Return the silos; ``n_records`` of each, half of one class and half of the other."""
    classes = np.unique(y)
    half = len(classes) // 2
    if n_silos != half**2 or len(classes) % 2:
        raise ValueError(
            "how='pairs' needs (k / 2)^2 silos for an even number k of classes; got "
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
