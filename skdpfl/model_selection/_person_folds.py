"""Folds of whole persons: all rows of a person are in one fold, whatever the silo.

    key(person) = keyed hash of the id
    fold        = block of the person's rank by key among the persons of the silo

A person of several silos is dealt in the first of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import _num_samples

from skdpfl._arguments import as_generator
from skdpfl._compat import as_frame
from skdpfl.model_selection._split import SiloFolds
from skdpfl.silos import Persons, Silos, read_persons, read_silos, split_column

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

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, silos: Any = None, persons: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the rows of training and test sets.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            The data; a DataFrame if there is a column of silos or persons.
        y : array-like of shape (n_records,), default=None
            Ignored.
        groups : array-like of shape (n_records,), default=None
            The silo of each record; the name that scikit-learn uses without metadata routing.
        silos, persons : array-like of shape (n_records,), default=None
            The silo and the person of each record. Without silos all records are one.

        Yields
        ------
        train, test : ndarray
            Row numbers.
        """
        owners = self._owners(X, groups, silos, persons)
        folds = self._folds_of_persons(*owners)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def _owners(self, X: Any, groups: Any, silos: Any, persons: Any) -> tuple[Silos, Persons]:
        """Return the silo and the person of each record, from any of the parameters."""
        if groups is not None and silos is not None:
            raise ValueError("silos and groups were both passed; give only one of them.")
        X = as_frame(X)
        _, silos = split_column(X, groups if silos is None else silos, self.silo_column, "silo")
        _, persons = split_column(X, persons, self.person_column, "person")
        if persons is None:
            raise ValueError(
                "SiloGroupKFold needs the person of each record: pass persons=... (with metadata "
                "routing enabled), or use person_column=... and a DataFrame."
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
