"""What helps a fit that noise drowns, in words; from public numbers only.

The noise of a fit is proportional to 1 / (mu N), for N records and a budget mu. So noise that is k
times too large asks for k N records, or for the epsilon of k mu.
"""

from __future__ import annotations

import dataclasses
import math

from skdpfl.algorithms import sends_one_gradient
from skdpfl.choosing._facts import Settings
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import cost_of_decay, noise_level
from skdpfl.choosing._request import Request
from skdpfl.models import Task
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu

_DROWNED = (
    "The noise will drown what {} records can show of {} coefficients, so {} may be worse than {}. "
)
#: noise that decays and costs less is not named
_STEEP = 1.5
_CHECK = (
    "Before the model is used, compare it with that constant: on public records, on records that "
    "are kept for it, or by skdpfl.remote.score_federation, which has a price of its own."
)


def advice_on_noise(
    request: Request, method: Method, settings: Settings, noise: float, task: Task
) -> str:
    """Return the warning for a model whose noise hides the signal, "" if it does not.

    Noise is in clip norms, so a given one above the norm of scaled rows makes it that much larger.
    """
    beyond = 1.0
    if request.clip_norm is not None and request.scaling is not None:
        beyond = max(1.0, request.clip_norm / task.norm)
    excess = request.model.rules.excess_noise(noise * beyond, task)
    if request.takes_no_advice or excess <= 1:
        return ""
    worse = "predictions", "the target's mean"
    if task.is_classifier:
        worse = "probabilities", "the classes' shares"
    said = _DROWNED.format(task.n_records, task.n_parameters, *worse)
    first = []
    if beyond > 1:
        first.append(f"a clip_norm of {task.norm:.2g} (the norm of scaled rows) or less")
    decay = cost_of_decay(request.noise_schedule, settings.steps)
    if decay > _STEEP:
        first.append(f"noise that decays less (this noise_schedule costs {_told(decay)})")
    return said + remedies(request, method, settings, excess, tuple(first))


def _told(decay: float) -> str:
    return f"{decay:.2g} times the noise" if decay < 100 else "over a hundred times the noise"


def remedies(
    request: Request,
    method: Method,
    settings: Settings,
    excess: float,
    first: tuple[str, ...] = (),
) -> str:
    """Return what makes ``excess`` times less noise, and what to do with the model as it is."""
    facts, promise = request.facts, request.guarantee
    budget = "larger budgets"
    if isinstance(promise.epsilon, float):
        delta = float(promise.delta.min())
        needed = gaussian_epsilon(excess * gaussian_mu(promise.epsilon, delta), delta)
        budget = f"an epsilon of about {_rounded_up(needed)}"
    ways = [
        *first,
        budget,
        f"about {_rounded_up(excess * facts.n_records)} records",
        "fewer columns",
    ]
    wanted = {
        "feature_bounds": request.feature_bounds,
        "target_bounds": facts.is_classifier or request.target_bounds,
    }
    missing = [name for name, given in wanted.items() if given is None or given is False]
    if missing and request.scaling is not None:
        ways.append(f"{' and '.join(missing)} (ranges that are public knowledge)")
    gain = _gain_of_server(request, method, settings)
    if gain > 1:
        ways.append(f'trust="server", if all silos trust the server ({gain:.2g} times less noise)')
    return f"What helps: {', '.join(ways[:-1])}, or {ways[-1]}. {_CHECK}"


def _gain_of_server(request: Request, method: Method, settings: Settings) -> float:
    """Return how many times less noise a trusted server adds; 0 where it cannot add the noise."""
    promise = request.guarantee
    own = method.given_mechanism is not None or not isinstance(promise.epsilon, float)
    if promise.trust != "silo" or own:
        return 0.0
    if not sends_one_gradient(method.algorithm(request, settings)):
        return 0.0
    trusted = dataclasses.replace(request, guarantee=dataclasses.replace(promise, trust="server"))
    noise = [noise_level(each, settings.rate, settings.steps).noise for each in (request, trusted)]
    return noise[0] / noise[1]


def _rounded_up(value: float) -> str:
    """Return a positive number with two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:,.12g}"
