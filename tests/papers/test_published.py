"""The papers' numbers, recomputed: printed values, and every formula by a second route."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi, norm

from skdpfl import papers
from skdpfl.privacy import epsilon_of

# ----------------------------------------------------------------------------- Renyi curves


def wang_directly(curve, rate, a):
    """Evaluate the subsampling theorem term by term; ``curve`` is a function of the order."""
    total = 1 + rate**2 * math.comb(a, 2) * min(4 * math.expm1(curve(2)), 2 * math.exp(curve(2)))
    for j in range(3, a + 1):
        total += 2 * rate**j * math.comb(a, j) * math.exp((j - 1) * curve(j))
    return math.log(total) / (a - 1)


# ----------------------------------------------------------------------------- Noble et al.

SYNTHETIC = {
    "sigma_g": 60, "n_silos": 100, "n_records": 4000, "silo_rate": 0.2, "record_rate": 0.2,
    "local_steps": 50, "n_rounds": 400,
}  # fmt: skip
FEMNIST = SYNTHETIC | {"sigma_g": 30, "n_silos": 40, "n_records": 2000}
MNIST = FEMNIST | {"n_silos": 60, "n_records": 800, "n_rounds": 100}
FEW_SILOS = SYNTHETIC | {"n_records": 5000, "silo_rate": 0.05}


@pytest.mark.parametrize(
    ("setting", "printed", "recomputed"),
    [
        (SYNTHETIC, 13, 12.906),
        (SYNTHETIC | {"n_records": 5000}, 13, 13.129),
        (FEMNIST, 11.4, 11.361),
        (FEMNIST | {"n_records": 2500}, 11.5, 11.584),
        (MNIST, 7.2, 7.149),
        (FEW_SILOS, 4.2, 4.210),
    ],
)
def test_noble_anchors(setting, printed, recomputed):
    epsilon = papers.noble2022(**setting)
    assert epsilon == pytest.approx(recomputed, abs=6e-4)
    assert epsilon == pytest.approx(printed, rel=0.02)


@pytest.mark.parametrize("view", ["outsider", "server"])
def test_noble_by_hand_at_small_orders(view):
    """The nested sum with plain floats, orders 2 to 12 (the best ones lie there)."""
    q, l, K, T, M = 0.2, 0.1, 10, 50, 40
    sigma = 20 * (math.sqrt(l * M) if view == "outsider" else 1)

    def inner(a):
        return K * wang_directly(lambda j: j / (2 * sigma**2), q, a)

    def outer(a):
        return wang_directly(inner, l, a) if view == "outsider" else inner(a)

    by_hand = min(T * outer(a) + math.log(1e6) / (a - 1) for a in range(2, 13))
    ours = papers.noble2022(
        sigma_g=20, n_silos=M, n_records=1000, silo_rate=l, record_rate=q, local_steps=K,
        n_rounds=T, delta=1e-6, view=view,
    )  # fmt: skip
    assert ours == pytest.approx(by_hand, rel=1e-9)


#: table 1 of the paper, column T for epsilon 3; columns K = 1, 5, 10, 20, 40
TABLE_1 = {
    10: (542, 488, 428, 324, 72),
    20: (545, 502, 451, 352, 83),
    40: (546, 505, 457, 360, 86),
    80: (546, 506, 458, 362, 87),
    160: (546, 506, 458, 362, 87),
}
SEARCH = {"epsilon": 3, "n_silos": 100, "n_records": 4000, "silo_rate": 0.05, "record_rate": 0.2}


@pytest.mark.parametrize(("sigma_g", "row"), TABLE_1.items())
def test_noble_table_1(sigma_g, row):
    """Exact but for the last row: the paper prints the row above it, three cells have one more."""
    ours = [
        papers.noble2022_rounds(sigma_g=sigma_g, local_steps=K, **SEARCH)
        for K in (1, 5, 10, 20, 40)
    ]
    more = (0, 1, 1, 1, 0) if sigma_g == 160 else (0,) * 5
    assert tuple(np.subtract(ours, more)) == row
    assert TABLE_1[160] == TABLE_1[80]


@pytest.mark.parametrize("view", ["outsider", "server"])
@pytest.mark.parametrize("sigma_g", [5, 40])
def test_noble_rounds_are_the_most(sigma_g, view):
    setting = SEARCH | {"sigma_g": sigma_g, "local_steps": 5, "view": view}
    target = setting.pop("epsilon")
    rounds = papers.noble2022_rounds(epsilon=target, **setting)
    assert rounds > 0
    assert papers.noble2022(n_rounds=rounds, **setting) <= target
    assert papers.noble2022(n_rounds=rounds + 1, **setting) > target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma_g": 0}, r"sigma_g must be a number in \(0, inf\); got 0"),
        ({"sigma_g": "big"}, "sigma_g must .* got 'big'"),
        ({"n_silos": 2.5}, "n_silos must be an integer of at least 1; got 2.5"),
        ({"silo_rate": 1.2}, r"silo_rate must be a number in \(0, 1\]; got 1.2"),
        ({"record_rate": 0}, r"record_rate must .* got 0"),
        ({"local_steps": 0}, "local_steps must .* got 0"),
        ({"n_rounds": -1}, "n_rounds must .* got -1"),
        ({"delta": 1}, r"delta must be a number in \(0, 1\); got 1"),
        ({"view": "silo"}, r"view must be one of 'outsider', 'server'; got 'silo'"),
    ],
)
def test_noble_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        papers.noble2022(**(MNIST | change))


# ----------------------------------------------------------------------------- Chang et al.

EXPERIMENT = {
    "scheme": 0, "sigma0_squared": 8, "n_rounds": 600, "local_steps": 50, "silo_rate": 0.2,
    "record_rate": 0.2, "batch": 500, "lipschitz": 1, "delta": 1e-5,
}  # fmt: skip
FIGURE_3 = EXPERIMENT | {"n_rounds": 700, "local_steps": 200}


@pytest.mark.parametrize(
    ("setting", "printed"),
    [
        (EXPERIMENT, 7.676927),
        (FIGURE_3, 11.514717),
        (EXPERIMENT | {"lipschitz": 2}, 7.67869),
        (FIGURE_3 | {"lipschitz": 2}, 11.5201),
    ],
)
def test_chang_generic_anchors(setting, printed):
    assert papers.chang2022(**setting, method="generic") == pytest.approx(printed, rel=1e-6)


def variances_by_loop(scheme, sigma0, beta, start, n_rounds, tau):
    table = np.full((n_rounds, tau), float(sigma0))
    for r, t in itertools.product(range(1, n_rounds + 1), range(1, tau + 1)):
        if scheme == 1 and r > start:
            table[r - 1, t - 1] *= beta ** (r - start)
        if scheme == 2 and r > start:
            table[r - 1, t - 1] *= beta ** (tau * (r - start - 1) + t - 1)
    return table


@pytest.mark.parametrize(
    ("scheme", "beta", "start", "n_rounds", "batch"),
    [(0, 1, 0, 600, 500), (1, 0.998, 300, 500, 500), (0, 1, 0, 600, 20)],
)
def test_chang_theorem_by_grid(scheme, beta, start, n_rounds, batch):
    """The closed-form minimum, at the largest order or below, against a grid of allowed ones."""
    setting = EXPERIMENT | {"scheme": scheme, "beta": beta, "start": start, "n_rounds": n_rounds}
    setting["batch"] = batch
    variances = variances_by_loop(scheme, 8, beta, start, n_rounds, 50)
    per_order = np.sum(24 * (0.04 / batch) ** 2 / variances)
    allowed = np.linspace(1.0001, variances[-1, -1] * math.log(25), 200_001)
    by_grid = np.min(per_order * allowed + math.log(1e5) / (allowed - 1))
    assert papers.chang2022(**setting) == pytest.approx(by_grid, rel=1e-6)


@pytest.mark.parametrize(("scheme", "beta"), [(1, 0.99), (2, 0.9995)])
def test_chang_generic_of_a_schedule(scheme, beta):
    """Few levels, and more than are evaluated: against the sum over every single step."""
    setting = EXPERIMENT | {"scheme": scheme, "beta": beta, "start": 20, "n_rounds": 400}
    setting |= {"local_steps": 10, "batch": 5}
    variances = variances_by_loop(scheme, 8, beta, 20, 400, 10)
    counted = dict(zip(*np.unique(variances, return_counts=True), strict=True))
    by_sum = min(
        sum(
            c * wang_directly(lambda j, v=v: j * 0.4**2 / (2 * v), 0.04, a)
            for v, c in counted.items()
        )
        + math.log(1e5) / (a - 1)
        for a in range(2, 8)
    )
    ours = papers.chang2022(**setting, method="generic")
    assert by_sum <= ours * (1 + 1e-12)
    assert ours == pytest.approx(by_sum, rel=1e-6)


SCHEDULES = [
    (0, 0.9, 3, 7, 4),
    (1, 0.9, 3, 7, 4),
    (2, 0.97, 3, 7, 4),
    (1, 0.9, 0, 5, 1),
    (2, 0.9, 0, 5, 1),
    (1, 0.9, 9, 7, 4),
    (2, 0.9, 7, 7, 4),
    (1, 1.0, 3, 7, 4),
    (2, 1.0, 3, 7, 4),
]


@pytest.mark.parametrize(("scheme", "beta", "start", "n_rounds", "tau"), SCHEDULES)
def test_chang_schedule(scheme, beta, start, n_rounds, tau):
    by_loop = variances_by_loop(scheme, 8, beta, start, n_rounds, tau)
    schedule = {"scheme": scheme, "beta": beta, "start": start, "local_steps": tau}
    ours = papers.chang2022_variances(sigma0_squared=8, n_rounds=n_rounds, **schedule)
    np.testing.assert_allclose(ours, by_loop, rtol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "beta", "tau", "constant", "expected"),
    [
        (1, 0.998, 50, 600, 493),
        (2, 0.99992, 50, 600, 438),
        (1, 0.998, 200, 700, 546),
        (2, 0.99998, 200, 700, 474),
        (0, 0.5, 200, 700, 700),
        (1, 0.5, 200, 150, 150),
        (2, 1.0, 200, 700.5, 700),
    ],
)
def test_chang_stops(scheme, beta, tau, constant, expected):
    schedule = {"scheme": scheme, "beta": beta, "start": 200, "local_steps": tau}
    stop = papers.chang2022_rounds(constant_rounds=constant, **schedule)
    assert stop == expected


CONVERGENCE = {
    "n_silos": 40, "silos_per_round": 8, "batch": 500, "distance": 1.5, "drift": 0.7,
    "gradient_variance": 2.0, "global_step": 2,
}  # fmt: skip
STEADY = np.full((40, 5), 8.0)


def theorem_3(v, S=8, B=500, eta=2):
    """The factor of the text, by sums over all silos, rounds and steps."""
    K, R, tau = v.shape
    inner = sum(
        (1 + 1 / (tau - 1)) ** i * v[:, :, t - i - 1].sum()
        for t in range(1, tau + 1)
        for i in range(t)
    )
    factor = 16 / (tau * S * R) * v.sum() + inner / (25 * eta**2 * S * tau**3 * R)
    return factor + 11 * K * 0.7 / (S * R) + 15 / (tau * S * B) * (1 + tau / eta**2) * 2.0


@pytest.mark.parametrize("tau", [2, 5, 12])
@pytest.mark.parametrize(("scheme", "beta"), [(0, 1.0), (1, 0.95), (2, 0.99)])
def test_chang_corollary_bounds_theorem_3(scheme, beta, tau):
    """The corollaries replace theorem 3's double sums by larger closed forms, by little."""
    v = variances_by_loop(scheme, 8, beta, 10, 40, tau)
    K, S, B, R, eta = 40, 8, 500, 40, 2
    factor = theorem_3(np.broadcast_to(v, (K, R, tau)))
    theorem = papers.chang2022_convergence(v, **CONVERGENCE).factor
    assert theorem == pytest.approx(factor)
    corollary = papers.chang2022_convergence(v, form="corollaries", **CONVERGENCE).factor
    assert factor <= corollary <= 1.01 * factor
    # as printed, with closed sums
    c = 3 / (25 * eta**2)
    noise = (16 + c / tau) * {0: 40, 1: 10 + sum(beta**m for m in range(1, 31)), 2: 10}[scheme]
    if scheme == 2:
        noise += (16 + c) / tau * (1 - beta ** (30 * tau)) / (1 - beta)
    noise *= 8 * K / (S * R)
    rest = 11 * K * 0.7 / (S * R) + 15 / (tau * S * B) * (1 + tau / eta**2) * 2.0
    assert corollary == pytest.approx(noise + rest)


