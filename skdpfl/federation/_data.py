"""The records of all silos in one table: each silo has a range, or a list, of rows.

Features may have any memory layout. Batches are always in C order, so that the bits of a product do
not depend on the layout. ``np.take`` copies a table that is not in C order as a whole, and reading
single rows in Fortran order is slow. So such a table is copied once, from front to back, unless it
is a file (:meth:`SiloData.by_row`, or :meth:`SiloData.in_order` if it is read often).

**Persons** (unit "person"): which rows are one contribution. Rows are in the silos' order
(:attr:`SiloData.order`). In each silo persons with one row come first, in the order of the table,
then those with several, whose rows lie together.

The numbers of persons are public. How many rows a person has is secret, and so is which persons
have one. Batches are drawn by numbers in the order of ids (:attr:`People.places`), which do not
depend on rows: other rows of one person, in any number, leave all other persons in their batches.
Other ids leave the law of batches as it is, since draws are exchangeable (each independently, a
uniform subset, a uniform order).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdpfl.losses import with_offsets, with_weights
from skdpfl.models import CurveColumns, ExpandedTable

#: the most rows of a person: rounding is bounded for so many
MOST_ROWS = 2**25


@dataclass(frozen=True, eq=False)
class People:
    """Persons by silo.

    Parameters
    ----------
    edges : ndarray of shape (n_persons + 1,)
        Person p has the rows at the positions ``edges[p]`` to ``edges[p + 1]``.
    starts : ndarray of shape (n_silos + 1,)
        Silo i has the persons ``starts[i]`` to ``starts[i + 1]``.
    places : ndarray of shape (n_persons,)
        The person p of each number; numbers of a silo's persons follow the order of ids.
    """

    edges: np.ndarray
    starts: np.ndarray
    places: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """The silos' numbers of persons."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def rows(self) -> np.ndarray:
        """The persons' numbers of rows."""
        return np.diff(self.edges)

    @cached_property
    def silo_of(self) -> np.ndarray:
        """Each person's silo."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def positions(self, persons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of some persons' rows, and the persons' edges among them."""
        edges = np.zeros(len(persons) + 1, np.int64)
        np.cumsum(self.rows[persons], out=edges[1:])
        shift = self.edges[persons] - edges[:-1]
        return np.arange(edges[-1]) + np.repeat(shift, np.diff(edges)), edges


def rows_of_persons(of_row: np.ndarray) -> np.ndarray:
    """Return the number of rows of each contribution; raise for more than rounding allows."""
    rows = np.bincount(of_row)
    if rows.max(initial=0) > MOST_ROWS:
        raise ValueError(f"A person has more than {MOST_ROWS:,} rows, which prices do not cover.")
    return rows


def in_order(codes: np.ndarray, of_row: np.ndarray, n_silos: int) -> tuple[np.ndarray, People]:
    """Return the order of the rows (n,), and the persons.

    ``codes`` (n,) are the rows' silos, ``of_row`` (n,) their contributions: numbers from 0, each of
    one person in one silo, silo by silo in the order of ids (`skdpfl.silos.Persons.in_silos`).
    """
    n, rows = len(codes), rows_of_persons(of_row)
    first = np.full(len(rows), n)
    np.minimum.at(first, of_row, np.arange(n))
    several = rows > 1
    order = np.lexsort((first[of_row], several[of_row], codes))  # stable
    whose = of_row[order]
    begins = np.flatnonzero(np.diff(whose, prepend=-1))
    edges = np.append(begins, n).astype(np.int64)
    counts = np.bincount(codes[order][begins], minlength=n_silos)
    places = np.empty(len(begins), np.int64)
    places[whose[begins]] = np.arange(len(begins))
    return order, People(edges, np.concatenate([[0], np.cumsum(counts)]), places)


#: larger data, in memory or mapped, are gathered and transformed batch by batch, never copied whole
LARGE_DATA = 2**28
#: records that are copied at once, and numbers of them
BLOCK, NUMBERS = 2**12, 2**20
#: columns that are copied at once from a table of columns: more would not stay in the cache
TILE = 2**9

#: row numbers, or consecutive rows
Rows = np.ndarray | slice
Transform = Callable[..., np.ndarray]


