"""What an audit found, and how trials are judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdpfl._digits import at_least, at_most, epsilon_text
from skdpfl.inspection._display import COLOURS, axes_of, tidy
from skdpfl.inspection.audits.scores import Trials, fitted_score
from skdpfl.privacy.lower_bounds import (
    Rates,
    epsilon_from_rates,
    most_wins,
    mu_from_rates,
    mu_from_wins,
    one_run_epsilon,
    rates_from_counts,
    wins_from_scores,
)
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.privacy.spending.spent import PrivacySpent

#: the names of a score that needs no trials to be chosen, and of one that does
FIXED, FITTED = "fixed beforehand", "linear, fitted"
#: thresholds that are tried on half of the trials
THRESHOLDS = 200
#: epsilons at which the reported curve is compared, in units of the reported epsilon
CURVE = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
#: shares of the canaries that are guessed in one run
GUESSED = 1.0, 0.5, 0.2, 0.05


@dataclass(frozen=True, eq=False)
class PrivacyAudit:
    """The result of :func:`skdpfl.privacy.audit_epsilon`.

    Attributes
    ----------
    lower_bound : float
        The true epsilon, at the reported delta, is at least this; nothing is assumed.
    gaussian_bound : float
        The same if the releases are like one Gaussian release: larger, and right for full batches
        and Gaussian noise. NaN in an audit with one run.
    reported : float
        The epsilon that the estimator reports against this view.
    delta : float
        The delta of all three.
    confidence : float
        The probability that the bounds are right.
    contradicted : bool
        Whether the trials contradict the reported guarantee at some (epsilon, delta): the reported
        is a whole curve, ``privacy_spent_.delta_at(epsilon)``.
    view : str
        What the adversary saw.
    n_trials, n_fits : int
        Coins that were judged, and fits.
    score : str
        How trials were scored.
    rates : Rates
        The bounds of false and true positive rates; in an audit with one run the rates themselves,
        which bound nothing.
    wins : float
        A lower bound on how often the score of a fit with the one data set exceeds that of a fit
        with the other. NaN in an audit with one run.
    """

    lower_bound: float
    gaussian_bound: float
    reported: float
    delta: float
    confidence: float
    contradicted: bool
    view: str
    n_trials: int
    n_fits: int
    score: str
    rates: Rates
    wins: float
    curve: tuple[tuple[float, float], ...] = field(repr=False, default=())

    def __repr__(self) -> str:
        verdict = "contradicted" if self.contradicted else "not contradicted"
        return (
            f"PrivacyAudit(ε ≥ {at_least(self.lower_bound, decimals=2)}, reported "
            f"{epsilon_text(self.reported)} at δ={at_most(self.delta, 2)}: {verdict}; "
            f"view={self.view!r}, {self.n_trials} trials, "
            f"confidence {self.confidence:g})"
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the reported trade-off curve and the point that the attack reached.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            With false positives to the right and false negatives upwards. A point below the curve
            contradicts the guarantee, other than in an audit with one run, where it is an estimate.
        """
        _, ax = axes_of(ax)
        a = np.linspace(0, 1, 400)
        missed = [np.zeros_like(a)]
        for epsilon, delta in self.curve:
            missed.append(1 - delta - math.exp(epsilon) * a)
            missed.append(math.exp(-epsilon) * (1 - delta - a))
        reported = f"reported, ε = {epsilon_text(self.reported)}"
        ax.plot(a, np.max(missed, axis=0), color=COLOURS[0], label=reported)
        ax.plot(
            [self.rates.false_positive],
            [1 - self.rates.true_positive],
            "o",
            color=COLOURS[1],
            label=f"attack, ε ≥ {at_least(self.lower_bound, decimals=2)}",
        )
        ax.set(xlabel="false positives", ylabel="false negatives", xlim=(0, 1), ylim=(0, 1))
        ax.legend(frameon=False)
        tidy(ax)
        return ax


