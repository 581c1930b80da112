"""Rounds, steps and clip norms of networks.

Notation is that of :mod:`skdpfl.models._linear_rules`. Found by benchmarks/networks::

    C     = 0.2 rho
    path  = c / (s rho), at most 300 T / rho      T: steps; c = 1 for labels, 0.25 for numbers
    eta   = (1 - m) path / (T C),                 for numbers at most 2 / (h rho^2)

A fit moves the weights by at most ``path``, and noise of s per unit of path moves what enters a
hidden unit by ``s path rho = c``. A third of the linear model's c: every unit carries noise of its
own. Clip norms of 0.05 to 0.5 rho and momenta of 0 to 0.9 make little difference for labels, and so
do 50 to 200 steps where silos are read as a whole. Steps that read a sample are 200, and a fit may
take longer than a linear one: with little noise fewer steps are too long (Fashion-MNIST, epsilon 8,
trusted server: 0.827, 0.845 and 0.859 by 51, 100 and 200 steps). The last model is better than an
average of late ones: with this little noise, an average is above all a model of earlier steps.
"""

from __future__ import annotations

import math
from typing import ClassVar

from skdpfl.models._linear_rules import LinearRules
from skdpfl.models._rules import Task

#: clip norm over rho
_CLIP = 0.2
#: c for labels and for numbers
_LABELS, _NUMBERS = 1.0, 0.25
#: largest change of what enters a hidden unit in a step, on average
_BEARABLE = 300.0
#: largest step of a regression, times the curvature of a linear one
_STABLE = 2.0


class NetworkRules(LinearRules):
    """See the module; without noise, steps are those of the linear model."""

    sampled_steps: ClassVar[int] = 200
    fit_work: ClassVar[float] = 1e11

    @property
    def averages(self) -> bool:
        """The last model is used."""
        return False

    def clip_norm(self, noise: float, task: Task, alpha: float = 0.0) -> float:
        """Return C; without noise nothing is clipped."""
        return _CLIP * task.norm if noise > 0 else math.inf

    def learning_rate(
        self, clip: float, n_steps: float, momentum: float, noise: float, task: Task
    ) -> float:
        """Return eta, the step on the mean clipped gradient."""
        if noise <= 0 or math.isinf(clip):
            return super().learning_rate(clip, n_steps, momentum, 0.0, task)
        eta = (1 - momentum) * _path(noise, n_steps, task) / (n_steps * clip)
        bearable = _STABLE / (task.curvature * task.squared_row)
        return eta if task.is_classifier else min(eta, bearable)

    def steps_at_once(self, clip: float, n_rounds: int, task: Task) -> float:
        """Return 1: not tried for networks."""
        return 1.0

    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the clip norm of messages (unit "silo"): all rounds together make the path."""
        if noise <= 0:
            return math.inf
        return _path(noise, sum(steps), task) / len(steps)


def _path(noise: float, n_steps: float, task: Task) -> float:
    """Return how far a fit of ``n_steps`` may move the weights."""
    carried = _LABELS if task.is_classifier else _NUMBERS
    return min(carried / noise, _BEARABLE * n_steps) / task.norm
