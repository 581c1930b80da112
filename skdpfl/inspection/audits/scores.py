r"""From what an adversary saw to a number that is larger where the canary is likelier.

Where a round's release is a sampled Gaussian, x a canary's share of it plus noise z, the score is
the logarithm of the likelihood ratio, summed over rounds::

    g(x) = log(1 - q + q exp((2 x - 1) / (2 z^2)))       g(x) - g(-x) under replacement, else g(x)

(where single records' messages are shuffled, that of their set).
Otherwise it is a linear function of what was seen, fitted to half of the trials: each block of
rounds, rounds by the size of what is not along the canary, other silos' noise, and what is sent
beside messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpfl.algorithms import sends_one_gradient
from skdpfl.federation import Work
from skdpfl.privacy.sampling import Disjoint

#: blocks of rounds
BLOCKS = 24
#: rounds are told apart by the noise across the canary, at these quantiles
QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)


@dataclass
class Trials:
    """What was seen in each of n trials, and the coins.

    ``along``, ``across`` and ``witness`` are (n, n_rounds), ``beside`` (n, k), ``coin`` (n,).
    """

    along: np.ndarray
    across: np.ndarray
    witness: np.ndarray
    beside: np.ndarray
    coin: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Trials]) -> Trials:
        """Return the trials of all parts."""
        return cls(
            *(np.concatenate(v) for v in zip(*(vars(p).values() for p in parts), strict=True))
        )


def likelihood_ratio(work: Work, silo: int, x: np.ndarray) -> np.ndarray | None:
    """Return the score (n,) of projections (n, n_rounds); None where their law is not known."""
    plan = work.plan
    z = float(plan.noise_multiplier[silo])
    if not plan.mechanism.gaussian or not plan.mechanism.fresh_noise or not z > 0:
        return None
    if plan.unit == "record":
        if not sends_one_gradient(work.algorithm):
            return None
        noise = z * np.array([f[0] if f.size else 1.0 for f in plan.factors])
        dealt = isinstance(plan.sampling, Disjoint)
        rate = 1.0 if dealt else float(plan.rates[silo])
    else:
        noise, dealt = np.full(plan.n_rounds, z), False
        amplified = plan.trust == "server" and plan.cohort == "poisson"
        rate = plan.silo_fraction if amplified else 1.0

    def ratio(x: np.ndarray) -> np.ndarray:
        exponent = (2 * x - 1) / (2 * noise**2)
        if dealt:
            return np.asarray(np.logaddexp.reduce(exponent, axis=1))
        with np.errstate(divide="ignore"):
            each = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
        return np.asarray(each.sum(axis=1))

    return ratio(x) - ratio(-x) if plan.neighbours == "replace" else ratio(x)


def shuffled_ratio(work: Work, silo: int, x: np.ndarray, others: float) -> np.ndarray:
    """Return the score (n,) of shuffled records' messages (n, n_rounds, m), one the canary's.

    The others' lie at ``others`` along the canary, whose own lies at 1 or -1. The likelihood of a
    set of messages is the mean over which of them is the canary's, if it was drawn.
    """
    plan = work.plan
    noise = float(plan.noise_multiplier[0]) * np.array([f[0] for f in plan.factors])[:, None]
    present = ~np.isnan(x)
    rate = float(plan.rates[silo])

    def likelihood(at: float) -> np.ndarray:
        exponent = (np.square(x - others) - np.square(x - at)) / (2 * noise**2)
        inside = np.logaddexp.reduce(np.where(present, exponent, -np.inf), axis=2)
        inside -= np.log(np.maximum(present.sum(axis=2), 1))
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + inside))

    return np.asarray((likelihood(1.0) - likelihood(-1.0)).sum(axis=1))


def fitted_score(trials: Trials, train: np.ndarray) -> np.ndarray:
    """Return the linear score (n,) of all trials that best tells the coins of some apart."""
    seen = _features(trials, train)
    known, coin = seen[train], trials.coin[train]
    scale = known.std(axis=0)
    seen = (seen - known.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    known = seen[train]
    if coin.all() or not coin.any():
        return np.asarray(seen[:, 0])
    means = known[coin].mean(axis=0), known[~coin].mean(axis=0)
    rest = known - np.where(coin[:, None], *means)
    within = rest.T @ rest / len(known)
    # few trials: only sums are told apart well
    ridge = np.diag(within).mean() * known.shape[1] / len(known)
    weights = np.linalg.solve(within + (ridge + 1e-12) * np.eye(len(within)), means[0] - means[1])
    return np.asarray(seen @ weights)


def _features(trials: Trials, train: np.ndarray) -> np.ndarray:
    n, n_rounds = trials.along.shape
    if not n_rounds:
        return trials.beside
    columns = [trials.along.sum(axis=1, keepdims=True), trials.witness.sum(axis=1, keepdims=True)]
    edges = np.linspace(0, n_rounds, min(BLOCKS, n_rounds) + 1).astype(int)[:-1]
    if n_rounds > 1:
        columns.append(np.add.reduceat(trials.along, edges, axis=1))
        columns.append(_by_level(trials, train))
    columns.append(np.square(trials.across).sum(axis=1, keepdims=True))
    columns.append(trials.beside)
    return np.concatenate(columns, axis=1).reshape(n, -1)


def _by_level(trials: Trials, train: np.ndarray) -> np.ndarray:
    """Return the sums over rounds whose noise across the canary is of one level."""
    cuts = np.quantile(trials.across[train], QUANTILES)
    level = np.searchsorted(cuts, trials.across, side="right") + 1
    level[trials.across < 1e-9] = 0
    n, n_levels = len(level), len(cuts) + 2
    places = level + n_levels * np.arange(n)[:, None]
    sums = np.bincount(places.ravel(), trials.along.ravel(), minlength=n * n_levels)
    return sums.reshape(n, n_levels)
