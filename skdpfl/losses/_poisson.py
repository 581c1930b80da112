"""Poisson loss under a log link, for counts: exp(z) - y z, one output (k = 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the Poisson deviance up to a constant; the mean is exp(raw): gradient exp(raw) - y.

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
    square. Steps of 1 / `largest` relative to those of the squared error cannot diverge.

    With Z = log(largest) and u = max(0, z - Z), the mean's part of the loss is
    ``exp(min(z, Z)) (1 + u + u^2 / 2)``. Its derivative ``exp(min(z, Z)) (1 + u)`` is continuous
    and increases (convex), and its second derivative is ``exp(min(z, Z)) <= largest``. There is no
    Lipschitz bound.
    """

    is_classifier: ClassVar[bool] = False
    link: ClassVar[Literal["identity", "log", "logit"]] = "log"
    target_range: ClassVar[tuple[float, float]] = (0.0, inf)
    largest: float = inf

    def __post_init__(self) -> None:
        if not self.largest > 0:
            raise ValueError(f"largest={self.largest!r}: must be a number in (0, inf]")

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        z = raw[..., 0]
        mean, beyond = self._split(z, None)
        mean *= 1 + beyond + beyond * beyond / 2
        return np.subtract(mean, np.multiply(y, z), out=mean, casting="same_kind")

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        out, beyond = self._split(raw, out)
        beyond += 1
        out *= beyond
        return np.subtract(out, y[..., None], out=out, casting="same_kind")

    def _split(self, z: NDArray, out: NDArray | None) -> tuple[NDArray, NDArray]:
        """Return exp(min(z, Z)) and max(0, z - Z)."""
        most = 30.0 if z.dtype == np.float32 else 300.0  # beyond it squares are infinite
        end = min(most, log(self.largest)) if self.largest < inf else most
        beyond = np.maximum(z - z.dtype.type(end), 0)
        out = np.clip(z, -most, end, out=out)
        return np.exp(out, out=out), beyond

    def lipschitz(self, n_outputs: int) -> float:
        return inf

    def curvature(self, n_outputs: int) -> float:
        """The largest mean."""
        return self.largest

    def bounded(self, largest: float) -> Poisson:
        """Return the loss with `largest`, at least 1, the mean at raw 0, where fits start."""
        return replace(self, largest=min(self.largest, max(1.0, largest)))
