r"""From an adversary's observations to bounds on epsilon: trials are scored, then judged.

A score is larger if the canary is more likely. If a round's release is a sampled Gaussian, x a
canary's contribution plus noise z, the score is the log likelihood ratio, summed over rounds::

    g(x) = log(1 - q + q exp((2 x - 1) / (2 z^2)))       g(x) - g(-x) under replacement, else g(x)

If single records' messages are shuffled, it is that of their set. Otherwise it is a linear function
of the observations, fitted to half of the trials: each block of rounds, rounds by the size of the
component orthogonal to the canary, other silos' noise, and additional values in messages.

Thresholds are chosen on half of the trials too, and judged on the other half.

**Lower bounds on epsilon.** An attack guesses which of two neighbouring data sets was used. With
false positive rate ``a`` and true positive rate ``b``, an (epsilon, delta)-DP mechanism has ::

    b <= e^epsilon a + delta        and        1 - a <= e^epsilon (1 - b) + delta

Rates are bounded by Clopper-Pearson intervals from independent trials. A score without a threshold
gives more information. Let w be the probability that the score of a run on one data set exceeds
that of a run on the other. It is at most the area above the trade-off curve f of the mechanism::

    w <= 1 - int_0^1 f(a) da        ( = Phi(mu / sqrt 2) under mu-GDP )

because the curve of a score lies above f (Dong, Roth & Su 2022). Disjoint pairs of runs are
independent, so the number of wins is binomial, and w is bounded by Clopper-Pearson too.

Under one run with m canaries, whose coins are independent, the number of correct guesses among r is
bounded by Binomial(r, e^epsilon / (1 + e^epsilon)) up to a term in m delta (Steinke, Nasr &
Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, theorem 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from skdpfl._arguments import at_least, at_most, epsilon_text
from skdpfl.algorithms import sends_one_gradient
from skdpfl.federation import Work
from skdpfl.inspection._display import COLOURS, axes_of, tidy
from skdpfl.inspection.audits.canaries import BackEnd
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.privacy.sampling import Disjoint, Halving
from skdpfl.privacy.spending.spent import PrivacySpent

#: larger bounds are not distinguished
MOST_EPSILON = 60.0


class Rates(NamedTuple):
    """An upper bound of the false positive rate and a lower bound of the true positive rate."""

    false_positive: float
    true_positive: float


def rates_from_counts(
    false_positives: int, negatives: int, true_positives: int, positives: int, error: float
) -> Rates:
    """Return bounds on both rates, which hold with probability at least 1 - ``error``."""
    k, n = false_positives, negatives
    most = float(betaincinv(k + 1, n - k, 1 - error / 2)) if k < n else 1.0
    k, n = true_positives, positives
    least = float(betaincinv(k, n - k + 1, error / 2)) if k else 0.0
    return Rates(most, least)


def epsilon_from_rates(rates: Rates, delta: float) -> float:
    """Return the smallest epsilon at which these rates are possible."""
    a, b = rates
    bounds = [
        math.log((gain - delta) / loss)
        for gain, loss in ((b, a), (1 - a, 1 - b))
        if gain > delta and loss > 0
    ]
    return min(MOST_EPSILON, max([0.0, *bounds]))


def mu_from_rates(rates: Rates) -> float:
    """Return the smallest mu at which a mu-GDP mechanism has these rates."""
    a, b = rates
    if a >= 1 or b <= 0:
        return 0.0
    return max(0.0, float(ndtri(b) - ndtri(a)))


def wins_from_scores(
    scores: np.ndarray, coins: np.ndarray, rng: np.random.Generator, error: float
) -> float:
    """Return a lower bound on the probability that a score with coin 1 exceeds one with coin 0.

    The scores are paired at random; the bound is wrong with probability at most ``error``.
    """
    ones, zeros = rng.permutation(scores[coins]), rng.permutation(scores[~coins])
    n = min(len(ones), len(zeros))
    k = int(np.count_nonzero(ones[:n] > zeros[:n]))
    return float(betaincinv(k, n - k + 1, error)) if k else 0.0


def mu_from_wins(wins: float) -> float:
    """Return the smallest mu for which a mu-GDP mechanism allows this rate of wins."""
    return max(0.0, math.sqrt(2) * float(ndtri(wins)))


def most_wins(curve: Sequence[tuple[float, float]], points: int = 4000) -> float:
    """Return the largest rate of wins that is possible under several (epsilon, delta) guarantees.

    The area is that of steps below the curve, which makes the result too large by 1 / points.
    """
    a = np.arange(1, points + 1) / points
    missed = np.zeros(points)
    for epsilon, delta in curve:
        missed = np.maximum(missed, 1 - delta - np.exp(min(epsilon, 700.0)) * a)
        missed = np.maximum(missed, np.exp(-epsilon) * (1 - delta - a))
    return float(1 - missed.mean())


def one_run_epsilon(
    n_canaries: int, n_guesses: int, n_correct: int, delta: float, error: float
) -> float:
    """Return a lower bound from one run, wrong with probability at most ``error``.

    An independent fair coin decides for each of ``n_canaries`` whether it is included (or which of
    two is). A fixed number of coins, ``n_guesses``, was guessed, ``n_correct`` of them correctly.
    ``delta`` is that of the guarantee.
    """
    if _one_run_p_value(n_canaries, n_guesses, n_correct, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, MOST_EPSILON
    for _ in range(30):
        middle = (low + high) / 2
        if _one_run_p_value(n_canaries, n_guesses, n_correct, middle, delta) > error:
            high = middle
        else:
            low = middle
    return low


def _one_run_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Bound the probability of v correct guesses or more under (epsilon, delta)-DP."""
    right = 1 / (1 + math.exp(-epsilon))
    exact = float(binom.sf(v - 1, r, right))
    if not delta or not v:
        return min(1.0, exact)
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, right))
    worst = float((below / np.arange(1, v + 1)).max())
    return min(1.0, exact + 2 * m * delta * worst)