@dataclass(frozen=True, eq=False)
class SiloData:
    """Rows grouped by silo, without copying them.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Features.
    y : ndarray of shape (n,)
        Targets, encoded for the loss.
    starts : ndarray of shape (n_silos + 1,)
        Silo i has the rows ``order[starts[i]:starts[i + 1]]``.
    order : ndarray of shape (n,), optional
        The rows silo by silo; None: they are already in this order.
    transform : callable, optional
        Applied to every batch of features.
    expand : callable, optional
        Returns the table whose columns ``transform`` returns, of rows and their cells.
    cells : ndarray of shape (n, n_curves), optional
        The cells of all rows, set by :meth:`with_cells`; None: there are none.
    columns : CurveColumns, optional
        What makes columns of X and cells, of frames and after :meth:`in_order`; None: X has all.
    y_dtype : dtype, optional
        The dtype of returned targets; None: unchanged.
    weights : ndarray of shape (n,), optional
        Weights of the records; None: 1.
    class_weights : ndarray of shape (n_classes,), optional
        Weights of the classes, by code; None: 1. With weights of either kind, targets are returned
        as pairs (:func:`skdpfl.losses.with_weights`).
    exposure : ndarray of shape (n,), optional
        Exposures of the records, above 0; None: none. With them targets have offsets
        (:func:`skdpfl.losses.with_offsets`).
    typical_exposure : float, default=1.0
        The exposure whose offset is 0.
    people : People, optional
        Whose each row is, if persons are protected; None: each row is a unit of its own.
    """

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    order: np.ndarray | None = None
    transform: Transform | None = None
    y_dtype: np.dtype | None = None
    weights: np.ndarray | None = None
    class_weights: np.ndarray | None = None
    exposure: np.ndarray | None = None
    typical_exposure: float = 1.0
    people: People | None = None
    expand: Callable[..., ExpandedTable] | None = None
    cells: np.ndarray | None = None
    columns: CurveColumns | None = None

    @classmethod
    def from_codes(
        cls,
        X: np.ndarray | ExpandedTable,
        y: np.ndarray,
        codes: np.ndarray,
        n_silos: int,
        transform: Transform | None = None,
        y_dtype: np.dtype | None = None,
        weights: np.ndarray | None = None,
        exposure: np.ndarray | None = None,
        of_row: np.ndarray | None = None,
    ) -> SiloData:
        """Group rows by their silo's code 0..n_silos-1, and by the contribution ``of_row``."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_silos))])
        order, people = None, None
        if of_row is not None:
            order, people = in_order(codes, of_row, n_silos)
            order = None if (np.diff(order) == 1).all() else order
        elif n_silos > 1 and not (codes[1:] >= codes[:-1]).all():
            # radix sort: 10 x faster
            small = codes.astype(np.uint16) if n_silos <= 2**16 else codes
            order = np.argsort(small, kind="stable")
            order = order.astype(np.int32) if len(codes) < 2**31 else order
        records = cls(np.zeros((0, 0)), y, starts, order, transform, y_dtype, weights)
        return replace(records._of(X), exposure=exposure, people=people)

    @classmethod
    def of_one(
        cls,
        X: np.ndarray | ExpandedTable,
        y: np.ndarray,
        index: int,
        n_silos: int,
        weights: np.ndarray | None = None,
        of_row: np.ndarray | None = None,
    ) -> SiloData:
        """Return data with the records of one silo of ``n_silos``, and none of the others."""
        if of_row is not None:
            codes = np.full(len(y), index)
            return cls.from_codes(X, y, codes, n_silos, weights=weights, of_row=of_row)
        starts = np.zeros(n_silos + 1, np.int64)
        starts[index + 1 :] = len(y)
        return cls(np.zeros((0, 0)), y, starts, weights=weights)._of(X)

    def _of(self, X: np.ndarray | ExpandedTable) -> SiloData:
        """Return the records with these features."""
        if isinstance(X, ExpandedTable):
            return replace(self, X=X.values, cells=X.cells, columns=X.columns)
        return replace(self, X=np.asarray(X), cells=None, columns=None)

    def dense(self) -> SiloData:
        """Return the records with all columns of features, which other than linear models read."""
        return self if self.columns is None else self._of(np.asarray(self.table))

    def mapped(
        self,
        features: Any,
        target: Any,
        y_dtype: np.dtype | None,
        class_weights: Sequence[float] | None = None,
    ) -> SiloData:
        """Return the records with maps of features and targets.

        Those of arrays are applied to batches, others at once: to values and to levels.
        """
        y = self.y if target is None else target.transform(self.y).astype(self.y.dtype, copy=False)
        transform = self.transform if features is None else features.transform
        factors = None if class_weights is None else np.asarray(class_weights, self.X.dtype)
        records, expand = self, getattr(features, "expanded", None)
        if isinstance(self.table, ExpandedTable) and features is not None:
            if hasattr(features, "mapped"):
                records, transform, expand = self._of(features.mapped(self.table)), None, None
            else:  # a map from outside knows arrays only
                records = self.dense()
        return replace(
            records,
            y=y,
            transform=transform,
            expand=expand,
            y_dtype=y_dtype or self.y_dtype,
            class_weights=factors,
            typical_exposure=getattr(target, "exposure", 1.0),
        )

    @cached_property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return self.starts[1:] - self.starts[:-1]

    @property
    def units(self) -> np.ndarray:
        """The silos' numbers of records, or of persons: the sizes in a plan."""
        return self.sizes if self.people is None else self.people.counts

    def by_person(self) -> SiloData:
        """Return the same rows with each person as a silo of its own."""
        assert self.people is not None
        return replace(self, starts=self.people.edges, people=None)

    def one_row_each(self, draws: np.ndarray) -> SiloData:
        """Return data with one row of each person, by ``draws`` (n_persons,) from [0, 1).

        Draws are by number (:attr:`People.places`), so a person's row follows from the person's
        own rows and draw, whoever the others are.
        """
        people = self.people
        assert people is not None
        rows = np.empty(len(people.rows), np.int64)
        rows[people.places] = (draws * people.rows[people.places]).astype(np.int64)
        rows = people.edges[:-1] + np.minimum(rows, people.rows - 1)
        order = rows if self.order is None else self.order[rows]
        return replace(self, order=order, starts=people.starts, people=None)

    def of_persons(self, persons: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of some persons of each silo, and the edges of silos and persons."""
        assert self.people is not None
        rows, edges = self.people.positions(np.concatenate(persons))
        ends = edges[np.cumsum([0, *map(len, persons)])]
        return rows if self.order is None else self.order[rows].astype(np.intp), ends, edges

    @cached_property
    def table(self) -> np.ndarray | ExpandedTable:
        """All features as they are stored, for products that read them in place."""
        if self.cells is None or self.columns is None:
            return self.X
        return ExpandedTable(self.X, self.cells, self.columns)

    def stored(self, rows: Rows) -> np.ndarray:
        """Return the features at ``rows`` as they are stored."""
        return np.asarray(self.table[rows])

    @cached_property
    def width(self) -> int:
        """The number of features of a record after maps."""
        return int(self.read(slice(0)).shape[1])

    @cached_property
    def is_by_row(self) -> bool:
        """Whether features are in C order."""
        return bool(self.X.flags.c_contiguous)

    @cached_property
    def is_on_disk(self) -> bool:
        """Whether features are a mapped file."""
        owner: object = self.X
        while owner is not None and not isinstance(owner, mmap.mmap):
            owner = getattr(owner, "base", None)
        return owner is not None

    @property
    def has_whole_rows(self) -> bool:
        """Whether each record's features are contiguous, as in C order or a slice of it."""
        return self.X.shape[1] == 1 or self.X.strides[1] == self.X.itemsize

    def by_row(self) -> SiloData:
        """Return the records with features in C order, except files and rows of large slices."""
        large_slice = self.has_whole_rows and self.X.nbytes > LARGE_DATA
        if self.is_by_row or self.is_on_disk or large_slice:
            return self
        return replace(self, X=in_rows(self.X, self.X.dtype))

    def in_order(self) -> SiloData:
        """Return a transformed copy in which the records of each silo are consecutive."""
        if self.order is None and self.transform is None and self.is_by_row:
            return self
        order = self.order
        y = self.y if order is None else self.y[order]
        weights, exposure = (
            each if order is None or each is None else each[order]
            for each in (self.weights, self.exposure)
        )
        X, cells, columns = self._moved()
        own = replace(self, X=X, cells=cells, columns=columns, transform=None, expand=None)
        return replace(own, y=y, order=None, weights=weights, exposure=exposure)

    def _moved(self) -> tuple[np.ndarray, np.ndarray | None, CurveColumns | None]:
        """Return features after maps in the silos' order: X, cells and columns."""
        n, part, cells, columns = len(self.X), self.read(slice(0)), None, None
        if isinstance(part, ExpandedTable):
            cells = np.empty((n, part.cells.shape[1]), part.cells.dtype)
            columns, part = part.columns, part.values
        X = np.empty((n, part.shape[1]), part.dtype)
        if not self.is_by_row:
            X.fill(0)  # allocates memory from front to back, which is ten times faster
        rows = _as_items(X)
        for read, write in self._moves():
            part = self.read(read)
            if isinstance(part, ExpandedTable):
                assert cells is not None
                cells[write], part = part.cells, part.values
            rows[write] = _as_items(part)
        return X, cells, columns

    def with_cells(self) -> SiloData:
        """Return the records with their cells, if their map has any."""
        if self.expand is None:
            return self
        none = self.expand(self._rows(slice(0))).cells
        cells = np.empty((len(self.X), none.shape[1]), none.dtype)
        for block in _blocks(*self.X.shape):
            cells[block] = self.expand(np.ascontiguousarray(self.X[block])).cells
        return replace(self, cells=cells)

    def _moves(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield blocks of rows to read, and their positions in the silos' order.

        C-ordered tables are read in the silos' order, others from front to back.
        """
        order, blocks = self.order, _blocks(*self.X.shape)
        if order is None:
            yield from ((block, block) for block in blocks)
        elif self.is_by_row:
            yield from ((order[block], block) for block in blocks)
        else:
            places = np.empty_like(order)
            places[order] = np.arange(len(order), dtype=order.dtype)
            yield from ((block, places[block]) for block in blocks)

    def rows_of(self, silo: int, batch: Rows) -> Rows:
        """Return the rows of a batch; ``batch`` are indices within the silo."""
        start, stop = int(self.starts[silo]), int(self.starts[silo + 1])
        if self.order is not None:
            return self.order[start:stop][batch].astype(np.intp)
        if isinstance(batch, slice):
            first, last, _ = batch.indices(stop - start)
            return slice(start + first, start + last)
        return batch + start

    def rows_together(self, silos: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Return all rows of some silos, one silo after the other, and the silos' edges."""
        edges, sizes = np.zeros(len(silos) + 1, np.int64), self.sizes[silos]
        sizes.cumsum(out=edges[1:])
        moves, n = self.starts[silos] - edges[:-1], int(edges[-1])
        if self.order is None and (moves == moves[0]).all():
            return slice(int(moves[0]), int(moves[0]) + n), edges
        rows = moves.repeat(sizes)
        rows += np.arange(n)
        return rows if self.order is None else self.order[rows].astype(np.intp), edges

    def alike(self, most: int) -> Iterator[tuple[np.ndarray, Rows]]:
        """Yield groups of silos of equal size with their rows, for all silos that are not empty.

        A group has at most ``most`` rows; a larger silo is alone, and comes in pieces.
        """
        sizes = self.sizes
        small = np.flatnonzero((sizes > 0) & (sizes <= most))
        small = small[np.argsort(sizes[small], kind="stable")]
        for group in np.split(small, np.flatnonzero(np.diff(sizes[small])) + 1):
            at_once = most // int(sizes[group].max(initial=1))
            for i in range(0, len(group), at_once):
                silos = group[i : i + at_once]
                yield silos, self.rows_together(silos)[0]
        for silo in np.flatnonzero(sizes > most).tolist():
            for start in range(0, int(sizes[silo]), most):
                yield np.array([silo]), self.rows_of(silo, slice(start, start + most))

    def at(self, rows: Rows, dtype: np.dtype | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the records at ``rows`` of the whole data, in C order.

        Slices are not copied if they are in C order. ``dtype`` is that of the returned features;
        None: unchanged.
        """
        X = self.read(rows, dtype)
        return X.dense() if isinstance(X, ExpandedTable) else X, self.targets(rows)

    def targets(self, rows: Rows) -> np.ndarray:
        """Return the targets of the records at ``rows``, with offsets and weights as pairs."""
        y = self.y[rows]
        y = y if self.y_dtype is None else y.astype(self.y_dtype, copy=False)
        if self.exposure is not None:
            y = with_offsets(y, np.log(self.exposure[rows] / self.typical_exposure))
        weights = self._weights(rows)
        return y if weights is None else with_weights(y, weights)

    def _weights(self, rows: Rows) -> np.ndarray | None:
        own = None if self.weights is None else self.weights[rows]
        if self.class_weights is None:
            return own
        factors = self.class_weights[class_codes(self.y[rows], len(self.class_weights))]
        return factors if own is None else own * factors

    def read(self, rows: Rows, dtype: np.dtype | None = None) -> np.ndarray | ExpandedTable:
        """Return the features at ``rows``, in C order; columns of curves are not made yet."""
        dtype = dtype or self.X.dtype
        curves = self.expand is not None or self.columns is not None
        if isinstance(rows, slice) or rows.size <= BLOCK or dtype == self.X.dtype or curves:
            X = self._mapped(rows)
            return X if X.dtype == dtype else X.astype(dtype)
        X = np.empty((*rows.shape, self.width), dtype)
        flat, index = X.reshape(-1, X.shape[-1]), rows.reshape(-1)
        for block in _blocks(*flat.shape):
            flat[block] = self._mapped(index[block])
        return X

    def _mapped(self, rows: Rows) -> np.ndarray | ExpandedTable:
        """Return the features at ``rows`` in their own dtype."""
        X, cells = self._rows(rows), self.cells
        if cells is not None:
            cells = cells[rows] if isinstance(rows, slice) else cells.take(rows, axis=0)
            if self.columns is not None:
                return ExpandedTable(X, cells, self.columns)
        if self.expand is not None:
            return self.expand(X, cells)
        return X if self.transform is None else np.ascontiguousarray(self.transform(X))

    def _rows(self, rows: Rows) -> np.ndarray:
        """Return rows as they are stored, in C order."""
        X = self.X
        if isinstance(rows, slice):
            return np.ascontiguousarray(X[rows])
        if self.is_by_row:
            return X.take(rows, axis=0, mode="clip")
        if self.has_whole_rows:  # take() would copy the whole table
            return _as_items(X)[rows].view(X.dtype).reshape(*rows.shape, -1)
        return np.ascontiguousarray(X[rows])


def in_rows(
    table: Any, dtype: np.dtype, read: Callable[[slice], np.ndarray] | None = None
) -> np.ndarray:
    """Return a table as a new array in C order, read from front to back in blocks.

    ``read`` returns some of its rows, in any order and dtype; by default X is an array.
    """
    out = np.empty(table.shape, dtype)
    if read is not None:
        for block in _blocks(*table.shape):
            out[block] = read(block).astype(dtype, copy=False)
        return out
    n, width = table.shape
    for rows in _blocks(n, min(width, TILE)):
        for i in range(0, width, TILE):
            # casting first: doing both at once takes twice as long
            out[rows, i : i + TILE] = table[rows, i : i + TILE].astype(dtype, copy=False)
    return out


def class_codes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return class codes as integers in 0 .. n_classes - 1, whatever their dtype."""
    return np.clip(np.nan_to_num(y), 0, n_classes - 1).astype(np.intp)


def _as_items(X: np.ndarray) -> np.ndarray:
    """Return a view with each row as one item, (n,), which is twice as fast to write."""
    return X.view(np.dtype((np.void, X.shape[1] * X.itemsize)))[:, 0]


def _blocks(n: int, width: int) -> Iterator[slice]:
    """Split ``n`` rows of ``width`` numbers into slices."""
    at_once = max(1, min(BLOCK, NUMBERS // max(1, width)))
    return (slice(i, min(i + at_once, n)) for i in range(0, n, at_once))


#: just below the largest array that thresholds follow
_LARGEST_PIECE = 2**25 - 2**16


def keep_freed_memory() -> None:
    """Let this process reuse up to 64 MiB of memory that it frees.

    The C library of Linux returns large freed arrays to the system, and the next step gets new
    pages, which the system clears first. That makes steps of networks notably slower. Both
    thresholds of the library follow the largest array freed so far, up to 32 MiB (mallopt(3),
    M_MMAP_THRESHOLD). So freeing one untouched array of that size keeps at most 64 MiB for the
    following steps. On other systems, and if thresholds are set by the environment, this has no
    effect.
    """
    np.empty(_LARGEST_PIECE, np.uint8)
