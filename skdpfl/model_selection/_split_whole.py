"""Folds of whole silos."""

import heapq
from typing import Any

import numpy as np

from skdpfl._arguments import as_generator
from skdpfl.model_selection._splitter import SiloFolds, SiloSplitter
from skdpfl.silos import Silos


class SiloKFold(SiloFolds):
    """K folds of whole silos, for scores on unseen silos.

    Silos are assigned in order of their size, largest first, to the fold with the fewest records;
    with `shuffle` in random order and equal numbers. Folds depend on the silo ids only: with
    `shuffle` on which ids there are, else also on how many records have each, which an estimator
    with ``unit="silo"`` protects. Shuffle there.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of silos.
    shuffle : bool, default=False
        Assign silos in random order, the same number (up to one) to each fold.
    random_state : int, RandomState, Generator or None, default=None
        For `shuffle`; an int gives the same folds every time.
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos.

    See Also
    --------
    LeaveOneSiloOut : One silo in each fold.
    SiloStratifiedKFold : Every silo in each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.model_selection import SiloKFold
    >>> X, silos = np.zeros((5, 1)), ["a", "a", "b", "c", "b"]
    >>> for train, test in SiloKFold(2).split(X, silos=silos):
    ...     print(train, test)
    [2 4] [0 1 3]
    [0 1 3] [2 4]
    """

    _leaves_silos_out = True

    def _folds(self, silos: Silos, y) -> tuple[np.ndarray, int]:
        """Assign the silos to folds; a record is in the fold of its silo."""
        n_silos = len(silos.ids)
        if self.n_splits > n_silos:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {n_silos} silo(s): use at most "
                f"{n_silos}, or SiloStratifiedKFold, which splits inside silos"
            )
        fold_of_silo = self._dealt(n_silos) if self.shuffle else self._balanced(silos.sizes)
        return fold_of_silo[silos.codes], self.n_splits

    def _dealt(self, n_silos: int) -> np.ndarray:
        folds = np.empty(n_silos, dtype=np.intp)
        order = as_generator(self.random_state).permutation(n_silos)
        folds[order] = np.arange(n_silos) % self.n_splits
        return folds

    def _balanced(self, sizes: np.ndarray) -> np.ndarray:
        """Assign the largest silo first, each to the smallest fold; ties by index."""
        folds = np.empty(len(sizes), dtype=np.intp)
        loads = [(0, fold) for fold in range(self.n_splits)]
        for silo in np.argsort(-sizes, kind="stable"):
            load, folds[silo] = loads[0]
            heapq.heapreplace(loads, (load + int(sizes[silo]), int(folds[silo])))
        return folds


class LeaveOneSiloOut(SiloSplitter):
    """Each silo in turn is the test set, for the score on a new silo.

    Folds depend on the silo ids only.

    Parameters
    ----------
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos.

    See Also
    --------
    SiloKFold : Several silos in each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.model_selection import LeaveOneSiloOut
    >>> X, silos = np.zeros((4, 1)), ["a", "b", "b", "c"]
    >>> LeaveOneSiloOut().get_n_splits(X, silos=silos)
    3
    >>> for train, test in LeaveOneSiloOut().split(X, silos=silos):
    ...     print(train, test)
    [1 2 3] [0]
    [0 3] [1 2]
    [0 1 2] [3]
    """

    _leaves_silos_out = True

    def __init__(self, *, silo_column: str | None = None):
        self.silo_column = silo_column

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, silos: Any = None
    ) -> int:
        return len(self._silos(X, groups, silos).ids)

    def _folds(self, silos: Silos, y) -> tuple[np.ndarray, int]:
        """A fold is a silo."""
        if len(silos.ids) < 2:
            raise ValueError("LeaveOneSiloOut needs at least 2 silos, got 1")
        return silos.codes, len(silos.ids)
