"""Losses of survival times, and of counts, rates and amounts.

Survival: a hazard that is constant in each of several intervals::

    hazard        exp(z_b) in interval b            z_b = a_b + x w, per horizon
    e_b           the time that a record was observed in interval b, in horizons
    d_b           1 if its event is in interval b, else 0
    loss          sum_b e_b exp(z_b) - d_b z_b
    gradient      r_b = e_b exp(z_b) - d_b          in z_b

It is the negative log-likelihood of the piecewise exponential model, so of a Cox model whose
baseline hazard is a step function. Nobody has to know who else was at risk.

A target is one number: the time, in horizons, with the sign + for an event and - for a censored
record (:func:`signed_times`). Times beyond the horizon are censored there.

Counts, rates and amounts: log link, mean mu = exp(z), z the raw prediction::

Poisson            mu - y z                                               counts
Tweedie(p)         mu^(2-p) / (2-p) - y mu^(1-p) / (1-p)                  1 <= p <= 2
Gamma              z + y / mu                                             the same for p = 2
NegativeBinomial   (y + 1/k) log(1 + k mu) - y z                          k its dispersion

Each is half the deviance up to a term of y alone. A record's exposure e multiplies its mean: z
becomes z + log e (:class:`Offset`), so the mean is a rate times e.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from skdpfl._arguments import check_number, check_positive
from skdpfl._surface import forwarded
from skdpfl.losses._base import Loss, Weighted

#: the smallest positive number: targets of at least this are those above 0
_ABOVE_ZERO = 5e-324
Link = Literal["identity", "log", "logit"]


@dataclass(frozen=True)
class OfLogMean(Loss):
    """Base class of losses of a non-negative target and the logarithm of its mean.

    Parameters
    ----------
    largest : float, default=inf
        Mean beyond which the loss is replaced by its second-order Taylor polynomial, and target
        beyond which it is cut to this number; so is a mean below 1 / `largest`, where the loss of
        smaller means grows without bound. Other records are not affected; the curvature is
        finite. Fits without privacy, and those with unit="silo", need this: there `largest` is the
        largest target, or four times the targets' root mean square.
    """

    is_classifier: ClassVar[bool] = False
    link: ClassVar[Link] = "log"
    target_range: ClassVar[tuple[float, float]] = (0.0, inf)
    largest: float = field(default=inf, kw_only=True)

    def __post_init__(self) -> None:
        largest = check_number("largest", self.largest, low=0, open_low=True)
        object.__setattr__(self, "largest", largest)

    def bounded(self, largest: float) -> OfLogMean:
        """Return the loss with `largest`, at least 1, the mean at raw 0, where fits start."""
        return replace(self, largest=min(self.largest, max(1.0, largest)))

    @abstractmethod
    def deviance(self, y: NDArray, mean: NDArray) -> NDArray:
        """Return each record's unit deviance (n,): 0 where the mean is the target."""

    def homogeneity(self) -> float | None:
        """Return a with deviance(e y, e mean) = e^a deviance(y, mean); None if there is none."""
        return None


def _end(dtype: np.dtype, rate: float, largest: float) -> tuple[float, float]:
    """Return the limits of t: where exp is computed, and where the polynomial begins."""
    most = (30.0 if dtype == np.float32 else 300.0) / max(rate, 0.5)
    return most, min(most, log(largest)) if largest < inf else most


def growth(t: NDArray, rate: float, largest: float, out: NDArray | None = None) -> NDArray:
    """Return exp(rate t), continued linearly beyond t = log(largest); ``out`` may be t."""
    most, end = _end(t.dtype, rate, largest)
    beyond = np.maximum(t - t.dtype.type(end), 0)
    out = np.clip(t, -most, end, out=out)
    if rate != 1:
        out *= out.dtype.type(rate)
        beyond *= out.dtype.type(rate)
    np.exp(out, out=out)
    beyond += 1
    out *= beyond
    return out


def integral(t: NDArray, rate: float, largest: float) -> NDArray:
    """Return the integral of `growth`, exp(rate t) / rate, or t if the rate is 0; a new array."""
    if rate == 0:
        return np.array(t)
    most, end = _end(t.dtype, rate, largest)
    beyond = rate * np.maximum(t - t.dtype.type(end), 0)
    whole = np.exp(rate * np.clip(t, -most, end)) / rate
    whole *= 1 + beyond + beyond * beyond / 2
    return whole


