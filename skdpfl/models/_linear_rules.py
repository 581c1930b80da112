"""Steps and clip norms of the linear model.

::

    rho     root mean square norm of a scaled row, the intercept's 1 counted
    s       noise of the whole fit on each coordinate of the mean gradient, in clip norms
    h       largest curvature of the loss in the raw prediction
    S       private gradients of a silo over all rounds, m the momentum of the steps

    C   = kappa rho               a typical row's slope is cut at kappa
    eta = (1 - m) c / (s S rho C)                      no more than what the curvature h rho^2 bears

Read: C rho eta / (1 - m) is how far one step moves the prediction of a typical row, at most, and
S times that is the ``path`` of a fit. Noise of s per step of it carries the prediction away by
s path in the end, so ``path = c / s`` lets it carry a margin c = 4 (labels: their predictions need
no scale), or a target's standard deviation by about a half. Neither kappa nor the number of rounds
matters much (benchmarks/auto): clipping far below the gradients' size costs nothing, as their
noise shrinks with it, and averages forget how many steps they were made of.

**Noise that hides a regression.** A record's gradient is its residual's sign times its row, cut to
one clip norm. Of P scaled, uncorrelated features that explain all of a target the mean is
``sqrt(2 / pi) / rho`` long at most; the noise on it is ``s sqrt(P)`` long. So beyond
``s sqrt(P) rho = 1.5`` there is twice as much noise as anything to learn. Fits of benchmarks/auto
have 0.9 (R2 0.22 instead of 0.72) and less; 1000 records of 400 features at epsilon 3 have 2.4, and
R2 below 0. Labels survive more: a prediction's sign needs no scale.
"""

from __future__ import annotations

import math

from skdpfl.models._rules import Rules, Task

#: noise over what a mean gradient can show of a regression, see above
_HOPELESS = 1.5


class LinearRules(Rules):
    """See the module."""

    def clip_norm(self, noise: float, task: Task, alpha: float = 0.0) -> float:
        """Return C: less noise, fewer gradients clipped; none without noise, to hide no bias.

        A penalty is balanced by clipped gradients, so clipping makes it stronger; and it
        shrinks the noise along with the model, by about h / (h + alpha): C may be larger by
        as much.
        """
        if noise <= 0:
            return math.inf
        if task.is_classifier:
            kappa = min(0.5, max(0.1, 0.012 / (noise * math.sqrt(task.n_parameters))))
        else:
            kappa = min(1.0, max(0.1, 0.012 / (noise * task.norm)))
        most = 1.0 if task.is_classifier else 2.0  # beyond that little is clipped
        return min(kappa * (1 + alpha / task.curvature), most) * task.norm

    def learning_rate(
        self, clip: float, n_steps: int, momentum: float, noise: float, task: Task
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
            bearable *= (1 + momentum) * max(3.0, 0.3 / kappa)
        return min((1 - momentum) * carried / (noise * n_steps * task.norm * clip), bearable)

    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the norm of messages (unit "silo") at which noise walks c in all rounds."""
        if noise <= 0:
            return math.inf
        return _carried(noise, task) / (noise * len(steps) * task.norm)

    def silo_learning_rate(self, steps: tuple[int, ...], noise: float, task: Task) -> float:
        """Return the local step (unit "silo"): slopes of 1/3 make messages of that norm."""
        bearable = 1 / (task.curvature * task.squared_row)
        if noise <= 0:
            return bearable
        message = self.message_clip_norm(steps, noise, task)
        # longer where a message is few steps: it is clipped
        most = bearable * min(4.0, max(1.0, 10 / max(steps)))
        return min(most, 3 * message / (max(steps) * task.norm))

    def warning_of_noise(self, noise: float, task: Task) -> str:
        """Return what to say of a regression in which there will be little but noise."""
        hidden = noise * math.sqrt(task.n_parameters) * task.norm > _HOPELESS
        if task.is_classifier or not hidden:
            return ""
        return (
            f"The noise will drown what {task.n_records} records can show of {task.n_parameters} "
            "coefficients, so predictions may be worse than the target's mean. Use fewer features, "
            "more records or a larger epsilon."
        )


def _carried(noise: float, task: Task) -> float:
    """Return c, how far the noise of a fit may carry a prediction."""
    if task.is_classifier:
        return 3.0
    return min(1.0, max(0.5, 0.5 * (0.03 / (noise * task.norm)) ** 0.4))
