"""The expected noise of a fit, before it is planned, and advice if it is too large.

It follows from public numbers only: budgets, sizes and weights.

::

    mu_i   silo i's budget, as Gaussian DP (N(0, 1) against N(mu, 1))
    s      noise of the whole fit on each coordinate of the mean gradient, in clip norms

    unit "record"   trust "silo"     s = D sqrt( sum_i (w_i / (n_i mu_i))^2 )
                    "secagg"         s = D max_i w_i / (n_i mu) sqrt(c / (c - t)) / sqrt(p)
                    else             s = D max_i w_i / (n_i mu) / sqrt(p)
    unit "silo"                      the same with n_i = 1

    unit "person"                    as "record", with n_i persons

D = 2 if a record (silo) is replaced, 1 if its contribution is set to zero; t of the c silos of a
round may collude (:mod:`skdpfl.privacy.release`). A share p of the silos takes part in a
round: T rounds cost a silo as p T do, and the noise of a round's one sum is divided by p N. With
trust "silo" p N records come with p of the noise's variance, and where whole silos are hidden from
outsiders, drawing them amplifies: there p counts as 1. One number is enough: T noisy gradients
with noise multiplier z = D sqrt(T) / mu each have noise z / n = D sqrt(T) / (mu n), and their
average has D / (mu n), for any T. Sampled batches (rate q) have z about q D sqrt(T) / mu on sums of
q n records: the same again, unless z is far below one. Noise that decays, z f_t in step t, has the
budget's price for z^2 = D^2 sum_t f_t^-2 / mu^2, and its average gradient sqrt( mean f_t^2 mean
f_t^-2 ) times the noise.

The noise is proportional to 1 / (mu N), for N records and a budget mu. So if it is k times too
large, k N records are needed, or the epsilon of k mu.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdpfl.algorithms import sends_one_gradient
from skdpfl.choosing._recipe import Recipe
from skdpfl.privacy.events import Trust
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.public_numbers import NoiseSchedule, noise_factors
from skdpfl.scaling import rarity

#: a larger (D / z)^2 is no privacy, and exp((D / z)^2) is to be computed
_MOST_SQUARED_SNR = 50.0
#: decay that costs more leaves nothing either
_MOST_DECAY = 1e6


class NoiseLevel(NamedTuple):
    """The silos' budgets mu, or one for all (1,), and the noise of the mean gradient."""

    mu: np.ndarray
    noise: float


def noise_level(recipe: Recipe, rate: float, steps: tuple[int, ...]) -> NoiseLevel:
    """Return the noise level of a fit with these steps per round, at a sampling rate.

    Each step over disjoint batches averages fewer records.
    """
    n_noised = len(steps) if recipe.promise.hides_silos else sum(steps)
    decay = cost_of_decay(recipe.noise_schedule, steps)
    if recipe.sampling != "disjoint":
        level = _level(recipe, rate, n_noised)
        return level._replace(noise=level.noise * decay)
    level = _level(recipe, 1.0, 1)
    return level._replace(noise=level.noise * decay * math.sqrt(n_noised))


def cost_of_decay(schedule: NoiseSchedule, steps: tuple[int, ...]) -> float:
    """Return the factor by which decaying noise increases a fit's noise."""
    if schedule is None:
        return 1.0
    factors = np.concatenate(noise_factors(schedule, steps))
    with np.errstate(over="ignore", divide="ignore"):
        cost = math.sqrt(np.square(factors).mean() * np.square(1 / factors).mean())
    return min(cost, _MOST_DECAY)


def budgets(recipe: Recipe, rate: float, n_steps: int) -> np.ndarray:
    """Return mu of each silo, or one for all (1,), without the part for a histogram of columns."""
    promise, change = recipe.promise, recipe.promise.change
    if promise.epsilon is None:
        z = promise.noise_multiplier
        if rate >= 1:
            return np.array([change * math.sqrt(n_steps) / z])
        growth = math.expm1(min((change / z) ** 2, _MOST_SQUARED_SNR))
        hits = rate * n_steps  # the expected number of steps that use a record
        often = min(n_steps, hits + 4 * math.sqrt(hits) + 3)
        return np.array([min(rate * math.sqrt(n_steps * growth), change * math.sqrt(often) / z)])
    share = recipe.left * promise.guarantee.share_in_silo(recipe.facts.n_silos)
    return share * promise.mu


def _level(recipe: Recipe, rate: float, n_noised: int) -> NoiseLevel:
    mu, sizes = budgets(recipe, rate, n_noised), recipe.facts.silo_sizes
    exposed = recipe.weights / (1.0 if sizes is None else sizes)
    least, change = float(mu.min()), recipe.promise.change
    if recipe.promise.trust == "silo":
        return NoiseLevel(mu, change * float(np.sqrt(np.square(exposed / mu).sum())))
    share = recipe.silo_fraction
    if recipe.promise.hides_silos and not recipe.promise.shares_noise:
        share = 1.0
    noise = change * float(exposed.max()) / least / math.sqrt(share)
    return NoiseLevel(mu, noise * _excess_of_shares(recipe))


