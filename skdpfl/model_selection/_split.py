"""Splitters by silo: folds with records of every silo, and folds of whole silos.

Folds depend on the rows' positions, their silos and `random_state` only: replacing a record inside
its silo does not move any row to another fold (except with `stratify_y=True`). For folds with
records of every silo,

    rows ordered by silo (and y), dealt in turn: fold = position mod n_splits,
    so each fold has n_i / n_splits records of silo i, up to rounding

For folds of whole persons all rows of a person are in one fold, whatever the silo:

    key(person) = keyed hash of the id
    fold        = block of the person's rank by key among the persons of the silo

A person of several silos is dealt in the first of them.
"""

import heapq
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _num_samples

from skdpfl._arguments import as_generator, check_count, check_flags
from skdpfl._compat import as_frame
from skdpfl._warnings import LeftOut, warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.silos import Persons, Silos, read_persons, read_silos, split_column


class SiloSplitter(BaseCrossValidator):
    """Base class, which reads the silos; subclasses implement the fold of each row."""

    #: with metadata routing requested by default; without it silos are passed as `groups`
    __metadata_request__split = {"silos": True, "persons": True, "groups": UNUSED}  # noqa: RUF012

    silo_column: str | None = None
    #: the number of folds; None: one for each silo
    n_splits: int | None = None
    #: whether test sets have silos that are not in the training sets
    _leaves_silos_out = False

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, silos: Any = None, persons: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the rows of training and test sets.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            The data; a DataFrame if `silo_column` is set.
        y : array-like of shape (n_records,), default=None
            The target; ignored unless the class says otherwise.
        groups : array-like of shape (n_records,), default=None
            The silo of each record; the name that scikit-learn uses without metadata routing.
        silos : array-like of shape (n_records,), default=None
            The silo of each record.
        persons : array-like of shape (n_records,), default=None
            The person of each record; a warning says if a person's rows fall into several folds.

        Yields
        ------
        train, test : ndarray
            Row numbers.
        """
        folds, n_folds = self._assigned(X, y, groups, silos, persons)
        by_fold = np.split(
            np.argsort(folds, kind="stable"),
            np.cumsum(np.bincount(folds, minlength=n_folds))[:-1],
        )
        for fold, test in enumerate(by_fold):
            marked = test.view(LeftOut) if self._leaves_silos_out else test
            yield np.flatnonzero(folds != fold), marked

    def get_n_splits(
        self,
        X: Any = None,
        y: Any = None,
        groups: Any = None,
        *,
        silos: Any = None,
        persons: Any = None,
    ) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups, silos, persons : object
            As for :meth:`split`; ignored if the number was given.

        Returns
        -------
        n_splits : int
            The number given, or that of the silos.
        """
        return self.n_splits or len(self._silos(X, groups, silos).ids)

    def _assigned(
        self, X: Any, y: Any, groups: Any, silos: Any, persons: Any
    ) -> tuple[np.ndarray, int]:
        """Return the fold of each record (n,), and the number of folds."""
        folds, n_folds = self._folds(self._silos(X, groups, silos), y)
        if persons is not None:
            self._warn_of_torn(folds, read_persons(persons, len(folds), X))
        return folds, n_folds

    def _warn_of_torn(self, folds: np.ndarray, persons: Persons | None) -> None:
        """Warn if a person has rows in several folds."""
        assert persons is not None
        first = np.empty(len(persons.ids), folds.dtype)
        first[persons.codes] = folds
        if (first[persons.codes] != folds).any():
            warn(
                f"{type(self).__name__} puts rows of one person into training and test sets, so "
                "scores also tell how well the model knows the persons. Use SiloGroupKFold."
            )

    def _silos(self, X: Any, groups: Any, silos: Any) -> Silos:
        """Return the silo of each record, from any of the parameters."""
        _, ids = self._read_ids(as_frame(X), groups, silos)
        if ids is None:
            raise ValueError(
                f"{type(self).__name__} needs the silo of each record: pass silos=... (groups=... "
                "without metadata routing), or use silo_column=... and a DataFrame"
            )
        counted = ids if X is None and hasattr(ids, "__len__") else X
        return read_silos(ids, _num_samples(counted), X)

    def _read_ids(self, X: Any, groups: Any, silos: Any) -> tuple[Any, Any]:
        """Return the other columns, and the silos of any of the parameters, if there are."""
        if groups is not None and silos is not None:
            raise ValueError("silos and groups were both passed; give only one of them.")
        return split_column(X, groups if silos is None else silos, self.silo_column, "silo")

    def _folds(self, silos: Silos, y: Any) -> tuple[np.ndarray, int]:
        """Return the fold of each record (n,), and the number of folds."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class SiloFolds(SiloSplitter):
    """A splitter with a given number of folds."""

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = False
    random_state: Any = None
    silo_column: str | None = None

    def __post_init__(self) -> None:
        self.n_splits = check_count("n_splits", self.n_splits, low=2)
        if not isinstance(self.shuffle, bool | np.bool_):
            raise ValueError(f"shuffle must be True or False, got {self.shuffle!r}")
        if self.random_state is not None and not self.shuffle:
            raise ValueError(f"random_state={self.random_state!r} has no effect with shuffle=False")


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
        Whether to shuffle the records of each silo first.
    random_state : int, RandomState, Generator or None, default=None
        For `shuffle`; an int gives the same folds every time.
    stratify_y : bool, default=False
        Whether to also keep the proportions of the target inside each silo (classes, or the order
        of numbers). **Such folds depend on the labels**: one changed label can move many records to
        other folds, which no privacy budget covers, so `split` gives a
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
    numbers alone. For estimators with ``unit="silo"``, which protect the number of rows of a silo,
    use ``SiloKFold(shuffle=True)``.

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

    def _folds(self, silos: Silos, y: Any) -> tuple[np.ndarray, int]:
        """Sort the rows by silo, then optionally by y or at random, and assign folds in turn."""
        check_flags(stratify_y=self.stratify_y)
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
                f"{named}{', ...' if len(small) > 5 else ''}. Use fewer splits, or SiloKFold"
            )

    @staticmethod
    def _labels(y: Any, n: int) -> np.ndarray:
        """The rank of each record's label."""
        if y is None:
            raise ValueError("stratify_y=True needs y, got None")
        labels = np.asarray(y)
        if labels.shape != (n,) or pd.isna(labels).any():
            raise ValueError(
                f"stratify_y=True needs one label for each of the {n} records, none missing"
            )
        warn(
            "stratify_y=True makes folds that depend on the labels, which no budget covers.",
            PrivacyLeakWarning,
        )
        return np.unique(labels, return_inverse=True)[1]


