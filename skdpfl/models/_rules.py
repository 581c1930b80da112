"""A model's rules for "auto": number of rounds, clip norm and step size.

Rules depend on a few public numbers and on released estimates. If the user sets a parameter, the
others adapt to it::

    rho     root mean square norm of a scaled row, the intercept's 1 counted
    s       noise of the whole fit on each coordinate of the mean gradient, in clip norms
    h       largest curvature of the loss in the raw prediction
    S       private gradients of a silo over all rounds, m the momentum of the steps

**The linear model**::

    C   = kappa rho               the slope of a typical row is clipped at kappa
    eta = (1 - m) c / (s S rho C)                      and at most the step that h rho^2 allows

One step changes the prediction of a typical row by at most C rho eta / (1 - m); S times that is the
``path`` of a fit. Noise of s per unit of path changes the prediction by s path in total. With
``path = c / s`` this is a margin c = 3 for labels (the scale of their predictions does not matter),
or half a standard deviation of a regression target. Neither kappa nor the number of rounds
matters much (benchmarks/auto): clipping far below the gradients' norms costs nothing, since the
noise is proportional to the clip norm, and the averaged model hardly depends on the number of
steps. Skewed targets are an exception, because clipped slopes balance at another value than the
mean: with little noise kappa is up to 4, which reduces R2 of other targets by at most 0.002. Slopes
are then not clipped near the optimum, and the step that h rho^2 allows is smaller by a factor
kappa.

**Momentum.** Let a = c / (s S rho C), and let steps with momentum m be stable up to (1 + m) b. The
least momentum with which stable steps go the path is (a - b) / (a + b)::

    m = max(0, (a - b) / (a + b))                      and at most 1 - 1 / sqrt(S)

A velocity that lasts sqrt(S) steps is forgotten by those that are averaged. Without noise m is the
largest one. More than is needed only delays, and the last gradients, whose noise was paid for, are
hardly used. Classifiers that are clipped as published, whose path it cannot lengthen, have 0.8: it
damps steps that are longer than stable ones.

**Two classes, clipped without labels** (:class:`skdpfl.losses.LogLoss`): half of this path, as
clipped gradients balance at the true coefficients, not beyond. The curvature of clipped gradients
is at most C / (2 |a|) times a a^T for a row a, and does not saturate. So for rows of norm rho, and
l the largest eigenvalue of the mean of a a^T, steps with momentum m are stable up to

    eta <= 4 (1 + m) rho / (C l)

It is at most rho^2, and for curves about half of that (:class:`skdpfl.scaling.CurveScaling`).

**Noise that hides the signal.** A record's gradient is the sign of its residual times its row,
clipped to one clip norm. For P scaled, uncorrelated features that explain a target completely, the
mean gradient has norm at most ``sqrt(2 / pi) / rho``; its noise has norm ``s sqrt(P)``. So beyond
``s sqrt(P) rho = 1.5`` the noise is twice the signal, and a regression gives a warning. If the
target's scale is estimated privately, that fails earlier (:mod:`skdpfl.choosing._choose`). A
classifier's probabilities give a warning beyond ``s = 0.03``, and beyond ``s = 0.018`` if ``s P >
0.8``; if the shares q of the labels are known, s is multiplied by ``(1 - 1 / K) / (1 - sum q^2)``.
These limits are from experiments: benchmarks/auto/results.md counts what they find and what they
miss.

**Networks**, by benchmarks/networks, with T steps::

    C     = 0.2 rho
    path  = c / (s rho), at most 300 T / rho      c = 1 for labels, 0.25 for numbers
    eta   = (1 - m) path / (T C),                 for numbers at most 2 / (h rho^2)

A fit changes the weights by at most ``path``, and noise of s per unit of path changes the input of
a hidden unit by ``s path rho = c``, a third of the linear model's c, since every unit has its own
noise. Clip norms of 0.05 to 0.5 rho and momenta of 0 to 0.9 make little difference for labels, and
so do 50 to 200 steps on full batches. With sampling there are 200 steps, and a fit may take longer
than a linear one: with little noise, fewer steps would have to be too long (Fashion-MNIST, epsilon
8, trusted server: accuracy 0.827, 0.845 and 0.859 with 51, 100 and 200 steps). The last model is
better than an average of late ones, since with so little noise an average mainly lags behind.
"""