#: blocks of rounds
BLOCKS = 24
#: quantiles of the noise across the canary that separate rounds
QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True)
class AuditSetting:
    """The parameters of :func:`skdpfl.privacy.audit_epsilon` other than data."""

    view: str
    n_fits: int
    confidence: float
    random_state: Any
    back_end: BackEnd

    @property
    def coins(self) -> np.random.Generator:
        """The audit's own random numbers."""
        seed = self.random_state
        return np.random.default_rng(seed if seed is None else [int(seed), 1])

    def seed(self, fit: int) -> int | None:
        """Return the ``random_state`` of one of the fits."""
        return None if self.random_state is None else int(self.random_state) * 10**6 + fit


@dataclass
class Trials:
    """The observations in each of n trials, and the coins.

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
    """Return the score (n,) of projections (n, n_rounds); None if their distribution is unknown."""
    plan = work.plan
    z = float(plan.noise_multiplier[silo])
    if not plan.mechanism.gaussian or not plan.mechanism.fresh_noise or not z > 0:
        return None
    if plan.unit != "silo":
        if not sends_one_gradient(work.algorithm):
            return None
        noise = z * np.array([f[0] if f.size else 1.0 for f in plan.factors])
        dealt = isinstance(plan.sampling, Disjoint | Halving)
        rate = 1.0 if dealt else float(plan.rates[silo])
    else:
        noise, dealt = np.full(plan.n_rounds, z), False
        amplified = plan.trust == "server" and plan.cohort == "poisson"
        rate = plan.silo_fraction if amplified else 1.0

    def ratio(x: np.ndarray) -> np.ndarray:
        exponent = (2 * x - 1) / (2 * noise**2)
        if isinstance(plan.sampling, Halving):
            exponent = np.add.reduceat(exponent, plan.sampling.starts, axis=1)
        if dealt:
            return np.asarray(np.logaddexp.reduce(exponent, axis=1))
        with np.errstate(divide="ignore"):
            each = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
        return np.asarray(each.sum(axis=1))

    return ratio(x) - ratio(-x) if plan.neighbours == "replace" else ratio(x)


def shuffled_ratio(work: Work, silo: int, x: np.ndarray, others: float) -> np.ndarray:
    """Return the score (n,) of shuffled records' messages (n, n_rounds, m), one the canary's.

    The others' messages are at ``others`` along the canary, its own at 1 or -1. The likelihood of a
    set of messages is the mean over which of them is the canary's, if it was sampled.
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
    """Return the linear score (n,) of all trials that best separates the coins of some."""
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
    """Return the sums over rounds with similar noise orthogonal to the canary."""
    cuts = np.quantile(trials.across[train], QUANTILES)
    level = np.searchsorted(cuts, trials.across, side="right") + 1
    level[trials.across < 1e-9] = 0
    n, n_levels = len(level), len(cuts) + 2
    places = level + n_levels * np.arange(n)[:, None]
    sums = np.bincount(places.ravel(), trials.along.ravel(), minlength=n * n_levels)
    return sums.reshape(n, n_levels)


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
        A lower bound on the true epsilon at the reported delta, without assumptions.
    gaussian_bound : float
        The lower bound if the releases are like one Gaussian release: larger, and valid for full
        batches and Gaussian noise. NaN in an audit with one run.
    reported : float
        The epsilon that the estimator reports against this view.
    delta : float
        The delta of all three.
    confidence : float
        The probability that the bounds are correct.
    contradicted : bool
        Whether the trials contradict the reported guarantee at some (epsilon, delta) of its curve
        ``privacy_spent_.delta_at(epsilon)``.
    view : str
        What the adversary saw.
    n_trials, n_fits : int
        The numbers of judged coins, and of fits.
    score : str
        The name of the score of trials.
    rates : Rates
        Bounds on false and true positive rates; in an audit with one run the rates themselves,
        which are not bounds.
    wins : float
        A lower bound on the probability that the score of a fit with one data set exceeds that of a
        fit with the other. NaN in an audit with one run.
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
            The axes, with false positive rates on x and false negative rates on y. A point below
            the curve contradicts the guarantee, except in an audit with one run, where it is an
            estimate.
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
    how: AuditSetting,
    rng: np.random.Generator,
) -> PrivacyAudit:
    """Choose score and thresholds on half of the trials, and judge on the others.

    ``law`` is a score that was fixed before the trials: all of them are paired by it, and the
    second half by the fitted score.
    """
    train = rng.permutation(len(trials.coin)) < len(trials.coin) // 2
    epsilon, delta = reported.epsilon, reported.delta
    scores = {FITTED: fitted_score(trials, train)}
    if law is not None:
        scores[FIXED] = law
    error = (1 - how.confidence) / 4  # for lower_bound, for rates and for the wins of two scores
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
        how.confidence,
        any(epsilon_from_rates(r, d) > e for r in rates for e, d in curve)
        or bool(curve and wins > most_wins(curve)),
        how.view,
        len(train) if law is not None else int((~train).sum()),
        how.n_fits,
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
    how: AuditSetting,
) -> PrivacyAudit:
    """Guess the coins of one run's canaries, those with the clearest scores."""
    m, delta = len(scores), reported.delta
    centred = scores - np.median(scores) if zero_out else scores
    sure, curve = np.argsort(-np.abs(centred)), _curve(reported)
    error, bound, contradicted = (1 - how.confidence) / len(GUESSED), 0.0, False
    for share in GUESSED:
        guessed = sure[: max(1, round(share * m))]
        right = int(np.count_nonzero((centred[guessed] > 0) == coins[guessed]))
        bound = max(bound, one_run_epsilon(m, len(guessed), right, delta, error))
        contradicted |= any(one_run_epsilon(m, len(guessed), right, d, error) > e for e, d in curve)
    positive = centred > 0
    rates = Rates(_share(positive[~coins], 1.0), _share(positive[coins], 0.0))
    return PrivacyAudit(
        bound, math.nan, reported.epsilon, delta, how.confidence, contradicted, how.view, m, 1,
        "sum of projections", rates, math.nan, curve,
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
    """Yield thresholds, more of them in the tails, and their rates."""
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
