"""Bhaskar et al. (2025): local epochs of DP-SGD, and what can be proved about local steps.

U. Bhaskar, V. Srivastava, A. M. Vummintala, N. Manwani and S. Gujar, "Optimal strategies for
federated learning maintaining client privacy", arXiv:2501.14453. E local epochs
of DP-SGD a round (in the paper's pseudo-code: E steps), T of them in all, k silos, batches of L
records, N parameters, a loss that is beta-Lipschitz in the parameters::

    Observation 1   after t of T epochs   epsilon_t = epsilon / sqrt(T / t)
    Theorem 2       |R(private) - R(plain)|  <=  beta E (alpha C + alpha_1 C_1
                        + sqrt(2) (alpha sigma C / L) Gamma((N+1)/2) / Gamma(N/2))
    Theorem 3       P(|R - R*| < l)  >=  1 - s^2 beta^2 / (l^2 k)

Theorem 2 compares a silo's round of DP-SGD (step alpha, clip norm C, noise of deviation sigma C on
the sum) with one of plain SGD (alpha_1, and C_1 that clips nothing) from the same start on the same
batches. The last term is the mean norm of the noise in N dimensions. Theorem 3 is Chebyshev's
inequality for the mean of k silos' models, each of deviation s about theta*.

**Local steps.** On quadratic objectives averages of noisy local steps are known exactly, by
recursion. Silo i of M makes K steps between two averages, R times, without clipping and momentum::

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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpfl._arguments import (
    check_count,
    check_not_negative,
    check_number,
    check_positive,
)


def bhaskar2025_degradation(
    *,
    epochs: int,
    lipschitz: float,
    step: float,
    clip_norm: float,
    noise_multiplier: float,
    batch: int,
    n_parameters: int,
    plain_step: float,
    plain_clip_norm: float,
) -> float:
    """Return the bound of Theorem 2 on the loss due to privacy in a round of local epochs.

    Parameters
    ----------
    epochs : int
        E, the local epochs of the round.
    lipschitz : float
        beta: how fast the loss changes with the parameters.
    step, clip_norm : float
        alpha and C of DP-SGD.
    noise_multiplier : float
        sigma: the noise on the clipped sum over C.
    batch : int
        Records L in a batch.
    n_parameters : int
        N, the coordinates that receive noise.
    plain_step, plain_clip_norm : float
        alpha_1 and C_1 of plain SGD; C_1 is so large that nothing is clipped. ``inf`` is the
        theorem without clipping: its bound is infinite.

    Returns
    -------
    float
        An upper bound on the mean absolute difference of the two losses.

    See Also
    --------
    skdpfl.papers.local_steps_excess : What can be proved: exact, on quadratic losses.

    Notes
    -----
    **Why this is not what the library reports**: it does not bound a loss. The paper concludes that
    one local epoch per round is best, since the bound grows with E. But a fit has T / E rounds, and
    the sum over them is the same for every E. The bound is infinite if plain SGD does not clip,
    ignores averaging over silos, and measures the distance to plain SGD instead of that to an
    optimum.

    References
    ----------
    U. Bhaskar, V. Srivastava, A. M. Vummintala, N. Manwani and S. Gujar, "Optimal strategies for
    federated learning maintaining client privacy", arXiv:2501.14453, 2025.

    Examples
    --------
    >>> from skdpfl.papers import bhaskar2025_degradation
    >>> setting = dict(lipschitz=1, step=0.3, clip_norm=1, noise_multiplier=1, batch=64,
    ...                n_parameters=26_010, plain_step=0.3, plain_clip_norm=10)
    >>> round(bhaskar2025_degradation(epochs=1, **setting), 3)
    4.056
    >>> round(4 * bhaskar2025_degradation(epochs=5, **setting), 2)  # four rounds of five
    81.12
    >>> round(20 * bhaskar2025_degradation(epochs=1, **setting), 2)  # and twenty of one
    81.12
    """
    private = check_positive("step", step) * check_positive("clip_norm", clip_norm)
    plain = check_positive("plain_step", plain_step)
    plain *= check_number("plain_clip_norm", plain_clip_norm, low=0, open_low=True)
    half = check_count("n_parameters", n_parameters) / 2
    mean_norm = math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    noise = check_not_negative("noise_multiplier", noise_multiplier) / check_count("batch", batch)
    epochs, lipschitz = check_count("epochs", epochs), check_positive("lipschitz", lipschitz)
    return lipschitz * epochs * (private + plain + private * noise * mean_norm)


def bhaskar2025_utility(
    *, excess: float, lipschitz: float, deviation: float, n_silos: int
) -> float:
    """Return the probability of Theorem 3 that the loss is near that of theta*, from below.

    Parameters
    ----------
    excess : float
        l: how near the loss has to be.
    lipschitz : float
        beta: how fast the loss changes with the parameters.
    deviation : float
        s: the root mean square distance of one silo's model from theta*.
    n_silos : int
        k, whose models are averaged.

    Returns
    -------
    float
        At least 0; the theorem's "1 - O(1 / (l^2 k))" with the constant of its proof.

    See Also
    --------
    skdpfl.papers.local_steps_excess : What can be proved: exact, on quadratic losses.

    Notes
    -----
    **Why this is not what the library reports**: it needs the deviation of the silos' models, which
    has to be known beforehand, not that of the noise. And theta* is the mean of the silos' models:
    if they drift apart it is not an optimum, however many silos there are.

    References
    ----------
    As for :func:`bhaskar2025_degradation`.

    Examples
    --------
    >>> from skdpfl.papers import bhaskar2025_utility
    >>> for k in (1, 10, 100):
    ...     print(round(bhaskar2025_utility(excess=0.2, lipschitz=1, deviation=0.4, n_silos=k), 2))
    0.0
    0.6
    0.96
    """
    share = check_not_negative("deviation", deviation) * check_positive("lipschitz", lipschitz)
    share /= check_positive("excess", excess)
    return max(0.0, 1 - share * share / check_count("n_silos", n_silos))


def bhaskar2025_epsilon(*, epsilon: float, n_epochs: int, after: int) -> float:
    """Return the epsilon that Observation 1 assigns to a silo's first epochs.

    Parameters
    ----------
    epsilon : float
        The budget of all epochs.
    n_epochs : int
        T, for which the noise was calibrated.
    after : int
        How many of them have run.

    Returns
    -------
    float
        epsilon / sqrt(n_epochs / after).

    See Also
    --------
    skdpfl.privacy.epsilon_of : The sound price of given steps.

    Notes
    -----
    **Why this is not what the library reports**: the noise of the moments accountant, sigma ~ q
    sqrt(T ln(1/delta)) / epsilon, is an order of magnitude, so its inverse is not a bound. Sound
    prices of part of the steps grow like the root for small epsilons only.

    References
    ----------
    As for :func:`bhaskar2025_degradation`.

    Examples
    --------
    >>> from skdpfl.papers import bhaskar2025_epsilon
    >>> bhaskar2025_epsilon(epsilon=2.0, n_epochs=20, after=5)
    1.0
    """
    total = check_count("n_epochs", n_epochs)
    done = check_count("after", after, low=0, high=total)
    return check_positive("epsilon", epsilon) * math.sqrt(done / total)


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

    >>> from skdpfl.papers import local_steps_excess
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
        raise ValueError("hessians, optima and start must have shapes (M, d, d), (M, d) and (d,).")
    if not np.allclose(H, np.swapaxes(H, 1, 2)):
        raise ValueError("hessians must be symmetric.")
    return H, w, x
