"""trust="shuffler": noise, price and arithmetic of separate messages and of vector sums."""

import dataclasses

import numpy as np
import pytest

from skdpfl.privacy import Guarantee
from skdpfl.privacy.events import compose
from skdpfl.privacy.mechanisms import Aggregate, Senders
from skdpfl.privacy.mechanisms.binomial import binomial_quantiles
from skdpfl.privacy.mechanisms.records import ShuffledGradients, ShuffledSums, smallest_round
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import PrecisionError
from skdpfl.privacy.sampling import Disjoint, PoissonSampling, WithoutReplacement
from skdpfl.privacy.shuffling import shuffled_levels, shuffled_profile
from tests.guaranteed import plan_of

SIZES = np.array([20, 30, 50, 100])


def plan(z=2.0, sampling=None, schedule=None, n_rounds=3):
    sampling = WithoutReplacement(0.2) if sampling is None else sampling
    batches = np.array([sampling.expected_size(n) for n in SIZES.tolist()])
    return plan_of(
        silo_sizes=SIZES, steps=(1,) * n_rounds, clip_norm=1.5, noise_multiplier=z, delta=1e-5,
        trust="shuffler", sampling=sampling, weights=batches / batches.sum(), schedule=schedule,
    )  # fmt: skip


def test_a_round_is_priced_with_all_its_messages():
    one = plan()
    expected = shuffled_levels([(2.0, 3)], 4 + 6 + 10 + 20, 0.2, 1e-5)
    assert set(one.groups().compositions) == {expected}
    fewer = plan(schedule=tuple(np.array(c) for c in ([0, 3], [1, 2], [0, 1, 2, 3])))
    assert smallest_round(fewer) == 16  # silos 1 and 2
    composition = fewer.groups().compositions[fewer.groups().of_silo[0]]
    assert composition == shuffled_levels([(2.0, 2)], 16, 0.2, 1e-5)


def test_sums_in_bits_are_clipped_for_the_grid_of_their_noise():
    """2 c + gamma sqrt(size) = (1 - 4e-4) 2 C, the grid gamma 2^-36 of the noise z C on a sum."""
    one = dataclasses.replace(plan(z=1e5), size=3, mechanism=ShuffledSums())
    terms = one.mechanism.gradient_terms(one, 3, np.dtype(float))
    gamma = 1e5 * 1.5 * 2.0**-36
    assert terms.clip == pytest.approx((1 - 4e-4) * 1.5 - gamma * np.sqrt(3) / 2, rel=1e-10)
    assert terms.noised is None and terms.divisor.tolist() == [4, 6, 10, 20]


def test_a_sum_of_bits_without_its_size_is_refused():
    """It would be priced as a single number, which costs less."""
    with pytest.raises(ValueError, match="give size"):
        dataclasses.replace(plan(), mechanism=ShuffledSums())


def test_more_bits_than_doubles_can_count_are_refused():
    """2^53 + 1 ones are no double: low bits of the silos' sums would be left without noise."""
    one = dataclasses.replace(plan(z=1e7), size=3, mechanism=ShuffledSums())
    assert 4 * one.mechanism.protocol(one, 1e7).noise_bits > 2**52
    with pytest.raises(PrecisionError, match="bits"):
        one.mechanism.gradient_terms(one, 3, np.dtype(float))
    with pytest.raises(ValueError, match="2\\^52"):
        binomial_quantiles(2**53, 0.5, np.full(3, 0.5))


@pytest.mark.parametrize("mechanism", [ShuffledGradients(), ShuffledSums()])
def test_plans_that_a_shuffler_does_not_protect_are_refused(mechanism):
    """The number of messages, or a factor on them, would tell; zeroing has other shifts."""
    one = dataclasses.replace(plan(), size=3, mechanism=mechanism)
    with pytest.raises(ValueError, match="fixed size"):
        dataclasses.replace(one, sampling=PoissonSampling(0.2))
    with pytest.raises(ValueError, match="proportional"):
        dataclasses.replace(one, weights=np.full(4, 0.25))
    with pytest.raises(ValueError, match='neighbours="replace" only'):
        dataclasses.replace(one, guarantee=Guarantee(trust="shuffler", neighbours="add_remove"))
    assert dataclasses.replace(one, weights=3 * one.weights).n_silos == 4


def test_all_messages_have_the_most_noise_that_a_silo_is_priced_at():
    unequal = np.array([2.0, 3.0, 5.0, 1.0])
    one = dataclasses.replace(plan(), noise_multiplier=unequal)
    std = one.mechanism.gradient_terms(one, 5, np.dtype(float)).noised.std
    np.testing.assert_allclose(std, 5.0 * 1.5 * np.sqrt([4, 6, 10, 20]))
    sums = dataclasses.replace(one, size=4000, mechanism=ShuffledSums())
    assert sums.mechanism.noise_on_mean(sums) >= 5.0 * 1.5 / 40
    noise = sums.mechanism.release(sums, Aggregate(np.zeros(4000), 1.0), 0, streams_for(0))
    assert noise.std() >= 0.94 * 5.0 * 1.5 / 40  # 5 standard errors