import math
from typing import ClassVar, NamedTuple

#: kappa times s sqrt(P) or s rho, where no limit binds (kappa .1, .2 or .3 for all labels: log loss
#: +.0012 to +.0026, .047 of AUC at worst; at most 1 for numbers: R2 -.016 where they are skewed)
_KAPPA = 0.012
#: c, the change of a typical prediction by the noise of a fit: of log odds, of scaled targets (up
#: to 1 with less noise: R2 -.0002)
_OF_LABELS, _OF_NUMBERS = 3.0, 0.5
#: momentum with noise where curvature does not bound steps: classifiers clipped as published,
#: networks
_MOMENTUM = 0.8
#: gradients of a silo in a fit, where a round is cheap, as a model hardly depends on their number;
#: without privacy, for the optimum (three times as many without momentum)
STEPS, _EXACT_STEPS = 100, 400
#: those that are enough for two classes, a linear model and momentum, where noise over curvature is
#: at least this (100: log loss +.0015, and 2.5 times as long)
FEW_STEPS, _MUCH_NOISE = 40, 0.003
#: multiplications of a round beyond which fewer records are read, and the constant cost of a silo
_ROUND_WORK, _SILO_WORK = 2e8, 3e4
#: records of a silo that a step reads where silos are large; up to twice as many are all read
_BATCH = 2_000


class RuleTask(NamedTuple):
    """The numbers about the learning task that rules read.

    ``curvature`` is that of the loss in the raw prediction, ``squared_row`` the mean squared norm
    of a scaled row a, including the intercept's 1, ``steepest`` a bound of the largest eigenvalue
    of the mean of a a^T (None: ``squared_row``), ``slope`` the loss's largest slope. ``is_binary``:
    a classifier of two classes; ``label_free``: whose gradients are clipped without their labels.
    """

    curvature: float
    squared_row: float
    n_parameters: int
    work_per_record: int
    n_records: int
    n_silos: int
    is_classifier: bool
    slope: float = math.inf
    is_binary: bool = False
    label_free: bool = False
    steepest: float | None = None

    @property
    def norm(self) -> float:
        """The root mean square norm of a row."""
        return math.sqrt(self.squared_row)


#: noise over the mean gradient of a regression; s of a classifier, and with s P, by
#: the fits that benchmarks/auto/results.md counts
_HOPELESS, _UNSURE, _MANY = 1.5, 0.03, (0.018, 0.8)


