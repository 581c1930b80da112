"""Deal the records of one table to silos: alike, sorted, or anything between.

Formulas (n records, N silos, n_c records of class c):
    sizes        n // N each, one more for the first n mod N silos
    dirichlet    p_c ~ Dirichlet(alpha, ..., alpha); silo i gets the share p_ci of class c
    similarity   round(s n) records dealt at random, the others sorted by y
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import type_of_target

from skdpfl._arguments import (
    as_generator,
    check_choice,
    check_count,
    check_not_negative,
    check_number,
)

HOW = ("iid", "sorted", "dirichlet", "similarity")


def split_into_silos(
    y: Any,
    n_silos: int,
    how: str = "iid",
    *,
    alpha: float = 0.5,
    similarity: float = 0.0,
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
    how : {"iid", "sorted", "dirichlet", "similarity"}, default="iid"
        - ``"iid"``: shuffled and dealt in equal parts: silos alike.
        - ``"sorted"``: sorted by `y` and cut in equal parts: silos as different as can be. Ties
          stay in their order; nothing is random.
        - ``"dirichlet"``: each class is shared out by proportions drawn from a symmetric Dirichlet
          distribution [1]_; sizes differ too. For classes only.
        - ``"similarity"``: a part `similarity` of the records is dealt at random, the others are
          sorted by `y` [2]_.
    alpha : float, default=0.5
        Concentration for ``"dirichlet"``: towards 0 each class sits in one silo, large values make
        silos alike.
    similarity : float, default=0.0
        For ``"similarity"``: 0 is ``"sorted"``, 1 is ``"iid"``.
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same silos every time.

    Returns
    -------
    silos : ndarray of shape (n_records,), dtype int64
        Silo ids from 0 to ``n_silos - 1``.

    See Also
    --------
    make_federated_classification : Synthetic data in silos.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
       Visual Classification", 2019.
    .. [2] Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
       ICML 2020.

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
    n_silos = check_count("n_silos", n_silos)
    if n_silos > len(target):
        raise ValueError(
            f"n_silos={n_silos} is more than the {len(target)} records: no silo may be empty"
        )
    how = check_choice("how", how, HOW)
    rng = as_generator(random_state)
    if how == "dirichlet":
        return _dirichlet(target, n_silos, alpha, rng)
    share = {"iid": 1.0, "sorted": 0.0}.get(how, similarity)
    return _similarity(target, n_silos, check_number("similarity", share, low=0, high=1), rng)


def _target(y) -> np.ndarray:
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


def _similarity(y: np.ndarray, n_silos: int, share: float, rng) -> np.ndarray:
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


def _dirichlet(y: np.ndarray, n_silos: int, alpha: float, rng) -> np.ndarray:
    """Share out each class by its own Dirichlet proportions."""
    if check_not_negative("alpha", alpha) == 0:
        raise ValueError("alpha must be > 0, got 0; use how='sorted' for silos of one class")
    if type_of_target(y) not in ("binary", "multiclass"):
        raise ValueError(
            "how='dirichlet' shares out classes, but y looks continuous: bin it first, "
            "or use how='sorted' or how='similarity'"
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


def _without_empty(silos: np.ndarray, n_silos: int, rng) -> np.ndarray:
    """Move one record into each empty silo, never the last one of its own."""
    empty = np.flatnonzero(np.bincount(silos, minlength=n_silos) == 0)
    order = rng.permutation(len(silos))
    _, kept = np.unique(silos[order], return_index=True)
    spare = np.delete(order, kept)
    silos[spare[: len(empty)]] = empty
    return silos