@dataclass(frozen=True)
class _Power(OfLogMean):
    """Tweedie's deviance for a power p of the mean to which the variance is proportional.

    Notes
    -----
    With a = 2 - p, c = p - 1 and ``G_r(t) = exp(r t) / r``, or t if r = 0, the loss is
    ``G_a(z) + y G_c(-z)``. Both terms are convex in z for a, c >= 0, that is for p in [1, 2]; for
    other p one of them is not. Beyond t = log(largest), G_r is continued by its second-order Taylor
    polynomial: its derivative stays continuous and increases, and its second derivative is at most
    ``r largest^r``. So the curvature is at most ``a largest^a + c largest largest^c``. There is no
    Lipschitz bound.
    """

    _p: ClassVar[float]

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        z, most = raw[..., 0], self.largest
        mean = integral(z, 2 - self._p, most)
        target = self._cut(y) * integral(-z, self._p - 1, most)
        return np.add(mean, target, out=mean, casting="same_kind")

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        target = self._cut(y)[..., None]
        if self._p > 1:
            target = target * growth(-raw, self._p - 1, self.largest)
        out = growth(raw, 2 - self._p, self.largest, out)
        return np.subtract(out, target, out=out, casting="same_kind")

    def _cut(self, y: NDArray) -> NDArray:
        """Return targets of at most `largest`, where the curvature depends on them."""
        return np.minimum(y, self.largest) if self._p > 1 and self.largest < inf else y

    def curvature(self, n_outputs: int) -> float:
        """``a largest^a + c largest^(1 + c)``, from the bounds on means and targets."""
        a, c = 2 - self._p, self._p - 1
        bound: float = a * self.largest**a if a else 0.0
        return bound + (c * self.largest ** (1 + c) if c else 0.0)

    def loss_at_zero(self, n_outputs: int) -> float:
        """1 / a + 1 / c, without infinite terms."""
        return sum(1 / rate for rate in (2 - self._p, self._p - 1) if rate)

    def homogeneity(self) -> float:
        """2 - p."""
        return 2 - self._p

    def deviance(self, y: NDArray, mean: NDArray) -> NDArray:
        """Return Tweedie's unit deviance, as scikit-learn's ``mean_tweedie_deviance`` averages."""
        a, c = 2 - self._p, self._p - 1
        if c == 0:
            return 2 * (xlogy(y, y / mean) - y + mean)
        if a == 0:
            return 2 * (np.log(mean / y) + y / mean - 1)
        return 2 * (y**a / (-c * a) + y * mean**-c / c + mean**a / a)


@dataclass(frozen=True)
class Poisson(_Power):
    """Half the Poisson deviance up to a constant, with mean exp(raw); gradient exp(raw) - y.

    Parameters
    ----------
    largest : float, default=inf
        Mean beyond which exp is replaced by its second-order Taylor polynomial. Smaller means are
        not affected; the curvature is at most `largest`.

    Notes
    -----
    Targets are counts, or other non-negative numbers whose mean is a product of effects. Fits
    scale them, but do not shift them. Under unit="record" gradients are clipped, so no step is
    longer than with any other loss. Fits without privacy, and those with unit="silo", need a
    bounded curvature: `largest` is then the largest target, or four times the targets' root mean
    square. Steps of 1 / `largest` times those of the squared error cannot diverge.

    With Z = log(largest) and u = max(0, z - Z), the mean's part of the loss is
    ``exp(min(z, Z)) (1 + u + u^2 / 2)``. Its derivative ``exp(min(z, Z)) (1 + u)`` is continuous
    and increases (convex), and its second derivative is ``exp(min(z, Z)) <= largest``. There is no
    Lipschitz bound.
    """

    _p: ClassVar[float] = 1.0


@dataclass(frozen=True)
class Gamma(_Power):
    """Half the gamma deviance up to a constant, for positive amounts; gradient 1 - y exp(-raw).

    Amounts whose standard deviation is proportional to their mean: claims, costs, durations.

    Parameters
    ----------
    largest : float, default=inf
        See :class:`Tweedie`.

    See Also
    --------
    Tweedie : For amounts of which some are 0.
    """

    target_range: ClassVar[tuple[float, float]] = (_ABOVE_ZERO, inf)
    _p: ClassVar[float] = 2.0


