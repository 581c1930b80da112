"""The learning rate after planning: from the plan's noise or, without privacy, from the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm
from skdpfl.choosing._calibration import walk_of, with_clipped_quantile
from skdpfl.choosing._choose import with_step
from skdpfl.choosing._committed import Committed, Training
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import noise_of_plan

#: asks the silos for the curvature of their records
Measure = Callable[[Committed, Algorithm], Committed]


def final_training(committed: Committed, method: Method, measure: Measure) -> Training:
    """Return the training to run; a learning rate that was given is kept.

    What is released does not depend on it: the plan has been priced.
    """
    committed = _with_final_step(committed, method, measure)
    committed = with_clipped_quantile(committed, method)
    request = committed.request
    algorithm = method.algorithm(request, committed.settings)
    average = request.average
    helps = request.model.rules.averages or request.guarantee.hides_silos
    if average is True and (committed.is_deterministic or not helps):
        average = False  # there is no noise to average, or little
    walk = walk_of(committed, noise_of_plan(committed.plan)) if committed.plan.private else 0.0
    return method.training(algorithm, committed)._replace(average=average, walk=walk)


def _with_final_step(committed: Committed, method: Method, measure: Measure) -> Committed:
    request = committed.request
    given = request.learning_rate is not None
    if given and not method.has_own_step:
        _warn_if_penalty_diverges(committed)
    if committed.plan.private:
        return _with_planned_noise(committed)
    unknown = not request.model.is_linear  # the curvature follows from rows of linear models only
    if given or method.has_own_step or unknown:
        return committed
    return measure(committed, method.algorithm(request, committed.settings))


def _with_planned_noise(committed: Committed) -> Committed:
    """Return it with a learning rate for the plan's noise and the scales that were found."""
    request = committed.request
    if not request.chooses_step:
        return committed
    task = request.task(committed.squared_row - request.fit_intercept)
    settings = with_step(request, committed.settings, noise_of_plan(committed.plan), task)
    return dataclasses.replace(committed, settings=settings)


def _warn_if_penalty_diverges(committed: Committed) -> None:
    """Warn of a learning rate that diverges because of the penalty alone."""
    request, rate = committed.request, committed.settings.learning_rate
    pace = rate * request.alpha * max(1.0, committed.settings.server_step)
    if pace > 2 * (1 + committed.settings.momentum):
        warn(
            f"learning_rate={rate:g} with alpha={request.alpha:g} diverges: a step takes "
            f'{pace:.3g} times the weights away. Give a smaller learning_rate, or leave it "auto".'
        )