class Rules:
    """The rules of the linear model, the base class of others; see the module's docstring.

    ``noise`` is the standard deviation of the noise of the whole fit on each coordinate of the mean
    gradient (unit "silo": of the mean message), in clip norms; 0 without privacy.
    """

    #: gradients of a silo in a fit whose steps read a sample
    sampled_steps: ClassVar[int] = STEPS
    #: multiplications of a fit beyond which fewer rounds are run
    fit_work: ClassVar[float] = 2e10
    #: whether ``average=True`` averages the second half's models, or is the last model
    averages: ClassVar[bool] = True

    # ---- clip norms and step sizes: models may define their own ------------------------------

    def clip_norm(self, noise: float, task: RuleTask, alpha: float = 0.0) -> float:
        """Return C. With less noise fewer gradients are clipped; without noise, none.

        Clipped gradients balance the penalty, so clipping makes the penalty stronger. The penalty
        also shrinks the noise and the model by about h / (h + alpha), so C may be larger by the
        inverse factor.
        """
        if noise <= 0:
            return math.inf
        if task.is_classifier:
            kappa = min(0.5, max(0.1, _KAPPA / (noise * math.sqrt(task.n_parameters))))
        else:
            kappa = max(0.1, _KAPPA / (noise * task.norm))
            kappa = min(kappa, math.sqrt(kappa), max(1.0, min(task.slope, 4.0)))
        most = 1.0 if task.is_classifier else max(2.0, kappa)  # larger norms clip little
        return min(kappa * (1 + alpha / task.curvature), most) * task.norm

    def learning_rate(
        self, clip: float, n_steps: float, momentum: float, noise: float, task: RuleTask
    ) -> float:
        """Return eta, the step on the mean clipped gradient.

        Without noise ``task.squared_row`` is the largest eigenvalue of the mean of a a^T.
        """
        if noise <= 0:
            return 1.8 * (1 + momentum) / (task.curvature * task.squared_row)
        wanted = _wanted_step(clip, n_steps, noise, task)
        return min((1 - momentum) * wanted, _bearable_step(clip, momentum, task))

    def needed_momentum(self, clip: float, n_steps: float, noise: float, task: RuleTask) -> float:
        """Return the momentum with which steps that are stable go the whole path."""
        if noise <= 0 or (task.is_classifier and not task.label_free):
            return _MOMENTUM if noise > 0 else 1.0
        wanted = _wanted_step(clip, n_steps, noise, task)
        bearable = _bearable_step(clip, 0.0, task)
        return max(0.0, (wanted - bearable) / (wanted + bearable))

    def steps_at_once(self, clip: float, n_rounds: int, task: RuleTask) -> float:
        """Return how many of the largest steps a round may take with gradients near one model.

        By experiment it is two if an average over many rounds removes
        oscillations, and one with few rounds. Regressions with clipped gradients allow more, up to
        ``3 / kappa`` in total, since clipped gradients do not grow when a model oscillates.
        """
        most, kappa = min(2.0, max(1.0, n_rounds / 10)), clip / task.norm
        return most if task.is_classifier else max(3 * most, 3 / kappa) / max(3.0, 0.3 / kappa)

    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: RuleTask) -> float:
        """Return the clip norm of messages (unit "silo") for which the total noise is c."""
        if noise <= 0:
            return math.inf
        carried = _OF_LABELS if task.is_classifier else _OF_NUMBERS
        return carried / (noise * len(steps) * task.norm)

    def silo_learning_rate(self, steps: tuple[int, ...], noise: float, task: RuleTask) -> float:
        """Return the local step (unit "silo") for which slopes of 1/3 give that norm."""
        bearable = 1 / (task.curvature * task.squared_row)
        if noise <= 0:
            return bearable
        message = self.message_clip_norm(steps, noise, task)
        # longer where a message consists of few steps: it is clipped
        most = bearable * min(4.0, max(1.0, 10 / max(steps)))
        return min(most, 3 * message / (max(steps) * task.norm))

    def excess_noise(self, noise: float, task: RuleTask) -> float:
        """Return how many times too large the noise is for a model that beats a constant."""
        if task.is_classifier:
            return noise / min(_UNSURE, max(_MANY[0], _MANY[1] / task.n_parameters))
        return noise * math.sqrt(task.n_parameters) * task.norm / _HOPELESS

    # ---- number of rounds and batch size: from work and noise --------------------------------

    def sampling_rate(self, typical: float, mu: float, task: RuleTask) -> float:
        """Return the share of its records that a silo reads in a step; all if a round is cheap.

        Sampling costs nothing (it needs less noise) as long as noise multipliers stay above about
        one, that is, at rates of at least mu / (2 sqrt(steps)). This rate is used if the work of
        the fit allows it for all its steps. Fewer steps would cost more accuracy than their lower
        noise gains.
        """
        work = task.n_records * task.work_per_record
        rate = min(_ROUND_WORK / work, 1.0 if typical <= 2 * _BATCH else _BATCH / typical)
        if math.isfinite(mu):
            affordable = self.fit_work / self.sampled_steps - _SILO_WORK * task.n_silos
            rate = max(rate, min(mu / (2 * math.sqrt(STEPS)), affordable / work))
        return rate if rate < 0.5 else 1.0

    def enough_steps(self, noise: float, task: RuleTask) -> float:
        """Return how many steps are enough where noise, not their number, limits two classes.

        The path c / s takes c h / (54 s) of the longest steps that are stable. Where that is up to
        16, 40 steps are as good as 100 on the tables of benchmarks/auto/unseen.py. Models of
        several classes would lose up to 0.05 of accuracy.
        """
        noisy = noise >= _MUCH_NOISE * task.curvature
        return FEW_STEPS if task.is_binary and noisy else math.inf

    def n_rounds(
        self, local_steps: int, rate: float, task: RuleTask, *, exact: bool, plain: bool
    ) -> int:
        """Return the number of rounds of ``local_steps`` gradients; ``plain``: no momentum."""
        private = self.sampled_steps if rate < 1 else STEPS
        steps = _EXACT_STEPS * (3 if plain else 1) if exact else private
        work = rate * task.n_records * task.work_per_record + _SILO_WORK * task.n_silos
        affordable = max(30.0, self.fit_work / work)
        return max(1, math.ceil(min(steps, affordable) / local_steps))

    def momentum(self, n_steps: int) -> float:
        """Return the largest heavy-ball momentum of the server, which fits without noise have."""
        return 1 - 1 / math.sqrt(n_steps)

    def with_penalty(self, eta: float, alpha: float, server: float, momentum: float) -> float:
        """Return a step size that is stable under the penalty, whose gradient is not clipped.

        A round changes the model by ``server eta alpha`` times itself. Beyond 2 (1 + m) the fit
        diverges.
        """
        return eta / (1 + 1.1 * eta * server * alpha / (1 + momentum))


