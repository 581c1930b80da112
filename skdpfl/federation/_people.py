"""The persons of silos: which rows are one contribution (unit "person").

Rows are in the silos' order (:attr:`skdpfl.federation.SiloData.order`). In each silo persons with
one row come first, in the order of the table, then those with several, whose rows lie together.

The numbers of persons are public. How many rows a person has is secret, and so is which persons
have one. Batches are drawn by numbers in the order of ids (:attr:`People.places`), which do not
depend on rows: other rows of one person, in any number, leave all other persons in their batches.
Other ids leave the law of batches as it is, since draws are exchangeable (each independently, a
uniform subset, a uniform order).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: the most rows of a person: rounding is bounded for so many
MOST = 2**25


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
        return np.diff(self.starts)

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
    if rows.max(initial=0) > MOST:
        raise ValueError(f"A person has more than {MOST:,} rows, which prices do not cover.")
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
