"""The algorithms once more, record by record and silo by silo, straight from their formulas.

Nothing here is shared with the package but its random streams and the losses' definitions, which
are written out again: what the engine does in stacks, threads, chunks and on integer grids has to
agree with this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.release import NORMALS
from skdpfl.privacy.sampling import Everyone, PoissonSampling, WithoutReplacement


@dataclass
class Problem:
    """Silos as a list of (X, y), with k outputs and an intercept in the last row."""

    silos: list
    loss: str
    k: int = 1
    alpha: float = 0.0

    @property
    def size(self):
        return (self.silos[0][0].shape[1] + 1) * self.k

    def slope(self, raw, y):
        if self.loss == "squared_error":
            return raw - y
        if self.k == 1:
            return 1 / (1 + np.exp(-raw)) - y
        p = np.exp(raw - raw.max())
        p /= p.sum()
        p[int(y)] -= 1
        return p

    def record_gradient(self, w, x, y):
        a = np.append(x, 1.0)
        slope = self.slope(a @ w.reshape(-1, self.k), y)
        return np.outer(a, slope).ravel()

    def penalty(self, w):
        out = self.alpha * w.reshape(-1, self.k)
        out[-1] = 0
        return out.ravel()


@dataclass
class Setting:
    """A fit in plain numbers; noise multipliers per silo, weights summing to one."""

    n_rounds: int
    steps: list
    lr: float
    clip: float
    z: list | None
    weights: np.ndarray
    sampling: object = field(default_factory=Everyone)
    cohorts: list | None = None
    factors: list | None = None
    global_lr: float = 1.0
    momentum: float = 0.0
    warm: int = 0
    on_sum: float | None = None
    seed: int = 0


class Reference:
    """Runs a setting; ``models[r]`` is the model after round r."""

    def __init__(self, problem: Problem, setting: Setting) -> None:
        self.problem, self.setting = problem, setting
        self.streams: Streams = streams_for(setting.seed)
        self.n_gradients = np.zeros(len(problem.silos), dtype=int)

    def cohort(self, r):
        s = self.setting
        return range(len(self.problem.silos)) if s.cohorts is None else s.cohorts[r]

    def gradient(self, i, r, k, w):
        """A silo's private gradient in step k of round r."""
        problem, s = self.problem, self.setting
        X, y = problem.silos[i]
        step = sum(s.steps[:r]) + k
        self.n_gradients[i] += 1
        batch, divisor = self.batch(i, step, len(y))
        total, noised = np.zeros(problem.size), s.z is not None or s.on_sum is not None
        kept = s.clip * (1 - NORMALS) if noised else s.clip
        for j in batch:
            g = problem.record_gradient(w, X[j], y[j])
            total += g * min(1.0, kept / max(np.linalg.norm(g), 1e-300))
        if s.z is not None:
            factor = 1.0 if s.factors is None else s.factors[step]
            noise = self.streams.stream("noise", i, step).normal((problem.size,))
            total += s.z[i] * s.clip * factor * noise
        return total / divisor + problem.penalty(w)

    def batch(self, i, step, n):
        sampling, stream = self.setting.sampling, self.streams.stream("batch", i, step)
        if isinstance(sampling, Everyone):
            return range(n), n
        if isinstance(sampling, PoissonSampling):
            return stream.poisson_sample(n, sampling.rate), sampling.rate * n
        assert isinstance(sampling, WithoutReplacement)
        size = max(1, round(sampling.rate * n))
        return stream.subset(n, size), size

    def mean(self, r, messages):
        """The cohort's weighted sum over its share of the silos; noised if there."""
        s = self.setting
        weights = {i: s.weights[i] for i in messages}
        total = sum(weights[i] * messages[i] for i in messages)
        if s.on_sum is not None:
            factor = 1.0 if s.factors is None else s.factors[r]
            noise = self.streams.stream("aggregate", round=r).normal((self.problem.size,))
            total = total + s.on_sum * factor * noise
        return total * len(self.problem.silos) / len(messages)

    def minibatch(self):
        s, w = self.setting, np.zeros(self.problem.size)
        velocity = np.zeros_like(w)
        for r in range(s.n_rounds):
            if len(self.cohort(r)):
                g = self.mean(r, {i: self.gradient(i, r, 0, w) for i in self.cohort(r)})
                velocity = s.momentum * velocity + g
                w = w - s.lr * velocity
            yield w

    def fedavg(self):
        s, w = self.setting, np.zeros(self.problem.size)
        for r in range(s.n_rounds):
            messages = {}
            for i in self.cohort(r):
                y, velocity = w.copy(), 0.0
                for k in range(s.steps[r]):
                    velocity = s.momentum * velocity + self.gradient(i, r, k, y)
                    y = y - s.lr * velocity
                messages[i] = y - w
            if messages:
                w = w + s.global_lr * self.mean(r, messages)
            yield w

    def scaffold(self):
        s, w = self.setting, np.zeros(self.problem.size)
        n, c = len(self.problem.silos), np.zeros(self.problem.size)
        self.controls = [np.zeros(self.problem.size) for _ in range(n)]
        for r in range(s.n_rounds):
            messages, changes = {}, 0.0
            for i in self.cohort(r):
                y, K = w.copy(), s.steps[r]
                noisy = []
                for k in range(K):
                    noisy.append(self.gradient(i, r, k, w if r < s.warm else y))
                    y = y - s.lr * (noisy[-1] - self.controls[i] + c)
                fresh = np.mean(noisy, axis=0)
                changes = changes + s.weights[i] * (fresh - self.controls[i])
                self.controls[i], messages[i] = fresh, y - w
            if messages:
                c = c + changes
                if r >= s.warm:
                    w = w + s.global_lr * self.mean(r, messages)
            self.control = c
            yield w
