"""A model's rules for "auto": number of rounds, clip norm and step size.

Rules depend on a few public numbers and on private estimates that were paid for. Where the user
sets a parameter, the others adapt to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

#: without noise the steps are limited by curvature alone
_MOMENTUM, _EXACT_MOMENTUM = 0.8, 0.95
#: gradients of a silo in a fit, where a round is cheap
_STEPS, _EXACT_STEPS = 100, 400
#: multiplications of a round beyond which fewer records are read, and the constant cost of a silo
_ROUND_WORK, _SILO_WORK = 2e8, 3e4
#: records of a silo that a step reads where silos are large; up to twice as many are all read
_BATCH = 2_000


class Task(NamedTuple):
    """The numbers about the learning task that rules read.

    ``curvature`` is that of the loss in the raw prediction, ``squared_row`` the mean squared norm
    of a scaled row, the intercept's 1 counted, ``slope`` the largest one of the loss.
    """

    curvature: float
    squared_row: float
    n_parameters: int
    work_per_record: int
    n_records: int
    n_silos: int
    is_classifier: bool
    slope: float = math.inf

    @property
    def norm(self) -> float:
        """The root mean square norm of a row."""
        return math.sqrt(self.squared_row)


class Rules(ABC):
    """Base class of a model's rules.

    ``noise`` is the standard deviation of the noise of the whole fit on each coordinate of the mean
    gradient (unit "silo": of the mean message), in clip norms; 0 without privacy.
    """

    #: gradients of a silo in a fit whose steps read a sample
    sampled_steps: ClassVar[int] = _STEPS
    #: multiplications of a fit beyond which fewer rounds are run
    fit_work: ClassVar[float] = 2e10

    @property
    def averages(self) -> bool:
        """Whether ``average=True`` is an average of the last half's models, or the last model."""
        return True

    # ---- clip norms and step sizes: each model defines its own -------------------------------

    @abstractmethod
    def clip_norm(self, noise: float, task: Task, alpha: float = 0.0) -> float:
        """Return the norm that records' gradients are clipped to; inf without noise."""

    @abstractmethod
    def learning_rate(
        self, clip: float, n_steps: float, momentum: float, noise: float, task: Task
    ) -> float:
        """Return the step size on the mean clipped gradient, for ``n_steps`` steps in total."""

    def steps_at_once(self, clip: float, n_rounds: int, task: Task) -> float:
        """Return how many of the longest steps a round may go by gradients near one model."""
        return 1.0

    @abstractmethod
    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the norm that messages are clipped to (unit "silo"); inf without noise."""

    @abstractmethod
    def silo_learning_rate(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return a silo's own step on its mean gradient (unit "silo")."""

    def excess_noise(self, noise: float, task: Task) -> float:
        """Return how many times too large the noise is for a model that beats a constant.

        0 where that is not known; more than 1 is warned of.
        """
        return 0.0

    # ---- number of rounds and batch size: from work and noise --------------------------------

    def sampling_rate(self, typical: float, mu: float, task: Task) -> float:
        """Return the share of its records that a silo's step reads: all while a round is cheap.

        Sampling costs nothing (it needs less noise) while noise multipliers stay above about one,
        that is, at rates of at least mu / (2 sqrt(steps)): so many are read if the work of a fit
        allows it for all of its steps. Fewer steps cost more than the noise that they save.
        """
        work = task.n_records * task.work_per_record
        rate = min(_ROUND_WORK / work, 1.0 if typical <= 2 * _BATCH else _BATCH / typical)
        if math.isfinite(mu):
            affordable = self.fit_work / self.sampled_steps - _SILO_WORK * task.n_silos
            rate = max(rate, min(mu / (2 * math.sqrt(_STEPS)), affordable / work))
        return rate if rate < 0.5 else 1.0

    def n_rounds(
        self, local_steps: int, rate: float, task: Task, *, exact: bool, plain: bool
    ) -> int:
        """Return the number of rounds of ``local_steps`` gradients; ``plain``: no momentum."""
        private = self.sampled_steps if rate < 1 else _STEPS
        steps = _EXACT_STEPS * (3 if plain else 1) if exact else private
        work = rate * task.n_records * task.work_per_record + _SILO_WORK * task.n_silos
        affordable = max(30.0, self.fit_work / work)
        return max(1, math.ceil(min(steps, affordable) / local_steps))

    def momentum(self, n_steps: int, noise: float) -> float:
        """Return the heavy-ball momentum of the server; 0 where there are too few steps for it."""
        most = _MOMENTUM if noise > 0 else _EXACT_MOMENTUM
        return min(most, max(0.0, 1 - 5 / n_steps))

    def with_penalty(self, eta: float, alpha: float, server: float, momentum: float) -> float:
        """Return a step size that is stable under the penalty, whose gradient is not clipped.

        A round changes the model by ``server eta alpha`` times itself. Beyond 2 (1 + m) the fit
        diverges.
        """
        return eta / (1 + 1.1 * eta * server * alpha / (1 + momentum))