def _wanted_step(clip: float, n_steps: float, noise: float, task: RuleTask) -> float:
    """Return the step that goes the path c / s without momentum."""
    carried = _OF_NUMBERS
    if task.is_classifier:
        shorter = math.sqrt(min(1.0, 0.3 * task.norm / clip))
        carried = _OF_LABELS * shorter / (2 if task.label_free else 1)
    return carried / (noise * n_steps * task.norm * clip)


def _bearable_step(clip: float, momentum: float, task: RuleTask) -> float:
    """Return the longest step that curvature allows."""
    if task.label_free:
        steepest = task.squared_row if task.steepest is None else task.steepest
        return 4 * (1 + momentum) * task.norm / (clip * steepest)
    kappa = clip / task.norm
    pace = (1 + momentum) * max(3.0 / max(1.0, kappa), 0.3 / kappa)
    if task.is_classifier:
        pace = (1 - momentum) * max(7.0, 54 / kappa)
    return pace / (task.curvature * task.squared_row)


#: of networks: clip norm over rho (.05 to .5: little difference, as for momenta of 0 to .9)
_CLIP = 0.2
#: of networks: c for labels and for numbers
_LABELS, _NUMBERS = 1.0, 0.25
#: of networks: largest change of what enters a hidden unit in a step, on average
_BEARABLE = 300.0
#: of networks: largest step of a regression, times the curvature of a linear one
_STABLE = 2.0


class NetworkRules(Rules):
    """The rules of networks; without noise, steps are those of the linear model."""

    #: of networks: more than of a linear model, as fewer steps would have to be too long
    sampled_steps: ClassVar[int] = 200
    fit_work: ClassVar[float] = 1e11
    averages: ClassVar[bool] = False

    def enough_steps(self, noise: float, task: RuleTask) -> float:
        """Return inf: not tried for networks."""
        return math.inf

    def needed_momentum(self, clip: float, n_steps: float, noise: float, task: RuleTask) -> float:
        """Return the same for any curvature, which is not known."""
        return _MOMENTUM if noise > 0 else 1.0

    def clip_norm(self, noise: float, task: RuleTask, alpha: float = 0.0) -> float:
        """Return C; without noise there is no clipping."""
        return _CLIP * task.norm if noise > 0 else math.inf

    def learning_rate(
        self, clip: float, n_steps: float, momentum: float, noise: float, task: RuleTask
    ) -> float:
        """Return eta, the step on the mean clipped gradient."""
        if noise <= 0 or math.isinf(clip):
            return super().learning_rate(clip, n_steps, momentum, 0.0, task)
        eta = (1 - momentum) * _path(noise, n_steps, task) / (n_steps * clip)
        bearable = _STABLE / (task.curvature * task.squared_row)
        return eta if task.is_classifier else min(eta, bearable)

    def steps_at_once(self, clip: float, n_rounds: int, task: RuleTask) -> float:
        """Return 1: not tried for networks."""
        return 1.0

    def message_clip_norm(self, steps: tuple[int, ...], noise: float, task: RuleTask) -> float:
        """Return the clip norm of messages (unit "silo"): all rounds together make the path."""
        if noise <= 0:
            return math.inf
        return _path(noise, sum(steps), task) / len(steps)


def _path(noise: float, n_steps: float, task: RuleTask) -> float:
    """Return the largest change of the weights in a fit of ``n_steps``."""
    carried = _LABELS if task.is_classifier else _NUMBERS
    return min(carried / noise, _BEARABLE * n_steps) / task.norm
