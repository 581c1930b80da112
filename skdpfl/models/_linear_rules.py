"""Steps and clip norms of the linear model.

::

    rho     root mean square norm of a scaled row, the intercept's 1 counted
    s       noise of the whole fit on each coordinate of the mean gradient, in clip norms
    h       largest curvature of the loss in the raw prediction
    S       private gradients of a silo over all rounds, m the momentum of the steps

    C   = kappa rho               the slope of a typical row is clipped at kappa
    eta = (1 - m) c / (s S rho C)                      and at most the step that h rho^2 allows

One step changes the prediction of a typical row by at most C rho eta / (1 - m); S times that is
the ``path`` of a fit. Noise of s per unit of path changes the prediction by s path in total. With
``path = c / s`` this is a margin c = 4 for labels (the scale of their predictions does not matter),
or about half a standard deviation of a regression target. Neither kappa nor the number of rounds
matters much (benchmarks/auto): clipping far below the gradients' norms costs nothing, as the noise
shrinks with the clip norm, and the averaged model hardly depends on the number of steps. Skewed
targets are the exception, as clipped slopes balance at another value than the mean: with little
noise kappa is up to 4, which costs other targets 0.002 of R2 at most. Slopes are then not clipped
near the optimum, and the step that h rho^2 allows is shorter by kappa.

**Noise that hides the signal.** A record's gradient is the sign of its residual times its row,
clipped to one clip norm. For P scaled, uncorrelated features that explain a target completely, the
mean gradient has norm at most ``sqrt(2 / pi) / rho``; its noise has norm ``s sqrt(P)``. So beyond
``s sqrt(P) rho = 1.5`` the noise is twice the signal, and a regression is warned of. Where the
target's scale is found privately, that fails before (:mod:`skdpfl.choosing._choose`). Probabilities
of a classifier are warned of beyond ``s = 0.03``, and beyond ``s = 0.018`` where ``s P > 0.8``.
These are limits by experiment: benchmarks/auto/warned.md says what they find and what they miss.
"""

from __future__ import annotations

import math

from skdpfl.models._rules import Rules, Task

#: noise over the mean gradient of a regression; s of a classifier, and with s P; see above
_HOPELESS, _UNSURE, _MANY = 1.5, 0.03, (0.018, 0.8)


class LinearRules(Rules):
    """See the module."""

    def clip_norm(self, noise: float, task: Task, alpha: float = 0.0) -> float:
        """Return C. With less noise fewer gradients are clipped; without noise, none.

        Clipped gradients balance the penalty, so clipping makes the penalty stronger. The penalty
        also shrinks the noise and the model by about h / (h + alpha), so C may be larger by the
        inverse factor.
        """
        if noise <= 0:
            return math.inf
        if task.is_classifier:
            kappa = min(0.5, max(0.1, 0.012 / (noise * math.sqrt(task.n_parameters))))
        else:
            kappa = max(0.1, 0.012 / (noise * task.norm))
            kappa = min(kappa, math.sqrt(kappa), max(1.0, min(task.slope, 4.0)))
        most = 1.0 if task.is_classifier else max(2.0, kappa)  # larger norms clip little
        return min(kappa * (1 + alpha / task.curvature), most) * task.norm

    def learning_rate(
        self, clip: float, n_steps: float, momentum: float, noise: float, task: Task
    ) -> float:
        """Return eta, the step on the mean clipped gradient.

        Without noise ``task.squared_row`` is the largest eigenvalue of the mean of a a^T.
        """
        bearable = 1 / (task.curvature * task.squared_row)
        if noise <= 0:
            return 1.8 * (1 + momentum) * bearable
        kappa, carried = clip / task.norm, _carried(noise, task)
        if task.is_classifier:
            bearable *= (1 - momentum) * max(7.0, 54 / kappa)
            carried *= math.sqrt(min(1.0, 0.3 / kappa))
        else:
            bearable *= (1 + momentum) * max(3.0 / max(1.0, kappa), 0.3 / kappa)
        return min((1 - momentum) * carried / (noise * n_steps * task.norm * clip), bearable)

    def steps_at_once(self, clip: float, n_rounds: int, task: Task) -> float:
        """Return how many of the longest steps a round may go by gradients near one model.

        By experiment (benchmarks/auto/results.md): two where the average over many rounds takes
        oscillations away, one in few rounds. Regressions whose gradients are clipped go further,
        up to ``3 / kappa`` in all: clipped gradients do not grow as a model oscillates.
        """
        most, kappa = min(2.0, max(1.0, n_rounds / 10)), clip / task.norm
        return most if task.is_classifier else max(3 * most, 3 / kappa) / max(3.0, 0.3 / kappa)

    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the clip norm of messages (unit "silo") at which all noise adds up to c."""
        if noise <= 0:
            return math.inf
        return _carried(noise, task) / (noise * len(steps) * task.norm)

    def silo_learning_rate(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the local step (unit "silo") at which slopes of 1/3 give messages of that norm."""
        bearable = 1 / (task.curvature * task.squared_row)
        if noise <= 0:
            return bearable
        message = self.message_clip_norm(steps, noise, task)
        # longer where a message consists of few steps: it is clipped
        most = bearable * min(4.0, max(1.0, 10 / max(steps)))
        return min(most, 3 * message / (max(steps) * task.norm))

    def excess_noise(self, noise: float, task: Task) -> float:
        """Return how many times too large the noise is for a model that beats a constant."""
        if task.is_classifier:
            return noise / min(_UNSURE, max(_MANY[0], _MANY[1] / task.n_parameters))
        return noise * math.sqrt(task.n_parameters) * task.norm / _HOPELESS


def _carried(noise: float, task: Task) -> float:
    """Return c, the change of a prediction that the noise of a fit may cause."""
    if task.is_classifier:
        return 3.0
    return min(1.0, max(0.5, 0.5 * (0.03 / (noise * task.norm)) ** 0.4))
