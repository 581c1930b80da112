"""Words, normals and releases of several silos, one a row: NumPy's numbers to the last bit.

Last axes are contiguous.
"""

from numpy.typing import NDArray

def words(states: NDArray, out: NDArray, /) -> None:
    """Write the first words (S, n) of SFC64 started from ``states`` (S, 3 or more), uint64."""

def normals(words: NDArray, table: NDArray, out: NDArray, /) -> None:
    """Write normals (S, n), int32 or int64, that may want a second draw, from words (S, n_words).

    ``table`` has a value for each of 65,536 slots; see skdpfl.privacy.randomness.normals.
    """

def release(
    sums: NDArray, units: NDArray, grids: NDArray, factors: NDArray, out: NDArray, /
) -> None:
    """Write factors (rint(sums / grids) + units), rows by rows; ``out`` may be ``sums``.

    All float32 with units of int32, or float64 with int64; see skdpfl.privacy.release.
    """