@pytest.mark.parametrize("seed", range(6))
def test_chang_theorem_3_with_noise_of_silos_own(seed):
    rng = np.random.default_rng(seed)
    v = rng.exponential(size=(40, int(rng.integers(1, 5)), int(rng.integers(2, 6))))
    assert papers.chang2022_convergence(v, **CONVERGENCE).factor == pytest.approx(theorem_3(v))
    with pytest.raises(ValueError, match=r"shape \(39, "):
        papers.chang2022_convergence(v[1:], **CONVERGENCE)


def test_chang_step_is_the_best():
    bound = papers.chang2022_convergence(STEADY, **CONVERGENCE)

    def gap(step):
        return bound.factor * step + 1.5**2 / (40 * step)

    assert bound.gap == pytest.approx(gap(bound.effective_step))
    assert bound.gap == pytest.approx(2 * 1.5 * math.sqrt(bound.factor / 40))
    assert min(gap(0.99 * bound.effective_step), gap(1.01 * bound.effective_step)) > bound.gap
    assert bound.local_step * 5 * 2 == pytest.approx(bound.effective_step)


# ----------------------------------------------------------------------------- Lowy, Razaviyayn

SILO = {"epsilon": 1.5, "delta": 1e-5, "n_records": 1000, "n_rounds": 35, "batch": 200}