def test_rounds_of_less_noise_are_priced_at_their_own():
    decaying = dataclasses.replace(plan(), noise_schedule=("round", 0.25, 1))  # z: 2, 1, 1/2
    slack = 0.05 * 1e-5 / (3 * 0.2)
    expected = [(shuffled_profile(z, 40, 0.2, slack=slack), 1) for z in (0.5, 1.0, 2.0)]
    (composition,) = set(decaying.groups().compositions)
    assert set(composition) == set(expected)
    assert decaying.spent().epsilon > 2 * plan().spent().epsilon
    parts = np.array([6, 10, 16, 33])
    one_pass = dataclasses.replace(decaying, sampling=Disjoint(3), weights=parts / parts.sum())
    # the record may be in the last round
    assert set(one_pass.groups().compositions) == {shuffled_levels([(0.5, 1)], 65, 1.0, 1e-5)}


def test_a_silos_sum_has_the_noise_of_all_its_messages():
    """z C sqrt(K) on each; on the mean of all K in a round z C / sqrt(K)."""
    one = plan()  # z = 2, C = 1.5, batches of 4, 6, 10 and 20
    noised = one.mechanism.gradient_terms(one, 5, np.dtype(float)).noised
    np.testing.assert_allclose(noised.std, 3.0 * np.sqrt([4, 6, 10, 20]))
    assert one.mechanism.noise_on_mean(one) == pytest.approx(3.0 / np.sqrt(40))
    half = dataclasses.replace(one, silo_fraction=0.5)
    assert half.mechanism.noise_on_mean(half) == pytest.approx(3.0 / np.sqrt(20))


# ------------------------------------------------------------------ vector sums, bit by bit


def bits_plan(z=4.0, schedule=None, dimension=3):
    sampling = Disjoint(5)
    batches = np.array([sampling.expected_size(n) for n in SIZES.tolist()])
    return plan_of(
        silo_sizes=SIZES, steps=(1,) * 5, clip_norm=0.5, noise_multiplier=z, delta=1e-5,
        trust="shuffler", sampling=sampling, weights=batches / batches.sum(), schedule=schedule,
        size=dimension, mechanism=ShuffledSums(),
    )  # fmt: skip


def test_sums_are_priced_by_the_protocol_of_the_smallest_round():
    everyone = bits_plan()
    protocol = everyone.mechanism.protocol(everyone, 4.0)
    assert (protocol.n_contributors, protocol.records, protocol.dimension) == (4, 20, 3)
    assert set(everyone.groups().compositions) == {protocol.composition()}
    assert protocol.noise_multiplier >= 4.0
    fewer = bits_plan(schedule=tuple(np.array(c) for c in ([0, 1, 2], [1, 2], [0, 3], [3, 1])))
    assert fewer.mechanism.protocol(fewer, 4.0).n_contributors == 2
    assert everyone.mechanism.message_bits(everyone) == protocol.bits_per_contributor


@pytest.mark.slow
def test_rounding_is_unbiased_and_noise_is_as_wide_as_the_plan_says():
    """A release of given messages, many times: mean and variance at 5 standard errors."""
    plan, streams = dataclasses.replace(bits_plan(dimension=2), steps=(1,) * 4000), streams_for(0)
    mechanism, everyone = plan.mechanism, np.arange(4)
    messages = np.array([[0.11, -0.2], [0.3, 0.05], [-0.02, 0.4], [0.123, 0.0]])
    released = []
    for r in range(4000):
        sent = mechanism.send(plan, messages, Senders(everyone, r, streams, np.inf))
        unit = mechanism.protocol(plan, 4.0).unit
        steps = sent * plan.expected_sizes[:, None] / unit
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)  # on the grid
        total = Aggregate(plan.weights @ sent, 1.0)
        released.append(mechanism.release(plan, total, r, streams))
    released, expected = np.array(released), mechanism.noise_on_mean(plan)
    bias = released.mean(axis=0) - plan.weights @ messages
    assert (np.abs(bias) < 5 * expected / np.sqrt(4000)).all()
    # the variance of a variance estimate is 2 / n of its square
    assert released.var(axis=0) == pytest.approx(expected**2, rel=5 * np.sqrt(2 / 4000) + 0.01)


def test_sums_of_less_noise_are_run_and_priced_at_their_own():
    """Noise 4, 2, 1 over the rounds: what runs is what is priced, round by round."""
    levels, streams = (4.0, 2.0, 1.0), streams_for(0)
    sampling = WithoutReplacement(0.2)
    decaying = dataclasses.replace(
        bits_plan(dimension=4000), steps=(1,) * 3, sampling=sampling,
        noise_schedule=("round", 0.25, 1),
    )  # fmt: skip
    protocols = [decaying.mechanism.protocol(decaying, z) for z in levels]
    expected = compose(part for p in protocols for part in p.composition(1, 0.2))
    (composition,) = set(decaying.groups().compositions)
    assert dict(composition) == dict(expected)
    for r, protocol in enumerate(protocols):
        total = Aggregate(np.zeros(4000), 1.0)
        noise = decaying.mechanism.release(decaying, total, r, streams)
        std = protocol.unit * np.sqrt(protocol.total_bits) / 2 / decaying.expected_sizes.sum()
        assert noise.std() == pytest.approx(std, rel=0.06)  # 5 standard errors: 5.6 %
        by = Senders(np.arange(4), r, streams, np.inf)
        sent = decaying.mechanism.send(decaying, np.full((4, 4000), 0.1), by)
        steps = sent * decaying.expected_sizes[:, None] / protocol.unit
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)  # on the round's grid
    most = max(p.bits_per_contributor for p in protocols)
    assert decaying.mechanism.message_bits(decaying) == most
