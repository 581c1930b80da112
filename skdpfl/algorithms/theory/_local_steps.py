"""Local steps: step sizes and weights of SCAFFOLD and FedAvg, and their exact excess loss.

Noble et al. (2022), for M silos, a fraction l of them a round, K local steps on a fraction s of the
records, losses of smoothness nu, gradients with (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2 and
B >= 1 (assumption 4)::

    SCAFFOLD     eta_g = sqrt(l M),  eta_l = l^(2/3) / (24 nu K eta_g)        (convex)
                                     or l / (54 mu K eta_g), if smaller       (mu-strongly convex)
    FedAvg       eta_g = sqrt(l M),  eta_l = 1 / (8 (1 + B^2) nu K eta_g)
    experiments  eta_g = 1,          eta_l = eta_0 / (s K)

On quadratic objectives averages of noisy local steps are known exactly, by recursion. Silo i of M
makes K steps between two averages, R times, without clipping and momentum::

    F_i(w) = 1/2 (w - w_i)^T H_i (w - w_i),     F = mean_i F_i, least at w*,     A_i = I - eta H_i
    silo      y_0 = x,   y_k = y_{k-1} - eta (grad F_i(y_{k-1}) + z),   z ~ N(0, sigma^2 I)
    server    x <- mean_i y_K

With B = mean_i A_i^K, the mean m and the covariance S of the model x after each round are ::

    m <- B m + mean_i (I - A_i^K) w_i
    S <- B S B^T + (eta sigma / M)^2 sum_i sum_{k<K} A_i^2k
    E F(x) - F(w*) = 1/2 (m - w*)^T H (m - w*) + 1/2 tr(H S),     H = mean_i H_i

*Proof.* A step maps y - w_i to A_i (y - w_i) - eta z, so K steps are an affine map of x plus
independent noises A_i^k eta z. Means of affine maps are affine, and noises of silos and rounds are
independent.

What follows for K R = T fixed, where privacy costs the same however T is split:

- Where silos have the same H_i, all A_i are the same A, B = A^K, and both recursions give what T
  rounds of one step give: the split does not matter. The second term falls as 1/M at equal sigma
  (silos of equal size); of N records in M silos each has N/M, sigma grows as M, and the term, too.
- Where the H_i differ but commute, an eigenvalue of B is mean_i a_i^K, a_i those of the A_i. If no
  a_i is negative it is at least (mean_i a_i)^K, by Jensen's inequality, and likewise for the
  noise. So K = 1 has the smallest second term and forgets the start fastest; its models settle
  at w*, those of larger K, in general, elsewhere. Yet for a given T the mean may pass closer to w*
  with a larger K: one local step is not always best.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpfl._arguments import (
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_rate,
)


@dataclass(frozen=True)
class StepSizes:
    """A pair of learning rates.

    Attributes
    ----------
    global_step : float
        eta_g: the server's step along the mean of the silos' updates.
    local_step : float
        eta_l: a silo's step along its mean gradient.
    """

    global_step: float
    local_step: float


def noble2022_scaffold_steps(
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    strong_convexity: float = 0.0,
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-SCAFFOLD, convex losses.

    Parameters
    ----------
    smoothness : float
        nu: Lipschitz constant of the gradients.
    n_silos : int
        M.
    silo_rate : float
        l, the fraction of silos of a round, in (0, 1].
    local_steps : int
        K.
    strong_convexity : float, default=0.0
        mu.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_scaffold_steps
    >>> steps = noble2022_scaffold_steps(smoothness=0.5, n_silos=32, silo_rate=0.125,
    ...                                  local_steps=10)
    >>> steps.global_step, round(steps.local_step, 5)
    (2.0, 0.00104)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    local = silo_rate ** (2 / 3) / (24 * smoothness * steps * global_step)
    if check_not_negative("strong_convexity", strong_convexity):
        local = min(local, silo_rate / (54 * strong_convexity * steps * global_step))
    return StepSizes(global_step, local)


def noble2022_fedavg_steps(
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    dissimilarity: float,
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-FedAvg.

    Parameters
    ----------
    smoothness, n_silos, silo_rate, local_steps
        As in :func:`noble2022_scaffold_steps`.
    dissimilarity : float
        B, of the bounded-dissimilarity assumption above: at least 1, as the theorem has it.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_fedavg_steps
    >>> noble2022_fedavg_steps(smoothness=0.5, n_silos=16, silo_rate=0.25, local_steps=10,
    ...                        dissimilarity=1)
    StepSizes(global_step=2.0, local_step=0.00625)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    spread = 1 + check_number("dissimilarity", dissimilarity, low=1, open_high=True) ** 2
    return StepSizes(global_step, 1 / (8 * spread * smoothness * steps * global_step))


def noble2022_local_step(*, step: float, record_rate: float, local_steps: int) -> float:
    """Return the local step of the paper's experiments, eta_0 / (s K).

    Parameters
    ----------
    step : float
        eta_0, the number the paper tunes.
    record_rate : float
        s, the fraction of records of a local step, in (0, 1].
    local_steps : int
        K.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_local_step
    >>> noble2022_local_step(step=1.0, record_rate=0.2, local_steps=50)
    0.1
    """
    step = check_positive("step", step)
    rate = check_rate("record_rate", record_rate)
    return step / (rate * check_count("local_steps", local_steps))


def noble2022_weights(
    steps: StepSizes, *, strong_convexity: float, local_steps: int, n_rounds: int
) -> np.ndarray:
    """Return the weights of the theorem's output for strongly convex losses.

    Proportional to (1 - mu eta_g eta_l K / 2)^-t, as in the proof for SCAFFOLD.

    Parameters
    ----------
    steps : StepSizes
        From :func:`noble2022_scaffold_steps`.
    strong_convexity : float
        mu.
    local_steps, n_rounds : int
        K and T.

    Returns
    -------
    ndarray of shape (n_rounds,)
        The weight, summing to 1, of the parameters *before* each round.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import StepSizes, noble2022_weights
    >>> noble2022_weights(StepSizes(1.0, 0.5), strong_convexity=1.0, local_steps=2, n_rounds=2)
    array([0.33333333, 0.66666667])
    """
    effective = steps.global_step * steps.local_step * check_count("local_steps", local_steps)
    shrink = check_positive("strong_convexity", strong_convexity) * effective / 2
    if shrink >= 1:
        raise ValueError(f"{steps!r} are not valid: mu eta_g eta_l K / 2 = {shrink:.3g} >= 1.")
    from_last = np.arange(1 - check_count("n_rounds", n_rounds), 1)
    weights = np.exp(-from_last * math.log1p(-shrink))
    return weights / weights.sum()


def _common(
    smoothness: float, n_silos: int, silo_rate: float, local_steps: int
) -> tuple[float, float, int]:
    """Check the arguments; return the smoothness, sqrt(l M) and K."""
    smoothness = check_positive("smoothness", smoothness)
    taking_part = check_rate("silo_rate", silo_rate) * check_count("n_silos", n_silos)
    return smoothness, math.sqrt(taking_part), check_count("local_steps", local_steps)


class Excess(NamedTuple):
    """The expected excess objective: that of the expected model, and the part due to noise."""

    of_mean: float
    of_noise: float


def local_steps_excess(
    *,
    hessians: ArrayLike,
    optima: ArrayLike,
    start: ArrayLike,
    step: float,
    local_steps: int,
    n_rounds: int,
    noise: float,
) -> Excess:
    """Return the expected excess of averaged local steps on quadratic objectives.

    Parameters
    ----------
    hessians : array-like of shape (M, d, d)
        H_i, symmetric. Of least squares: the mean of x x^T over a silo's records.
    optima : array-like of shape (M, d)
        w_i.
    start : array-like of shape (d,)
        The first model.
    step : float
        eta.
    local_steps, n_rounds : int
        K and R.
    noise : float
        sigma, the standard deviation of the noise on each coordinate of a silo's mean gradient.

    Examples
    --------
    Silos of curvatures 1 and 3: four rounds of one step, and one round of four.

    >>> from skdpfl.algorithms.theory import local_steps_excess
    >>> problem = {"hessians": [[[1.0]], [[3.0]]], "optima": [[0.0], [1.0]], "start": [0.0]}
    >>> for K, R in (4, 1), (1, 4):
    ...     excess = local_steps_excess(**problem, step=0.1, local_steps=K, n_rounds=R, noise=1.0)
    ...     print(*(f"{value:.3f}" for value in excess))
    0.137 0.012
    0.094 0.012
    """
    H, w, x = _problem(hessians, optima, start)
    eta, sigma = check_positive("step", step), check_not_negative("noise", noise)
    K, R = check_count("local_steps", local_steps), check_count("n_rounds", n_rounds)
    values, vectors = np.linalg.eigh(H)
    shrinks = 1 - eta * values

    def means(diagonals: NDArray) -> NDArray:
        """Return the mean over silos of V diag V^T."""
        return np.einsum("iab,ib,icb->ac", vectors, diagonals, vectors, optimize=True) / len(H)

    B, mean_hessian = means(shrinks**K), H.mean(0)
    moved = np.einsum("iab,ib,icb,ic->a", vectors, 1 - shrinks**K, vectors, w, optimize=True)
    noises = sum(shrinks ** (2 * k) for k in range(K))
    fresh = (eta * sigma) ** 2 / len(H) * means(np.asarray(noises))
    m, S = x, np.zeros_like(B)
    for _ in range(R):
        m, S = B @ m + moved / len(H), B @ S @ B.T + fresh
    best = np.linalg.lstsq(mean_hessian, np.einsum("iab,ib->a", H, w) / len(H), rcond=None)[0]
    off = m - best
    return Excess(float(off @ mean_hessian @ off) / 2, float(np.sum(mean_hessian * S)) / 2)


def _problem(
    hessians: ArrayLike, optima: ArrayLike, start: ArrayLike
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the problem as arrays, after a check of their shapes."""
    H, w, x = (np.asarray(value, np.float64) for value in (hessians, optima, start))
    if H.shape != (*w.shape, *w.shape[1:]) or x.shape != w.shape[1:]:
        raise ValueError(
            "hessians, optima and start must have shapes (M, d, d), (M, d) and (d,); got "
            f"{H.shape}, {w.shape} and {x.shape}."
        )
    if not np.allclose(H, np.swapaxes(H, 1, 2)):
        raise ValueError("hessians must be symmetric.")
    return H, w, x