def test_lowy_theory_is_the_derivation():
    """Advanced composition, subsampling and the classical Gaussian mechanism, one by one."""
    epsilon, delta, n, R, K, L = *SILO.values(), 3.0
    per_round, delta_round = epsilon / (2 * math.sqrt(2 * R * math.log(2 / delta))), delta / 2 / R
    per_step, delta_step = n * per_round / (2 * K), n * delta_round / K
    assert per_step <= 1
    by_hand = 2 * L / K * math.sqrt(2 * math.log(1.25 / delta_step)) / per_step
    assert papers.lowy2023_sigma(**SILO, lipschitz=L) == pytest.approx(by_hand, rel=1e-12)


def test_lowy_theory_batch_is_where_subsampling_holds():
    """At the smallest batch the amplified step is (1, .)-DP, the limit of its lemma."""
    asked = {k: v for k, v in SILO.items() if k != "batch"}
    K = papers.lowy2023_batch(**asked)
    per_round = 1.5 / (2 * math.sqrt(2 * 35 * math.log(2 / 1e-5)))
    assert 1000 * per_round / (2 * K) == pytest.approx(1)


def test_lowy_practice_by_hand():
    sigma = papers.lowy2023_sigma(**SILO, lipschitz=3.0, form="practice")
    assert sigma**2 == pytest.approx(8 * 9 * 35 * math.log(1e5) / (1000**2 * 1.5**2))