class SiloKFold(SiloFolds):
    """K folds of whole silos, for scores on unseen silos.

    Silos are assigned in order of their size, largest first, to the fold with the fewest records;
    with `shuffle` in random order and equal numbers. Folds depend on the silo ids only: with
    `shuffle` on the set of ids, otherwise also on the number of records of each, which an estimator
    with ``unit="silo"`` protects. Use `shuffle` there.

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

    def _folds(self, silos: Silos, y: Any) -> tuple[np.ndarray, int]:
        """Assign the silos to folds; a record is in the fold of its silo."""
        n_silos = len(silos.ids)
        if self.n_splits > n_silos:
            raise ValueError(
                f"n_splits={self.n_splits} is more than the {n_silos} silo(s): use fewer"
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

    def _folds(self, silos: Silos, y: Any) -> tuple[np.ndarray, int]:
        """A fold is a silo."""
        if len(silos.ids) < 2:
            raise ValueError("LeaveOneSiloOut needs at least 2 silos, got 1")
        return silos.codes, len(silos.ids)


#: the key of the hash without shuffling
_FIXED_KEY = "skdpfl's persons"


@dataclass(eq=False, repr=False, kw_only=True)
class SiloGroupKFold(SiloFolds):
    """K folds with every silo's persons in equal shares, and all rows of a person in one fold.

    Where a person has several rows, other splitters put some of them in training sets and some in
    test sets, and scores then tell how well the model knows the person. Here the persons of each
    silo are dealt evenly over the folds: their numbers in any two folds differ by at most one, and
    so do the folds' numbers of persons. A person with rows in several silos is dealt in the first
    of them, and is in the same fold in all.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2; there must be as many persons.
    shuffle : bool, default=False
        Whether to draw a new key for the hash of ids, and with it new folds.
    random_state : int, RandomState, Generator or None, default=None
        For `shuffle`; an int gives the same folds every time.
    silo_column, person_column : str or None, default=None
        The columns of the DataFrame X with the silos and the persons.

    See Also
    --------
    SiloStratifiedKFold : Every silo in each fold, where a person has one row.
    sklearn.model_selection.GroupKFold : The same without silos.

    Notes
    -----
    **Formal guarantee.** Folds are a function of the set of pairs (silo, id): not of features,
    labels, the order of rows or how many rows anybody has. So if a person's rows are replaced by
    others, in any number, no other row changes its fold. If the id is replaced as well, at most
    one person at each of the `n_splits` block borders of each of the silos changes the fold.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.model_selection import SiloGroupKFold
    >>> persons = ["p", "q", "p", "r", "s", "q"]
    >>> silos = ["a", "a", "a", "b", "b", "a"]
    >>> for train, test in SiloGroupKFold(2).split(np.zeros((6, 1)), silos=silos, persons=persons):
    ...     print(train, test)
    [0 2 4] [1 3 5]
    [1 3 5] [0 2 4]
    """

    person_column: str | None = None

    def _assigned(
        self, X: Any, y: Any, groups: Any, silos: Any, persons: Any
    ) -> tuple[np.ndarray, int]:
        return self._folds_of_persons(*self._owners(X, groups, silos, persons)), self.n_splits

    def _owners(self, X: Any, groups: Any, silos: Any, persons: Any) -> tuple[Silos, Persons]:
        """Return the silo and the person of each record, from any of the parameters."""
        X = as_frame(X)
        _, silos = self._read_ids(X, groups, silos)
        _, persons = split_column(X, persons, self.person_column, "person")
        if persons is None:
            raise ValueError(
                "SiloGroupKFold needs persons=..., or person_column=... and a DataFrame."
            )
        n = _num_samples(persons if X is None else X)
        people = read_persons(persons, n, X)
        assert people is not None
        return read_silos(silos, n, X), people

    def _folds_of_persons(self, silos: Silos, persons: Persons) -> np.ndarray:
        """Return the fold of each record (n,)."""
        n_persons, n_splits = len(persons.ids), self.n_splits
        if n_persons < n_splits:
            raise ValueError(f"n_splits={n_splits} is more than the {n_persons} person(s).")
        silo_of = np.full(n_persons, len(silos.ids))
        np.minimum.at(silo_of, persons.codes, silos.codes)
        order = np.lexsort((_hashes(persons.ids, self._key()), silo_of))
        counts = np.bincount(silo_of, minlength=len(silos.ids))
        folds, before = np.empty(n_persons, np.intp), 0
        for n in counts.tolist():
            # the longer blocks of a silo follow those of the one before
            blocks = np.arange(n_splits).repeat(
                n // n_splits + (np.arange(n_splits) < n % n_splits)
            )
            folds[order[before : before + n]] = (blocks + before) % n_splits
            before += n
        return folds[persons.codes]

    def _key(self) -> str:
        """Return the key of the hash, 16 characters."""
        if not self.shuffle:
            return _FIXED_KEY
        return "".join(map(chr, as_generator(self.random_state).integers(32, 127, 16)))


def _hashes(ids: pd.Index, key: str) -> np.ndarray:
    """Return a keyed hash of the text of each id."""
    text = np.array([f"{each}" for each in ids.tolist()], dtype=object)
    return pd.util.hash_array(text, hash_key=key, categorize=False)
