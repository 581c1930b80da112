"""Base classes of splitters by silo: reading the silos, and splits from folds."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metadata_routing import UNUSED

from skdpfl._arguments import check_count
from skdpfl._silo_warnings import LeftOut
from skdpfl.silos import Silos, read_silos, split_silo_column


class SiloSplitter(BaseCrossValidator):
    """Base class of splitters by silo; subclasses implement the fold of each row."""

    #: with metadata routing silos are requested by default; without it they are passed as `groups`
    __metadata_request__split = {"silos": True, "groups": UNUSED}  # noqa: RUF012

    silo_column: str | None = None
    #: whether test sets have silos that are not in the training sets
    _leaves_silos_out = False

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, silos: Any = None
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

        Yields
        ------
        train, test : ndarray
            Row numbers.
        """
        folds, n_folds = self._folds(self._silos(X, groups, silos), y)
        by_fold = np.split(
            np.argsort(folds, kind="stable"),
            np.cumsum(np.bincount(folds, minlength=n_folds))[:-1],
        )
        for fold, test in enumerate(by_fold):
            marked = test.view(LeftOut) if self._leaves_silos_out else test
            yield np.flatnonzero(folds != fold), marked

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, silos: Any = None
    ) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups, silos : object
            As for :meth:`split`; ignored if the number was given.

        Returns
        -------
        n_splits : int
            The number given, or that of the silos.
        """
        raise NotImplementedError

    def _silos(self, X, groups, silos) -> Silos:
        """Return the silo of each record, from any of the parameters."""
        if groups is not None and silos is not None:
            raise ValueError(
                "silos and groups were both passed: give the silos of the records once"
            )
        given = groups if silos is None else silos
        _, given = split_silo_column(X, given, self.silo_column)
        if given is None:
            raise ValueError(
                f"{type(self).__name__} needs the silo of each record: pass silos=... (with "
                "metadata routing enabled), or groups=... (with routing off), or use "
                "silo_column=... and a DataFrame"
            )
        n_rows = len(given) if X is None and hasattr(given, "__len__") else _n_rows(X)
        return read_silos(given, n_rows, X)

    def _folds(self, silos: Silos, y) -> tuple[np.ndarray, int]:
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
            raise ValueError(
                f"random_state={self.random_state!r} has no effect with shuffle=False: "
                "leave it at None, or set shuffle=True"
            )

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, silos: Any = None
    ) -> int:
        return self.n_splits


def _n_rows(X) -> int:
    """Number of records of anything array-like."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
