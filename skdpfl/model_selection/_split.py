"""Folds with records of every silo.

Folds depend on the rows' positions, their silos and `random_state` only: replacing a record inside
its silo does not move any row to another fold (except with `stratify_y=True`).

    rows ordered by silo (and y), dealt in turn: fold = position mod n_splits,
    so each fold has n_i / n_splits records of silo i, up to rounding
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from skdpfl._arguments import as_generator
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection._splitter import SiloFolds
from skdpfl.silos import Silos


@dataclass(eq=False, repr=False, kw_only=True)
class SiloStratifiedKFold(SiloFolds):
    """K folds, each with the same share of every silo's records.

    A plain K-fold on records sorted by silo leaves whole silos out of a training set, and a
    shuffled one may leave a small silo with too few. Here the records of each silo are distributed
    evenly over the folds: their numbers in any two folds differ by at most one, and so do the
    folds' sizes.

    Folds depend on the rows' positions and silos only, not on the records. Consecutive records of a
    silo are in different folds, which matters if adjacent rows are near-duplicates.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2; no silo may have fewer records.
    shuffle : bool, default=False
        Shuffle the records of each silo before dealing.
    random_state : int, RandomState, Generator or None, default=None
        For `shuffle`; an int gives the same folds every time.
    stratify_y : bool, default=False
        Keep the proportions of the target inside each silo as well (classes, or the order of a
        number). **Such folds depend on the labels**: one changed label can move many records to
        other folds, which no privacy budget covers, so that `split` gives a
        :class:`~skdpfl.exceptions.PrivacyLeakWarning`.
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos.

    See Also
    --------
    SiloKFold : Whole silos in each fold.
    LeaveOneSiloOut : One silo in each fold.

    Notes
    -----
    **Formal guarantee.** Let D and D' have the same silos in the same rows (neighbours under
    replacement of a record, or of all records of a silo). With ``stratify_y=False`` and the same
    `random_state` the folds of D and D' are equal, since they are computed from silo ids and row
    numbers alone. For estimators with ``unit="silo"``, which protect how many rows a silo has, take
    ``SiloKFold(shuffle=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.model_selection import SiloStratifiedKFold
    >>> X, silos = np.zeros((6, 1)), ["a", "a", "a", "a", "b", "b"]
    >>> for train, test in SiloStratifiedKFold(2).split(X, silos=silos):
    ...     print(train, test)
    [1 3 5] [0 2 4]
    [0 2 4] [1 3 5]
    """

    stratify_y: bool = False

    def _folds(self, silos: Silos, y) -> tuple[np.ndarray, int]:
        """Sort the rows by silo, optionally by y or at random within it, and deal them in turn."""
        self._check_sizes(silos)
        n = len(silos.codes)
        random = as_generator(self.random_state).random(n) if self.shuffle else np.zeros(n)
        keys = (
            (random, self._labels(y, n), silos.codes) if self.stratify_y else (random, silos.codes)
        )
        folds = np.empty(n, dtype=np.intp)
        folds[np.lexsort(keys)] = np.arange(n) % self.n_splits
        return folds, self.n_splits

    def _check_sizes(self, silos: Silos) -> None:
        small = np.flatnonzero(silos.sizes < self.n_splits)
        if len(small):
            ids = silos.ids.tolist()
            named = ", ".join(f"{ids[i]!r} ({silos.sizes[i]})" for i in small[:5])
            raise ValueError(
                f"n_splits={self.n_splits} is more than the records of {len(small)} silo(s): "
                f"{named}{', ...' if len(small) > 5 else ''}. Use fewer splits, leave these silos "
                "out, or use SiloKFold, which keeps silos whole"
            )

    @staticmethod
    def _labels(y, n: int) -> np.ndarray:
        """The rank of each record's label."""
        if y is None:
            raise ValueError("stratify_y=True needs y, got None")
        labels = np.asarray(y)
        if labels.shape != (n,) or pd.isna(labels).any():
            raise ValueError(
                f"stratify_y=True needs one label for each of the {n} records and none missing, "
                f"got y of shape {labels.shape}"
            )
        warn(
            "stratify_y=True makes folds that depend on the labels, which no budget pays for. "
            "Leave it at False: such folds keep the silos' proportions and depend on no record.",
            PrivacyLeakWarning,
        )
        return np.unique(labels, return_inverse=True)[1]
