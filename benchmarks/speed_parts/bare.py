"""The same arithmetic in bare NumPy: no checks, no exact grid, no secret streams, no prices.

What a fit costs beyond these loops is what a library adds. Noise is float32 Gaussian noise added in
floating point, which gives no formal guarantee (see the guide on privacy); batches are drawn from
one NumPy generator (in W1 one a silo), W1's normals by Box and Muller's method from 24-bit
uniforms, which is quicker than NumPy's own normals and ends at 5.8 standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from benchmarks.speed_parts.workloads import Data, Sizes


def w1(data: Data, sizes: Sizes, threads: int = 1) -> Callable[[], None]:
    """Return a round of DP-SCAFFOLD: 8 silos on threads, the class axis padded to 48."""
    n, b, cohort = sizes.w1_records, sizes.w1_records // 5, sizes.w1_silos // 5
    rngs = [np.random.Generator(np.random.SFC64(i)) for i in range(cohort)]
    server, control = (np.zeros((784, 48), np.float32) for _ in range(2))
    controls = np.zeros((sizes.w1_silos, 784, 48), np.float32)
    spaces = [
        (np.empty((b, 784), np.float32), np.empty((784, 48), np.float32)) for _ in range(cohort)
    ]
    rows = np.arange(b)

    def local(place: int, silo: int) -> np.ndarray:
        rng, (X, noise) = rngs[place], spaces[place]
        W, correction = server.copy(), control - controls[silo]
        for _ in range(sizes.w1_steps):
            drawn = np.argpartition(rng.random(n, dtype=np.float32), b)[:b] + silo * n
            np.take(data.X, drawn, axis=0, out=X, mode="clip")
            P = X @ W
            P[:, 47:] = -np.inf
            P -= P.max(axis=1, keepdims=True)
            np.exp(P, out=P)
            P /= P.sum(axis=1, keepdims=True)
            P[rows, data.y[drawn]] -= 1
            P *= np.minimum(1, 1 / np.sqrt(np.einsum("ij,ij->i", P, P)))[:, None]
            G = X.T @ P
            box_muller(rng, noise)
            np.multiply(noise, 5, out=noise)
            G += noise
            G /= b
            G += correction
            G *= 0.5
            W -= G
        return W

    def run() -> None:
        nonlocal server, control
        chosen = rngs[0].choice(sizes.w1_silos, cohort, replace=False).tolist()
        with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
            each = map if pool is None else pool.map
            moves = {
                i: W - server
                for i, W in zip(chosen, each(local, range(cohort), chosen), strict=True)
            }
        change = 0
        for i, move in moves.items():
            new = controls[i] - control - move / (sizes.w1_steps * 0.5)
            change = change + (new - controls[i])
            controls[i] = new
        server = server + sum(moves.values()) / len(moves)
        control = control + change / sizes.w1_silos

    return run


def box_muller(rng: np.random.Generator, out: np.ndarray) -> None:
    """Fill an array of even size with float32 normals."""
    radius, angle = rng.random((2, out.size // 2), dtype=np.float32)
    np.log1p(np.negative(radius, out=radius), out=radius)
    np.sqrt(np.multiply(radius, -2, out=radius), out=radius)
    angle *= np.float32(2 * np.pi)
    halves = out.reshape(2, -1)
    np.multiply(radius, np.cos(angle), out=halves[0])
    np.multiply(radius, np.sin(angle), out=halves[1])


def w2(data: Data) -> Callable[[], None]:
    """Return a fit: indices and noise of all rounds drawn up front, silos stacked."""
    rng = np.random.default_rng(0)
    X = np.column_stack([data.X, np.ones(len(data.y))])
    X = np.stack([X[data.silos == i] for i in range(5)])
    y = np.stack([data.y[data.silos == i] for i in range(5)])

    def run() -> None:
        w, limits = np.zeros(9), 1 / np.sqrt(np.einsum("ijk,ijk->ij", X, X))
        drawn = rng.random((35, 5, X.shape[1])) < 36 / 214
        noise = 2.0 * rng.standard_normal((35, 5, 9))
        for mask, z in zip(drawn, noise, strict=True):
            slopes = X @ w - y
            np.clip(slopes, -limits, limits, out=slopes)
            slopes *= mask
            g = np.matmul(slopes[:, None], X)[:, 0] + z
            w = w - 0.2 * (g.mean(0) / 36 + 1e-3 * w)

    return run


def w3(data: Data, sizes: Sizes) -> Callable[[], None]:
    """Return a fit: the records sorted by silo in advance, a cohort's silos in batched products."""
    rng = np.random.default_rng(0)
    order = np.argsort(data.silos, kind="stable")
    X, y = data.X[order].reshape(-1, 20, 20), data.y[order].reshape(-1, 20)
    rate = min(1.0, 100 / sizes.w3_silos)

    def run() -> None:
        w = np.zeros(20, np.float32)
        for _ in range(sizes.w3_rounds):
            cohort = np.flatnonzero(rng.random(sizes.w3_silos) < rate)
            Xs, ys = X[cohort], y[cohort]
            v = np.repeat(w[None], len(cohort), axis=0)
            for _ in range(5):
                p = np.matmul(Xs, v[:, :, None])[..., 0]
                p = 1 / (1 + np.exp(-p)) - ys
                v -= 0.5 / 20 * np.matmul(p[:, None], Xs)[:, 0]
            moves = v - w
            moves *= np.minimum(1, 0.5 / np.linalg.norm(moves, axis=1, keepdims=True))
            noise = 0.5 * rng.standard_normal(20, dtype=np.float32)
            w = w + (moves.sum(axis=0) + noise) / 100

    return run
