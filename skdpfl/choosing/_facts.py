"""Public facts of the data of a fit: sizes, columns, and which silos answer in which round.

Cohorts are drawn by the fit, or given by the user. Given cohorts are public: there is no
amplification, and each silo pays for the rounds it answers in. With m_r of M silos in round r, a
fit counts as one with the share

    l = 1 / (M E[1 / m_r])        over the rounds with m_r > 0

of the silos in each round: noise and sampling enter through 1 / m_r, and 1 / l is its mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.algorithms.theory import effective_silos
from skdpfl.encoding import Encoding


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Public numbers, which together with the budget determine every choice of "auto".

    ``public_sizes`` (n_silos,) are the silos' numbers of records, or of persons if these are
    protected; None if they are protected (unit
    "silo"). ``n_outputs`` is the number of raw predictions of a record (1 for regression and two
    classes). ``feature_names`` is None if columns have none. ``class_shares`` are the labels'
    shares, if public.
    """

    silo_ids: pd.Index
    public_sizes: np.ndarray | None
    n_features: int
    n_outputs: int = 1
    is_classifier: bool = True
    feature_names: Sequence[str] | None = None
    class_shares: tuple[float, ...] | None = None
    #: columns (n_features,) whose values are known to be 0 or 1; None: none
    indicators: np.ndarray | None = None
    #: whether records have exposures
    has_exposure: bool = False
    #: what columns of a frame the features come from, if it holds not only numbers
    encoding: Encoding | None = None
    #: whether records stay where nobody else can look: no trust but in silos can be advised
    elsewhere: bool = False

    def with_columns(self, bounds: Any, names: Any, indicators: Any) -> PublicFacts:
        """Return the facts with the columns' names, and which of them are indicators.

        By default names are those in a mapping of bounds, which leaves out indicators.
        """
        d = self.n_features
        if names is None and isinstance(bounds, Mapping) and 0 not in bounds:
            names = [*list(bounds)[:d], *(f"indicator {j}" for j in range(len(bounds), d))]
            if indicators is None and len(bounds) < d:
                indicators = np.arange(d) >= len(bounds)
        flags = None if indicators is None else np.asarray(indicators, bool)
        if flags is not None and flags.shape != (d,):
            raise ValueError(f"indicators must have True or False for each of the {d} features.")
        if names is not None and len(names) != d:
            raise ValueError(f"feature_names has {len(names)} names for {d} features.")
        return replace(self, feature_names=names, indicators=flags)

    def encoded(self, encoding: Encoding) -> PublicFacts:
        """Return the facts of a frame with this encoding."""
        names, flags = encoding.names(), encoding.indicators()
        return replace(self, encoding=encoding, feature_names=names, indicators=flags)

    def widened(self, names: Sequence[str]) -> PublicFacts:
        """Return the facts of a table with additional columns."""
        flags, more = self.indicators, len(names) - self.n_features
        flags = None if flags is None else np.append(flags, [False] * more)
        return replace(self, n_features=len(names), feature_names=names, indicators=flags)

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The known ranges of columns, NaN for others; None if none is known."""
        if self.encoding is not None:
            return self.encoding.ranges()
        if self.indicators is None:
            return None
        return np.where(self.indicators, 0.0, np.nan), np.where(self.indicators, 1.0, np.nan)

    @property
    def n_silos(self) -> int:
        """The number of silos."""
        return len(self.silo_ids)

    @property
    def silo_sizes(self) -> np.ndarray:
        """The silos' numbers of records; raises if they are protected."""
        if self.public_sizes is None:
            raise RuntimeError('unit="silo" protects the silos\' numbers of records.')
        return self.public_sizes

    @property
    def n_protected(self) -> int:
        """The number of records (or persons, or silos) to protect."""
        return self.n_silos if self.public_sizes is None else self.n_records

    @property
    def n_records(self) -> int:
        """The total number of records (or persons)."""
        return int(self.silo_sizes.sum())


class TakingPart(NamedTuple):
    """How a round's silos are drawn and which share of them, or the given cohorts."""

    cohort: str
    silo_fraction: float
    cohorts: tuple[np.ndarray, ...] | None = None


def check_cohort(params: Mapping[str, Any]) -> None:
    """Raise unless cohort is the name of a scheme, or valid given cohorts."""
    cohort = params["cohort"]
    if isinstance(cohort, str) or cohort is None:
        check_choice("cohort", cohort, ("auto", "balanced", "uniform", "poisson"))
        return
    if not _is_table_of_answers(cohort):
        raise ValueError(
            'cohort must be "auto", "balanced", "uniform", "poisson", or a table of True and False '
            f"(n_rounds, n_silos); got {cohort!r}."
        )
    if params["unit"] == "silo":
        raise ValueError(
            'unit="silo" draws cohorts itself, since they may have to be secret: cohort must be '
            '"auto", "balanced", "uniform" or "poisson". The other units take given cohorts.'
        )
    if params["silo_fraction"] != 1:
        raise ValueError(
            "cohort states which silos answer in each round, so silo_fraction must be 1.0; got "
            f"{params['silo_fraction']!r}."
        )


def _is_table_of_answers(cohort: Any) -> bool:
    """Whether cohort is a two-dimensional table of True and False (or 1 and 0)."""
    try:
        values = np.asarray(cohort)
    except ValueError:  # rows of unequal length
        return False
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        return False
    return bool(np.isin(values, (0, 1)).all())


def read_taking_part(params: Mapping[str, Any], facts: PublicFacts) -> TakingPart:
    """Return how silos take part; "auto" is "poisson" only if a secret draw amplifies privacy."""
    cohort, n_rounds = params["cohort"], params["n_rounds"]
    if not isinstance(cohort, str):
        answers = _answers(cohort, facts, None if isinstance(n_rounds, str) else int(n_rounds))
        chosen = tuple(np.flatnonzero(row) for row in answers)
        sizes = np.array([len(silos) for silos in chosen if len(silos)])
        if not sizes.size:
            raise ValueError("cohort: no silo answers in any round.")
        return TakingPart("balanced", effective_silos(sizes)[0] / facts.n_silos, chosen)
    if cohort == "auto":
        hides = (params["unit"], params["trust"]) == ("silo", "server")
        cohort = "poisson" if hides else "balanced"
    return TakingPart(cohort, float(params["silo_fraction"]))


def _answers(table: Any, facts: PublicFacts, n_rounds: int | None) -> np.ndarray:
    """Return who answers, of shape (n_rounds, n_silos)."""
    if isinstance(table, pd.DataFrame):
        missing = [silo for silo in facts.silo_ids.tolist() if silo not in table.columns]
        if missing:
            raise ValueError(f"cohort has no column for silo(s) {missing[:5]!r}.")
        table = table[facts.silo_ids.tolist()]
    answers = np.asarray(table)
    if answers.shape[1] != facts.n_silos or len(answers) != (n_rounds or len(answers)):
        raise ValueError(
            f"cohort must be an array of (n_rounds, n_silos) = "
            f"({n_rounds or 'any'}, {facts.n_silos}); got shape {answers.shape}."
        )
    return answers.astype(bool)