def test_lowy_one_pass_by_hand():
    """zCDP of one release with sensitivity 2 L / K, converted, stays within epsilon."""
    epsilon, delta, K = 2.0, 1e-5, 28
    sigma = papers.lowy2023_sigma(
        epsilon=epsilon, delta=delta, n_records=1000, n_rounds=35, batch=K, lipschitz=3.0,
        form="one pass",
    )  # fmt: skip
    rho = (2 * 3.0 / K) ** 2 / (2 * sigma**2)
    assert rho == pytest.approx(epsilon**2 / (16 * math.log(1 / delta)))
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) <= epsilon


def test_lowy_theory_needs_a_delta_below_one_for_each_step():
    setting = {"epsilon": 1e-3, "delta": 0.5, "n_records": 10_000, "n_rounds": 1, "lipschitz": 1}
    with (
        pytest.warns(UserWarning, match="a batch of at least"),
        pytest.raises(ValueError, match=r"delta_step = .* = 2500, which must be below 1"),
    ):
        papers.lowy2023_sigma(batch=1, **setting)
    assert papers.lowy2023_sigma(batch=2501, **setting) > 0


# ----------------------------------------------------------------------------- theorem 4.1, FedEXP


def test_noble_sigma_by_hand_and_by_scaling():
    setting = {"n_silos": 16, "silo_rate": 0.25, "record_rate": 0.1, "local_steps": 9}
    setting |= {"epsilon": 0.5, "delta": 1e-4, "n_rounds": 100}
    logs = math.log(50 / 1e-4) * math.log(2 / 1e-4)
    sigma = papers.noble2022_sigma(**setting)
    assert sigma == pytest.approx(0.1 * math.sqrt(25 * 9 * logs) / (0.5 * 4))
    assert papers.noble2022_sigma(**setting | {"epsilon": 1.0}) == pytest.approx(sigma / 2)
    assert papers.noble2022_sigma(**setting | {"n_silos": 64}) == pytest.approx(sigma / 2)