def _excess_of_shares(recipe: Recipe) -> float:
    """Return the noise of all shares over the priced noise; 1 if silos do not share noise."""
    promise = recipe.promise
    if not promise.shares_noise:
        return 1.0
    size = max(1, round(recipe.silo_fraction * recipe.facts.n_silos))
    return math.sqrt(size / max(1, size - promise.colluding))


def noise_of_plan(plan: PrivacyPlan) -> float:
    """Return the noise of the whole fit on each coordinate of the mean, in clip norms."""
    if not plan.private:
        return 0.0
    n_noised = plan.n_rounds if plan.unit == "silo" else sum(plan.steps)
    scheduled = math.sqrt(np.square(np.concatenate(plan.factors)).mean())
    noise = plan.mechanism.noise_on_mean(plan) / plan.clip_norm
    return noise * scheduled / math.sqrt(n_noised)


_DROWNED = (
    "The noise will drown the signal of {} records for {} coefficients, so {} may be worse than "
    "{}. "
)
#: labels whose variance is smaller by this factor than that of equally frequent ones are rare
_SELDOM = 1.5
_CHECK = (
    "Before you use the model, compare it with that constant: on public records, on held-out "
    "records, or by skdpfl.remote.score_federation, which has its own price."
)


def advice_on_noise(recipe: Recipe, shares: tuple[float, ...] | None = None) -> str:
    """Return the warning for a model whose noise hides the signal, "" if it does not.

    Noise is proportional to the clip norm, so a clip norm above the norm of scaled rows increases
    it by that factor. Rare labels have less signal: ``shares`` are the labels' shares, if they are
    public or were counted within the budget.
    """
    task, beyond = recipe.expected, 1.0
    if recipe.clip_norm is not None and recipe.scaling is not None:
        beyond = max(1.0, recipe.clip_norm / task.norm)
    rare = 1.0 if shares is None or not task.is_classifier else rarity(shares)
    excess = recipe.model.rules.excess_noise(recipe.noise * beyond * rare, task)
    if recipe.takes_no_advice or excess <= 1:
        return ""
    worse = "predictions", "the target's mean"
    if task.is_classifier:
        worse = "probabilities", "the classes' shares"
    message = _DROWNED.format(task.n_records, task.n_parameters, *worse)
    if shares is not None and rare > _SELDOM:
        message += f"The rarest label has about {min(shares):.2g} of the records. "
    return message + remedies(recipe, excess)


def remedies(recipe: Recipe, excess: float) -> str:
    """Return advice that reduces the noise by a factor ``excess``, and on using the model."""
    facts, promise = recipe.facts, recipe.promise
    budget = "larger budgets"
    if isinstance(promise.epsilon, float):
        delta = float(promise.delta.min())
        needed = gaussian_epsilon(excess * gaussian_mu(promise.epsilon, delta), delta)
        budget = f"an epsilon of about {rounded_up(needed)}"
    ways = [
        budget,
        f"about {rounded_up(excess * facts.n_records)} records",
        "fewer columns",
    ]
    wanted = {
        "feature_bounds": recipe.feature_bounds,
        "target_bounds": facts.is_classifier or recipe.target_bounds,
    }
    missing = [name for name, value in wanted.items() if value is None]
    if missing and recipe.scaling is not None:
        ways.append(f"{' and '.join(missing)} (ranges that are public knowledge)")
    for trust, condition in _TRUSTED.items():
        gain = _gain_of(trust, recipe)
        if gain > 1:
            ways.append(f'trust="{trust}", if {condition} ({gain:.2g} times less noise)')
    return f"What helps: {', '.join(ways[:-1])}, or {ways[-1]}. {_CHECK}"


#: the assumptions of other trusts
_TRUSTED: dict[Trust, str] = {
    "secagg": "at most one silo colludes with the server",
    "server": "all silos trust the server",
}


def _gain_of(trust: Trust, recipe: Recipe) -> float:
    """Return the factor by which another trust reduces noise; 0 if it cannot be used."""
    promise, shares, settings = recipe.promise, trust == "secagg", recipe.settings
    own = recipe.method.given_mechanism is not None or not isinstance(promise.epsilon, float)
    if promise.trust != "silo" or own or recipe.facts.elsewhere:
        return 0.0
    if shares and recipe.facts.n_silos * recipe.silo_fraction < 2:
        return 0.0
    if not sends_one_gradient(recipe.algorithm):
        return 0.0
    trusted = replace(recipe, promise=promise.trusting(trust, int(shares)))
    noise = [noise_level(each, settings.rate, settings.steps).noise for each in (recipe, trusted)]
    return noise[0] / noise[1]


def rounded_up(value: float) -> str:
    """Return a positive number with two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:,.12g}"