@dataclass(frozen=True)
class Tweedie(_Power):
    """Half the Tweedie deviance up to a constant: variance proportional to mean^power.

    Parameters
    ----------
    power : float, default=1.5
        In [1, 2]: 1 is Poisson's, 2 gamma's; between them are sums of a Poisson number of gamma
        amounts, such as a patient's or a policy's costs in a year, of which many are 0. Outside
        the loss is not convex under a log link.
    largest : float, default=inf
        Mean beyond which, and its inverse below which, the loss is replaced by its second-order
        Taylor polynomial, and target beyond which it is cut. Other records are not affected; the
        curvature is finite.

    Examples
    --------
    >>> from skdpfl.losses import Tweedie
    >>> Tweedie(power=1.9)
    Tweedie(largest=inf, power=1.9)
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        power = check_number("power", self.power)
        if not 1 <= power <= 2:
            raise ValueError(
                f"power must be in [1, 2], since the loss is not convex for others; got {power!r}."
            )
        object.__setattr__(self, "power", power)

    @property
    def target_range(self) -> tuple[float, float]:  # type: ignore[override]
        """From 0; above 0 for power 2."""
        return (_ABOVE_ZERO if self.power == 2 else 0.0), inf

    _p = forwarded("power")


@dataclass(frozen=True)
class NegativeBinomial(OfLogMean):
    """Half the negative binomial deviance up to a constant, for counts more spread than Poisson's.

    Their variance is ``mu + dispersion mu^2``.

    Parameters
    ----------
    dispersion : float, default=1.0
        Above 0, from public knowledge: the variance beyond Poisson's, in units of the squared
        mean. Coefficients are consistent for any value; it decides how much large counts weigh.
    largest : float, default=inf
        Target beyond which it is cut to this number; the curvature is finite then.

    Notes
    -----
    The loss ``(y + 1/k) log(1 + k exp(z)) - y z`` is convex: its second derivative is
    ``(y + 1/k) p (1 - p)`` with ``p = k exp(z) / (1 + k exp(z))``, at most ``(y + 1/k) / 4``. The
    gradient ``p / k - y (1 - p)`` lies between -y and 1 / k.
    """

    dispersion: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dispersion", check_positive("dispersion", self.dispersion))

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        z, k, y = raw[..., 0], raw.dtype.type(self.dispersion), self._cut(y)
        losses = np.logaddexp(raw.dtype.type(0), z + np.log(k)) * (y + 1 / k) - y * z
        return np.asarray(losses.astype(raw.dtype, copy=False))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        k, most = raw.dtype.type(self.dispersion), 30.0 if raw.dtype == np.float32 else 300.0
        out = np.clip(raw, -most, most, out=out)
        np.exp(out, out=out)
        share = 1 / (1 + k * out)  # 1 - p
        out *= share
        return np.subtract(out, self._cut(y)[..., None] * share, out=out, casting="same_kind")

    def _cut(self, y: NDArray) -> NDArray:
        return np.minimum(y, self.largest) if self.largest < inf else y

    def curvature(self, n_outputs: int) -> float:
        """``(largest + 1 / dispersion) / 4``."""
        return (self.largest + 1 / self.dispersion) / 4

    def loss_at_zero(self, n_outputs: int) -> float:
        """(1 + 1 / k) log(1 + k)."""
        return (1 + 1 / self.dispersion) * log(1 + self.dispersion)

    def of_scaled(self, scale: float) -> NegativeBinomial:
        """Return the loss of y / scale: its variance is that of y over scale^2."""
        return replace(self, dispersion=self.dispersion * scale)

    def deviance(self, y: NDArray, mean: NDArray) -> NDArray:
        """Return ``2 (y log(y / mu) - (y + 1/k) log((1 + k y) / (1 + k mu)))``."""
        k = self.dispersion
        return 2 * (xlogy(y, y / mean) - (y + 1 / k) * (np.log1p(k * y) - np.log1p(k * mean)))


@dataclass(frozen=True)
class Offset(Loss):
    """A loss whose raw predictions get each record's own addend, the logarithm of its exposure.

    Parameters
    ----------
    loss : Loss
        The loss of the sum.

    Notes
    -----
    Targets are pairs (target, offset), as :func:`with_offsets` makes them. A convex function of z +
    const is convex in z, and has the same slopes and curvature.
    """

    loss: Loss
    is_classifier = forwarded("loss.is_classifier")

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        return self.loss.value(y["target"], _moved(y, raw, None), squared_norms=squared_norms)

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        out = _moved(y, raw, out)
        return self.loss.gradient(y["target"], out, squared_norms=squared_norms, out=out)

    def lipschitz(self, n_outputs: int) -> float:
        return self.loss.lipschitz(n_outputs)

    def curvature(self, n_outputs: int) -> float:
        return self.loss.curvature(n_outputs)


def _moved(y: NDArray, raw: NDArray, out: NDArray | None) -> NDArray:
    out = np.empty_like(raw) if out is None else out
    return np.add(raw, y["offset"][..., None], out=out, casting="same_kind")


def with_offsets(y: NDArray, offsets: NDArray) -> NDArray:
    """Return targets (..., n) and what is added to their raw predictions (..., n) as pairs."""
    pairs = np.empty(y.shape, [("target", y.dtype), ("offset", offsets.dtype)])
    pairs["target"], pairs["offset"] = y, offsets
    return pairs


def loss_for(loss: Loss, y: NDArray) -> Loss:
    """Return the loss for targets ``y``: with offsets, with weights, or itself, as they have."""
    if y.dtype.names is None:
        return loss
    inner = loss_for(loss, y["target"])
    return Weighted(inner) if "weight" in y.dtype.names else Offset(inner)


#: hazards per horizon beyond which a fit without privacy continues the loss by a polynomial
_LARGEST_HAZARD = 30.0


@dataclass(frozen=True)
class PiecewiseExponential(Loss):
    """Negative log-likelihood of survival times under a piecewise constant hazard.

    Parameters
    ----------
    cuts : tuple of float, default=(0.25, 0.5, 0.75)
        The inner ends of the intervals, increasing, in shares of the horizon.
    largest : float, default=inf
        Hazard per horizon beyond which exp is replaced by its second-order Taylor polynomial.
    label_free : bool, default=False
        Whether a record's gradient is clipped by the largest that it has with any time and event.

    Notes
    -----
    A record's loss is a sum of convex functions of its raw predictions. The e_b sum to at most 1,
    so the second derivatives ``e_b exp(z_b)`` sum to at most `largest`: with one slope for all
    intervals the Hessian in (w, a) is at most ``largest (|x|^2 + 1)``, as ``(x w + a_b)^2 <=
    (|x|^2 + 1)(|w|^2 + a_b^2)``. There is no Lipschitz bound. The gradient in (w, a) is the one
    vector ``((sum_b r_b) x, r)``, which is clipped once: a record never becomes several rows.

    *Clipping without labels.* Let h_b be the hazard times the width of interval b, H their sum. For
    any time and event the r_b sum to a number from -1 to H, and their squares to at most
    ``1 + sum h_b^2``: so the gradient's squared norm is at most ``max(1, H)^2 |x|^2 + 1 + sum
    h_b^2``. A factor that follows from this and x leaves the mean gradient 0 at the true
    parameters, if censoring does not depend on the event given x. Clipped by their own norm, events
    of records of low risk count less than they should, and hazard ratios are too large.
    """

    cuts: tuple[float, ...] = (0.25, 0.5, 0.75)
    largest: float = inf
    label_free: bool = False
    is_classifier: ClassVar[bool] = False
    link: ClassVar[Link] = "log"
    one_slope: ClassVar[bool] = True
    scales_target: ClassVar[bool] = False
    target_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        cuts = tuple(float(cut) for cut in self.cuts)
        ends = np.array([0.0, *cuts, 1.0])
        if not (np.diff(ends) > 0).all():
            raise ValueError(f"cuts must increase, between 0 and 1; got {self.cuts!r}.")
        object.__setattr__(self, "cuts", cuts)
        largest = check_number("largest", self.largest, low=0, open_low=True)
        object.__setattr__(self, "largest", largest)

    def n_outputs(self, n_classes: int | None = None) -> int:
        """Return the number of intervals."""
        return len(self.cuts) + 1

    def exposures(self, y: NDArray) -> tuple[NDArray, NDArray]:
        """Return e (..., n, k) and d (..., n, k) of signed times (..., n)."""
        starts, ends = np.array([0.0, *self.cuts]), np.array([*self.cuts, 1.0])
        time = np.abs(y)[..., None]
        spent = np.clip(time - starts, 0.0, ends - starts)
        within = (time > starts) & (time <= ends)
        within[..., 0] |= time[..., 0] == 0
        return spent, within & ~np.signbit(y)[..., None]

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        spent, event = self.exposures(y)
        each = spent * integral(raw, 1.0, self.largest) - np.where(event, raw, 0)
        return np.asarray(each.sum(axis=-1).astype(raw.dtype, copy=False))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        spent, event = self.exposures(y)
        out = growth(raw, 1.0, self.largest, out)
        np.multiply(out, spent, out=out, casting="same_kind")
        out -= event
        return out

    def largest_norm(self, raw: NDArray, squared_features: NDArray) -> NDArray | None:
        """Return the bound of the gradient's norm over all times and events."""
        if not self.label_free:
            return None
        widths = np.diff([0.0, *self.cuts, 1.0]).astype(raw.dtype)
        hazards = growth(raw, 1.0, self.largest) * widths
        of_slope = np.maximum(hazards.sum(axis=-1), 1) ** 2 * squared_features
        return np.sqrt(of_slope + 1 + np.square(hazards).sum(axis=-1))

    def without_labels(self) -> PiecewiseExponential:
        """Return the loss with ``label_free=True``."""
        return replace(self, label_free=True)

    def curvature(self, n_outputs: int) -> float:
        """`largest`: that of the sum over the intervals."""
        return self.largest

    def bounded(self, largest: float) -> PiecewiseExponential:
        """Return the loss for hazards of at most 30 per horizon."""
        return replace(self, largest=min(self.largest, _LARGEST_HAZARD))


def signed_times(event: NDArray, time: NDArray, horizon: float) -> NDArray:
    """Return times in horizons, at most 1, with the sign - where there is no event."""
    seen = event & (time <= horizon)
    return np.where(seen, 1.0, -1.0) * np.minimum(time / horizon, 1.0)
