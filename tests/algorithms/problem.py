"""A least-squares problem in silos whose constants are known, and a way to run algorithms on it."""

from dataclasses import dataclass

import numpy as np

from skdpfl.engine import run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy.mechanisms import NoPrivacy, mechanism_for
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of


@dataclass(frozen=True)
class Quadratic:
    """Silos of n records each; F = 1/2 (w - w*)^T H (w - w*) + const with H = diag(eigenvalues)."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    n_silos: int
    eigenvalues: np.ndarray
    optimum: np.ndarray

    @classmethod
    def make(cls, eigenvalues, *, n_silos=4, n=40, drift=0.0, seed=0):
        """Draw one; ``drift`` moves each silo's own optimum by random vectors of that length."""
        rng = np.random.default_rng(seed)
        eigenvalues = np.asarray(eigenvalues, dtype=float)
        d = len(eigenvalues)
        center = rng.standard_normal(d)
        moves = rng.standard_normal((n_silos, d))
        moves -= moves.mean(axis=0)
        moves *= drift / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-300)
        moves -= moves.mean(axis=0)
        X, y = [], []
        for move in moves:
            # orthogonal columns: every silo has the same Hessian, exactly diag(eigenvalues)
            q = np.linalg.qr(rng.standard_normal((n, d)))[0] * np.sqrt(n * eigenvalues)
            X.append(q)
            y.append(q @ (center + move))
        codes = np.repeat(np.arange(n_silos), n)
        return cls(np.vstack(X), np.concatenate(y), codes, n_silos, eigenvalues, center)

    def excess(self, params):
        """F(params) - F*."""
        return float((self.eigenvalues * (params - self.optimum) ** 2).sum() / 2)

    @property
    def squared_distance(self):
        """|0 - w*|^2: the starting point is the origin."""
        return float((self.optimum**2).sum())

    def gradient_norm(self, radius):
        """Bound of a record's gradient on the ball of a radius around the origin."""
        rows = np.linalg.norm(self.X, axis=1)
        return float((rows * (rows * radius + np.abs(self.y))).max())

    def plan(self, n_rounds, steps=1, noise=0.0, clip_norm=np.inf, **plan):
        """Return a plan; ``noise`` is the standard deviation on a silo's mean gradient."""
        sizes = np.bincount(self.codes)
        return plan_of(
            silo_sizes=sizes,
            steps=(steps,) * n_rounds,
            clip_norm=clip_norm,
            noise_multiplier=noise * sizes[0] / clip_norm if noise else 0.0,
            delta=1e-5,
            mechanism=mechanism_for("record", "silo") if noise else NoPrivacy(),
            **plan,
        )

    def run(self, algorithm, plan, seed=0, average=True):
        """Return the model that the algorithm gives out."""
        model = LinearModel(self.X.shape[1], 1, fit_intercept=False)
        data = SiloData.from_codes(self.X, self.y, self.codes, self.n_silos)
        work, streams = (
            Work(model, SquaredError(), algorithm, plan, np.dtype(np.float64)),
            streams_for(seed),
        )
        return run(work, LocalFederation(data, streams), streams, average=average).params

    def own_gradient(self, silo):
        """The gradient of a silo's own objective at w*."""
        rows = self.codes == silo
        return self.X[rows].T @ (self.X[rows] @ self.optimum - self.y[rows]) / rows.sum()