@pytest.mark.parametrize(("z", "n_rounds"), [(5.0, 1), (20.0, 50), (0.7, 50)])
def test_fedexp_of_silos_own_noise_is_sound_and_a_little_loose(z, n_rounds):
    setting = {"noise_multiplier": z, "delta": 1e-5}
    claimed = papers.takakura2025(n_rounds=n_rounds, **setting)
    sound = epsilon_of(sampling_rate=1.0, n_steps=n_rounds, **setting)
    assert sound < claimed < 1.3 * sound


def test_fedexp_at_the_server_pays_for_the_numerator():
    z, M, d, T = 0.4, 100, 3, 10
    setting = {"noise_multiplier": z, "n_rounds": T, "delta": 1e-5, "view": "server"}
    orders = np.linspace(1.001, 60, 200_000)
    # the mean of M messages, and their mean squared norm with noise of d sigma^2 / M
    mean, numerator = (2 / M) / (z / math.sqrt(M)), (1 / M) / (d * z**2 / M)
    rho = T * (mean**2 + numerator**2) / 2
    best = (orders * rho + math.log(1e5) / (orders - 1)).min()
    found = papers.takakura2025(n_silos=M, n_parameters=d, **setting)
    assert found == pytest.approx(best, rel=1e-6)


# ----------------------------------------------------------------------------- documentation


#: docs/published.md: printed setting, z, steps of a silo that takes part in a fifth of the rounds,
#: delta, the sound epsilon of the page
SOUND = [
    (60, 4000, 1 / 80_000, 1.645),
    (120, 4000, 1 / 400_000, 0.844),
    (60, 1000, 1 / 48_000, 0.738),
    (500 * math.sqrt(8), 6000, 1e-5, 0.065),
    (500 * math.sqrt(8), 28_000, 1e-5, 0.151),
    (60, 98 * 50, 1 / 80_000, 1.84),
]


@pytest.mark.parametrize(("z", "n_steps", "delta", "page"), SOUND)
def test_page_sound_numbers(z, n_steps, delta, page):
    sound = epsilon_of(
        noise_multiplier=z, sampling_rate=0.2, n_steps=n_steps, delta=delta,
        sampling="without_replacement",
    )  # fmt: skip
    assert sound == pytest.approx(page, rel=5e-3)


@pytest.mark.parametrize(
    ("n", "batch", "n_rounds", "epsilon", "practice", "theory"),
    [
        (107, 19, 35, 1, 0.79, 0.023),
        (107, 19, 35, 3, 3.5, 0.084),
        (1238, 443, 35, 0.75, 0.60, 0.019),
        (1238, 443, 35, 3, 2.9, 0.085),
        (1238, 443, 35, 18, 39, 0.59),
        (211, 31, 100, 3, 3.1, 0.083),
        (211, 31, 100, 9, 19, 0.28),
    ],
)
@pytest.mark.filterwarnings("ignore:The formula .* asks for a batch")
def test_page_isrl_table(n, batch, n_rounds, epsilon, practice, theory):
    for form, page in (("practice", practice), ("theory", theory)):
        sigma = papers.lowy2023_sigma(
            epsilon=epsilon, delta=n**-2, n_records=n, n_rounds=n_rounds, batch=batch,
            lipschitz=1, form=form,
        )  # fmt: skip
        sound = epsilon_of(
            noise_multiplier=sigma * batch, sampling_rate=batch / n, n_steps=n_rounds,
            delta=n**-2, sampling="without_replacement",
        )  # fmt: skip
        assert sound == pytest.approx(page, rel=0.04)


# --------------------------------------------------- PFL's theorems, Noble's other routes


