"""The two matrix products of a group of silos, without gathering their records.

Arrays are all float32 or all float64, their last axes contiguous; ``rows`` and ``edges`` are int64.
"""

from numpy.typing import NDArray

def available() -> bool:
    """Whether the processor can run what was compiled."""

def raw(
    table: NDArray, rows: NDArray, edges: NDArray, params: NDArray, out: NDArray, intercept: bool, /
) -> None:
    """Write raw predictions (k, n) of the table's ``rows`` (n,), silo s's from edges[s] on.

    ``params`` (S, P) are the silos' flat parameters.
    """

def sums(
    table: NDArray,
    rows: NDArray,
    edges: NDArray,
    slopes: NDArray,
    out: NDArray,
    intercept: bool,
    chunk: int,
    /,
) -> None:
    """Write each silo's sum_j a_j s_j^T, (S, P), from slopes (k, n), ``chunk`` records at a time.

    A number's terms are added one after the other within a chunk, then the chunks.
    """
