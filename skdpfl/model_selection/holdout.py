"""The split of a search into training and scoring, drawn from public numbers before data are read.

``unit="record"``: a share of each silo's records is for scoring. ``unit="silo"``: a share of the
silos is, with all their records. A silo used for both would pay for both, and whether it can be
split would reveal its size, which is protected.
"""

from typing import Any, NamedTuple

import numpy as np

from skdpfl.privacy.randomness.streams import Streams
from skdpfl.silos import Silos


class Split(NamedTuple):
    """Training rows, the training silos' sizes, scoring rows, and each scoring row's silo."""

    train: np.ndarray
    sizes: dict[Any, int]
    test: np.ndarray
    codes: np.ndarray


def split(silos: Silos, unit: str, holdout: float, streams: Streams) -> Split:
    """Return the split; it does not depend on the records.

    Formal guarantee
    ----------------
    For records the split is a function of the silo of each row and of ``streams``; for silos, of
    the number of silos and of ``streams`` as to which silos score. So neighbouring data have the
    same split.
    """
    scores = (_of_silos if unit == "silo" else _of_records)(silos, holdout, streams)
    train, test = np.flatnonzero(~scores), np.flatnonzero(scores)
    sizes = np.bincount(silos.codes[train], minlength=len(silos.ids))
    if unit == "silo":  # sizes are protected
        sizes = np.minimum(sizes, 1)
    kept = {silo: n for silo, n in zip(silos.ids.tolist(), sizes.tolist(), strict=True) if n}
    used, codes = np.unique(silos.codes[test], return_inverse=True)
    return Split(train, kept, test, codes if unit == "silo" else used[codes])


def _of_records(silos: Silos, holdout: float, streams: Streams) -> np.ndarray:
    """Return a mask of scoring rows: a share of each silo's."""
    order = streams.stream("holdout").permutation(len(silos.codes))
    rank = np.empty(len(order), dtype=np.int64)
    by_silo = order[np.argsort(silos.codes[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(silos.sizes)[:-1]])
    rank[by_silo] = np.arange(len(order)) - np.repeat(starts, silos.sizes)
    scored = np.maximum(1, np.round(holdout * silos.sizes)).astype(int)
    if (scored >= silos.sizes).any():
        silo = silos.ids[int(np.argmax(scored >= silos.sizes))]
        size = silos.sizes[int(np.argmax(scored >= silos.sizes))]
        raise ValueError(
            f"Silo {silo!r} has too few records to hold {holdout:g} of them out (n_samples={size})."
        )
    return rank < scored[silos.codes]


def _of_silos(silos: Silos, holdout: float, streams: Streams) -> np.ndarray:
    """Return a mask of scoring rows: those of a share of the silos."""
    n = len(silos.ids)
    n_scoring = max(1, round(holdout * n))
    if n_scoring >= n:
        raise ValueError(
            f'A search with unit="silo" holds whole silos out, and {n} silo(s) are too few to hold '
            f'{holdout:g} of them out. Give more silos, or unit="record".'
        )
    scores = np.zeros(n, dtype=bool)
    scores[streams.stream("holdout").subset(n, n_scoring)] = True
    return scores[silos.codes]
