"""People with several rows: a limit on what each of them contributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_count


def limit_rows(people: Any, most: int) -> np.ndarray:
    """Return which rows to keep so that nobody has more than ``most`` of them.

    A record is one row, and epsilon protects one record. Where a person has several rows, in one
    silo or in several, cut them to a limit k and read ``privacy_spent_.group(k)``, or ask
    :func:`skdpfl.privacy.epsilon_per_record` for the budget beforehand.

    Parameters
    ----------
    people : array-like of shape (n_samples,)
        Each row's person, over all silos. Ids are public here: who has rows, where and how many.
    most : int
        The limit k.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        Each person's first ``most`` rows, in the order given. Order the rows by something that is
        not secret (a visit's number, not its result) if the first ones are not the ones to keep.

    See Also
    --------
    skdpfl.privacy.epsilon_per_record : The budget of a record, from that of a person.

    Notes
    -----
    **Formal guarantee.** What is kept depends on ids and on the order of rows, not on other
    columns. So if all that a person's rows say is replaced, at most k kept records change, and what
    is (epsilon, delta)-DP for k records together is so for a person.

    Examples
    --------
    >>> from skdpfl.preprocessing import limit_rows
    >>> limit_rows(["ann", "bob", "ann", "ann"], 2)
    array([ True,  True,  True, False])
    """
    check_count("most", most)
    if isinstance(people, str) or not np.iterable(people):
        raise ValueError(f"people must be one id for each row; got {people!r}.")
    ids = pd.Series(list(people), dtype=object)
    if ids.isna().any():
        raise ValueError(
            f"people has {int(ids.isna().sum())} missing value(s); give each row a person, or "
            "drop the rows that have none."
        )
    return (ids.groupby(ids, sort=False).cumcount() < most).to_numpy()