def judged(
    trials: Trials,
    law: np.ndarray | None,
    reported: PrivacySpent,
    confidence: float,
    view: str,
    n_fits: int,
    rng: np.random.Generator,
) -> PrivacyAudit:
    """Choose score and thresholds on half of the trials, and judge on the others.

    ``law`` is a score that was fixed before the trials: all of them are paired by it, and the other
    half by the fitted one.
    """
    train = rng.permutation(len(trials.coin)) < len(trials.coin) // 2
    epsilon, delta = reported.epsilon, reported.delta
    scores = {FITTED: fitted_score(trials, train)}
    if law is not None:
        scores[FIXED] = law
    error = (1 - confidence) / 4  # for lower_bound, for rates and for the wins of two scores
    best = _strongest({k: s[train] for k, s in scores.items()}, trials.coin[train], delta, error)
    rates = [
        _rates(sign * scores[name][~train], trials.coin[~train], cut, error)
        for _, name, cut, sign in best
    ]
    wins = wins_from_scores(scores[FITTED][~train], trials.coin[~train], rng, error)
    if law is not None:
        wins = max(wins, wins_from_scores(law, trials.coin, rng, error))
    curve, mu = _curve(reported), max(mu_from_rates(rates[1]), mu_from_wins(wins))
    return PrivacyAudit(
        epsilon_from_rates(rates[0], delta),
        gaussian_epsilon(mu, delta) if mu > 0 and delta else mu * 0,
        epsilon,
        delta,
        confidence,
        any(epsilon_from_rates(r, d) > e for r in rates for e, d in curve)
        or bool(curve and wins > most_wins(curve)),
        view,
        len(train) if law is not None else int((~train).sum()),
        n_fits,
        best[1][1],
        rates[1],
        wins,
        curve,
    )


def judged_one_run(
    scores: np.ndarray,
    coins: np.ndarray,
    zero_out: bool,
    reported: PrivacySpent,
    confidence: float,
    view: str,
) -> PrivacyAudit:
    """Guess the coins of one run's canaries, the surest ones."""
    m, delta = len(scores), reported.delta
    centred = scores - np.median(scores) if zero_out else scores
    sure, curve = np.argsort(-np.abs(centred)), _curve(reported)
    error, bound, contradicted = (1 - confidence) / len(GUESSED), 0.0, False
    for share in GUESSED:
        guessed = sure[: max(1, round(share * m))]
        right = int(np.count_nonzero((centred[guessed] > 0) == coins[guessed]))
        bound = max(bound, one_run_epsilon(m, len(guessed), right, delta, error))
        contradicted |= any(one_run_epsilon(m, len(guessed), right, d, error) > e for e, d in curve)
    positive = centred > 0
    rates = Rates(_share(positive[~coins], 1.0), _share(positive[coins], 0.0))
    return PrivacyAudit(
        bound, math.nan, reported.epsilon, delta, confidence, contradicted, view, m, 1, "sum of "
        "projections", rates, math.nan, curve,
    )  # fmt: skip


def _share(hits: np.ndarray, unknown: float) -> float:
    return float(hits.mean()) if hits.size else unknown


def _strongest(
    scores: dict[str, np.ndarray], coins: np.ndarray, delta: float, error: float
) -> list[tuple[float, str, float, float]]:
    """Return the largest epsilon and the largest mu: its value, score, threshold and sign."""
    best = [(-1.0, FITTED, 0.0, 1.0)] * 2
    for name, score in scores.items():
        for sign in (1.0, -1.0):
            for cut, rate in _cuts(sign * score, coins, error):
                for i, aim in enumerate((epsilon_from_rates(rate, delta), mu_from_rates(rate))):
                    best[i] = max(best[i], (aim, name, cut, sign))
    return best


def _cuts(scores: np.ndarray, coins: np.ndarray, error: float) -> Iterator[tuple[float, Rates]]:
    """Yield thresholds, more of them where few scores lie beyond, and their rates."""
    tails = np.geomspace(1 / len(scores), 1 / THRESHOLDS, THRESHOLDS // 4)
    levels = np.concatenate([np.linspace(0, 1, THRESHOLDS), tails, 1 - tails])
    ones, zeros = np.sort(scores[coins]), np.sort(scores[~coins])
    for cut in np.unique(np.quantile(scores, levels)).tolist():
        true, false = (len(part) - int(np.searchsorted(part, cut)) for part in (ones, zeros))
        yield cut, _bounded(false, len(zeros), true, len(ones), error)


def _rates(scores: np.ndarray, coins: np.ndarray, cut: float, error: float) -> Rates:
    guess = scores >= cut
    false, true = int((guess & ~coins).sum()), int((guess & coins).sum())
    return _bounded(false, int((~coins).sum()), true, int(coins.sum()), error)


def _bounded(false: int, negatives: int, true: int, positives: int, error: float) -> Rates:
    if not negatives or not positives:
        return Rates(1.0, 0.0)
    return rates_from_counts(false, negatives, true, positives, error)


def _curve(reported: PrivacySpent) -> tuple[tuple[float, float], ...]:
    """Return some pairs (epsilon, delta) of the reported guarantee."""
    if not math.isfinite(reported.epsilon):
        return ()
    epsilons = [share * reported.epsilon for share in CURVE]
    pairs = [(e, float(reported.delta_at(e))) for e in epsilons]
    return (*pairs, (reported.epsilon, reported.delta))
