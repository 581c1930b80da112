"""The two matrix products of a group of silos, without gathering their records.

Arrays are all float32 or all float64, their last axes contiguous; ``rows`` and ``edges`` are int64,
and nothing is written where they lie. Silo s's records are numbers edges[s] to edges[s + 1].
A table may be a tuple: what `skdpfl.models.ExpandedTable.for_compiled` returns.
"""

from typing import Any

from numpy.typing import NDArray

Table = NDArray | tuple[Any, ...]

def available() -> bool:
    """Whether the processor can run what was compiled."""

def narrow(yes: bool, /) -> bool:
    """Use AVX2 where there is AVX-512, for tests: the same bits. Return whether there is."""

def raw(
    table: Table,
    rows: NDArray,
    edges: NDArray,
    params: NDArray,
    out: NDArray,
    packed: NDArray | None,
    intercept: bool,
    limits: NDArray = ...,
    /,
) -> None:
    """Write raw predictions (k, n or more) of the table's ``rows`` (n,), and a copy of them.

    ``params`` (S, P) are the silos' flat parameters. The copy, for ``sums``, takes a multiple of 64
    bytes a record, the intercept's 1 included, and ``packed`` has 64 bytes to spare; None: no copy,
    and at most 4 outputs are those of `row_sums` and `step`. For these features may be cut to
    ``limits``, flat: d lower ones and 16 other numbers, then d upper ones and 16.
    """

def expand(table: Table, rows: NDArray, edges: NDArray, out: NDArray, /) -> None:
    """Write all columns of the table's ``rows`` (n,) into ``out`` (n, d)."""

def row_sums(
    table: Table,
    rows: NDArray,
    edges: NDArray,
    out: NDArray,
    slopes: NDArray,
    intercept: bool,
    chunk: int,
    /,
) -> None:
    """Write each silo's sums of at most 4 outputs, as ``sums`` does, from the records themselves.

    Records of slope 0 are not read.

    The slopes themselves are added up in another order, which depends on the chunk's length alone.
    """

def step(
    table: Table,
    rows: NDArray,
    edges: NDArray,
    params: NDArray,
    out: NDArray,
    y: NDArray,
    limits: NDArray,
    weights: NDArray | None,
    intercept: bool,
    chunk: int,
    link: int,
    /,
) -> None:
    """Write each silo's sums (S, P) of one output's slopes, clipped: `raw`, slopes, `row_sums`.

    Slopes s are z - y of raw predictions z (``link`` 0), or 1 / (1 + e^-z) - y (1), times
    min(1, limit / max(|s|, 1 - |s|)) for labels of 0 and 1 (2); cut to the record's limit (n,), and
    0 if they are not finite or the limit is NaN; then times the record's weight. Records of slope 0
    are not read.
    """

def descent(
    table: Table,
    rows: NDArray,
    edges: NDArray,
    params: NDArray,
    out: NDArray,
    y: NDArray,
    limits: NDArray,
    weights: NDArray | None,
    intercept: bool,
    chunk: int,
    link: int,
    n_steps: int,
    divisor: NDArray,
    penalty: NDArray | None,
    correction: NDArray | None,
    rate: float,
    momentum: float,
    /,
) -> None:
    """Write how far some steps from each silo's parameters lead, (S, P).

    ``v = momentum v + step(at) / divisor + penalty at + correction, at -= rate v`` for a divisor
    (S,), a penalty (P,) and a correction (S, P), each operation rounded as in NumPy.
    """

def persons(
    table: Table,
    rows: NDArray,
    edges: NDArray,
    params: NDArray,
    out: NDArray,
    y: NDArray,
    limits: NDArray,
    weights: NDArray | None,
    intercept: bool,
    chunk: int,
    link: int,
    people: NDArray,
    norms: NDArray | None,
    clip: NDArray,
    mean: bool,
    /,
) -> None:
    """Write each silo's sums (S, P) over persons, each scaled to norm at most the silo's ``clip``.

    Person p has the records from ``people[p]`` to ``people[p + 1]`` of one silo. Their slopes times
    (x, 1), as in ``step``, are added up or averaged, and then scaled: by clip / norm, and with
    ``norms`` |(x, 1)| of the records by clip / sum of norm max(|s|, 1 - |s|), if that is less. Sums
    that are not finite become zero. ``chunk`` is a number of persons; ``weights`` are not used.
    """

def sums(
    packed: NDArray,
    edges: NDArray,
    slopes: NDArray,
    out: NDArray,
    n_features: int,
    intercept: bool,
    chunk: int,
    /,
) -> None:
    """Write each silo's sum_j a_j s_j^T, (S, P), of the copied records and slopes (k, n or more).

    A number's terms are added one after the other, at most ``chunk`` of them, then these sums.
    """