def numbers(seed, *ranges):
    """Log-uniform numbers, one from each range."""
    random = np.random.default_rng(seed)
    return [float(np.exp(random.uniform(np.log(low), np.log(high)))) for low, high in ranges]


@pytest.mark.parametrize("seed", range(20))
def test_degradation_is_theorem_2(seed):
    """Step by step, by the triangle inequality; the noise's norm has the chi distribution."""
    beta, alpha, clip, sigma, plain, most = numbers(seed, *[(1e-2, 1e2)] * 6)
    random = np.random.default_rng(seed)
    E, L, N = (int(random.integers(1, high)) for high in (21, 1000, 5000))
    noise = chi(N).mean() * sigma * clip
    apart = sum(alpha / L * (L * clip + noise) + plain * most for _ in range(E))
    ours = papers.bhaskar2025_degradation(
        epochs=E, lipschitz=beta, step=alpha, clip_norm=clip, noise_multiplier=sigma, batch=L,
        n_parameters=N, plain_step=plain, plain_clip_norm=most,
    )  # fmt: skip
    assert ours == pytest.approx(beta * apart, rel=1e-11)


@pytest.mark.parametrize("seed", range(20))
def test_utility_is_chebyshevs_inequality(seed):
    """The loss beta theta of normal models: their mean is normal, of deviation s / sqrt k."""
    excess, beta, s = numbers(seed, (1e-2, 1), (0.1, 10), (1e-2, 1))
    k = int(np.random.default_rng(seed).integers(1, 200))
    ours = papers.bhaskar2025_utility(excess=excess, lipschitz=beta, deviation=s, n_silos=k)
    variance = (beta * s) ** 2 / k
    assert ours == pytest.approx(max(0.0, (excess**2 - variance) / excess**2), abs=1e-12)
    assert ours <= 1 - 2 * norm.sf(excess / math.sqrt(variance))


@pytest.mark.parametrize("seed", range(10))
def test_observation_1_is_the_noise_of_fewer_epochs(seed):
    """sigma = kappa q sqrt(T ln(1/delta)) / eps, solved for eps at t in place of T."""
    (epsilon,) = numbers(seed, (0.1, 10))
    total = int(np.random.default_rng(seed).integers(1, 50))
    sigma = 0.3 * 0.01 * math.sqrt(total * math.log(1e5)) / epsilon
    for after in (1, total):
        ours = papers.bhaskar2025_epsilon(epsilon=epsilon, n_epochs=total, after=after)
        assert ours == pytest.approx(0.3 * 0.01 * math.sqrt(after * math.log(1e5)) / sigma)


@pytest.mark.parametrize("seed", range(10))
def test_what_the_server_is_promised(seed):
    epsilon, delta, rate = numbers(seed, (0.1, 10), (1e-9, 1e-2), (0.01, 1))
    M = int(np.random.default_rng(seed).integers(1, 300))
    found = papers.noble2022_server(epsilon=epsilon, delta=delta, n_silos=M, silo_rate=rate)
    squared = epsilon * epsilon * M / rate
    assert found == pytest.approx((squared**0.5, (delta + delta / rate) / 2), rel=1e-12)


@pytest.mark.parametrize("setting", [FEMNIST, SYNTHETIC, MNIST])
def test_the_closed_route_is_strong_composition(setting):
    """Order by order and share by share; orders beyond 40 are never the best here."""
    M, rate, s = (setting[name] for name in ("n_silos", "silo_rate", "record_rate"))
    K, T, delta = setting["local_steps"], setting["n_rounds"], 1 / (M * setting["n_records"])
    y = 1 / (2 * rate * M * setting["sigma_g"] ** 2)
    inner = {a: K * wang_directly(lambda j: j * y, s, a) for a in range(2, 41)}
    found = []
    for halvings in range(1, 41):
        last = delta / 2**halvings
        first = (delta - last) / (T * rate)
        alone = min(e - math.log(first) / (a - 1) for a, e in inner.items())
        e = math.log(1 + rate * (math.exp(alone) - 1))
        found.append(e * math.sqrt(-2 * T * math.log(last)) + T * e * (math.exp(e) - 1))
    assert papers.noble2022_composed(**setting) == pytest.approx(min(found), rel=1e-9)
    assert papers.noble2022_composed(**setting) > 1000 * papers.noble2022(**setting)
