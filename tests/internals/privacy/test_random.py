"""Random streams: addresses, laws, secrecy, and numbers that must never change.

Statistical tests allow 6 standard errors (false alarms below 2e-9 for one number) or state their
own rate; with a fixed seed they cannot flicker, with secret streams they fail below once in 1e6.
"""

import copy
import math
import os
import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from skdpfl.privacy.randomness import streams as _streams
from skdpfl.privacy.randomness import words as _words
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.randomness.words import AesWords, ShakeWords, SimulationWords

SOURCES = {"simulation": lambda: SimulationWords(7), "aes": AesWords, "shake": ShakeWords}
SILOS = [3, 1, 5, 900, 1]
DTYPES = [np.float32, np.float64]


@pytest.fixture(params=SOURCES)
def streams(request):
    return Streams(SOURCES[request.param]())


# -- a stream is its address ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (4,), (3, 5), (700,), (3000,), (70_000,)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_blocks_are_the_stacked_streams(streams, shape, dtype):
    block = streams.normal_block("noise", SILOS, 2, shape, dtype)
    units = streams.units_block("noise", SILOS, 2, shape, dtype)
    assert block.shape == units.shape == (5, *shape)
    assert block.dtype == dtype
    assert units.dtype == {4: np.int32, 8: np.int64}[np.dtype(dtype).itemsize]
    for row, integers, silo in zip(block, units, SILOS, strict=True):
        np.testing.assert_array_equal(row, streams.stream("noise", silo, 2).normal(shape, dtype))
        np.testing.assert_array_equal(
            integers, streams.stream("noise", silo, 2).units(shape, dtype)
        )


def test_poisson_masks_are_the_streams_samples_whatever_the_stack(streams):
    sizes = np.array([5, 3000, 9000, 20, 0, 17, 40_000, 3, 1])
    rates = np.array([0.5, 0.1, 0.2, 1, 0.3, 0, 0.001, 0.6, 0.5])
    silos = np.array([0, 1, 2, 7, 9, 11, 4, 5, 6])
    mask = streams.poisson_mask_blocks("batch", silos, range(3, 4), 40_000, sizes, rates)[0]
    for row, silo, n, q in zip(mask, silos, sizes, rates, strict=True):
        expected = streams.stream("batch", silo, 3).poisson_sample(int(n), q)
        np.testing.assert_array_equal(np.flatnonzero(row), expected)
    # another stack, another width: the same rows
    some = silos[[3, 0]], range(3, 4), 25, sizes[[3, 0]], rates[[3, 0]]
    few = streams.poisson_mask_blocks("batch", *some)[0]
    np.testing.assert_array_equal(few, mask[[3, 0], :25])


@pytest.mark.parametrize("n", [0, 1, 9, 300, 3000, 70_000])
@pytest.mark.parametrize("silos", [SILOS, [4], range(3)], ids=str)
def test_blocks_of_rounds_are_the_rounds_blocks(streams, silos, n):
    rounds = range(5, 5 + (8 if n < 1000 else 2))
    for dtype in DTYPES:
        blocks = streams.units_blocks("noise", silos, rounds, n, dtype)
        for block, round in zip(blocks, rounds, strict=True):
            np.testing.assert_array_equal(
                block, streams.units_block("noise", silos, round, n, dtype)
            )
    sizes = np.array([n // (1 + i) for i in range(len(silos))])
    masks = streams.poisson_mask_blocks("batch", silos, rounds, n, sizes, 0.3)
    for mask, round in zip(masks, rounds, strict=True):
        np.testing.assert_array_equal(
            mask,
            streams.poisson_mask_blocks("batch", silos, range(round, round + 1), n, sizes, 0.3)[0],
        )


@pytest.mark.parametrize("n", [0, 1, 9, 3000, 70_000])
def test_units_ahead_are_those_of_each_round(streams, n):
    for dtype in map(np.dtype, DTYPES):
        for round in [0, 1, 2, 7, 8, 3]:
            ahead = streams.units_ahead("noise", range(round, 9), n, dtype)
            np.testing.assert_array_equal(
                ahead, streams.stream("noise", round=round).units(n, dtype)
            )


def test_a_silo_that_knows_no_other_is_number_0(streams):
    alone = streams.of_silo(3)
    for silo in (0, 2):
        ours, theirs = alone.stream("noise", silo, 4), streams.stream("noise", 3 + silo, 4)
        np.testing.assert_array_equal(ours.random(9), theirs.random(9))
    blocks = alone.units_blocks("noise", [0, 2], range(2, 5), 7, np.float64)
    np.testing.assert_array_equal(
        blocks, streams.units_blocks("noise", [3, 5], range(2, 5), 7, np.float64)
    )
    masks = alone.poisson_mask_blocks("batch", [0], range(1, 2), 40, [40], [0.5])
    np.testing.assert_array_equal(
        masks, streams.poisson_mask_blocks("batch", [3], range(1, 2), 40, [40], [0.5])
    )
    assert alone.seed == streams.seed and alone.is_simulation == streams.is_simulation


def test_every_part_of_the_address_counts(streams):
    base = {"purpose": "noise", "silo": 3, "round": 4}
    others = [base | {k: v} for k, v in {"purpose": "batch", "silo": 4, "round": 3}.items()]
    swapped = {"purpose": "noise", "silo": 4, "round": 3}
    for n in (8, 300, 3000):  # short, stacked and long draws
        words = [set(streams.stream(**a).words(n).tolist()) for a in [base, *others, swapped]]
        assert all(a.isdisjoint(b) for a, b in combinations(words, 2))


def test_neighbouring_addresses_are_uncorrelated(streams):
    # the DP-SCAFFOLD authors' code draws the same noise for every silo
    n = 20_000
    rows = [streams.stream("noise", silo, round).normal(n) for silo in range(5) for round in (0, 1)]
    rows += [streams.stream("message", silo).normal(n) for silo in range(5)]
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 6.5 / math.sqrt(n)
    # and the first word of many streams in a row is as random as a stream
    first = streams.uniform_block("batch", range(20_000), 0, 1)[:, 0]
    assert stats.kstest(first, "uniform").pvalue > 1e-7
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 6.5 / math.sqrt(n)


# -- simulations ---------------------------------------------------------------------------------


def test_known_answers():
    """Frozen: integers, so the same on every machine; a change breaks every published seed."""
    streams = streams_for(20261120)

    def noise():
        return streams.stream("noise", 3, 7)

    assert [hex(w) for w in noise().words(2)] == ["0x6c69af5a97903ea7", "0x9a350c0b64275154"]
    assert [hex(w) for w in noise().words(2000)[[0, -1]]] == [
        "0xf075628be0fe1476",
        "0xfcbf99e6af3e212f",
    ]
    assert noise().units(5).tolist() == [614568, -1546607, -1268078, 565329, 155536]
    assert noise().units(5, np.float64)[:2].tolist() == [40276298293, -101358438616]
    many = noise().units(70_000).astype(np.int64)
    assert many[[0, 65535, 65536, -1]].tolist() == [-1496700, 637679, -2382703, 2270432]
    assert many.sum() == -13275103
    assert (many * np.arange(70_000)).sum() == 1506526291176


def test_known_samples():
    streams = streams_for(20261120)

    def batch():
        return streams.stream("batch", 3, 7)

    assert batch().random(2).tolist() == [0.3529778922449587, 0.6789029887482056]
    assert batch().poisson_sample(40, 0.2).tolist() == [0, 5, 9, 11, 20, 24, 34, 38]
    assert batch().poisson_sample(5000, 0.2)[:5].tolist() == [3, 5, 6, 8, 12]
    assert batch().poisson_sample(5000, 0.002)[:4].tolist() == [1078, 1236, 1239, 1345]
    assert batch().subset(20, 6).tolist() == [5, 8, 9, 11, 14, 17]
    assert batch().subset(1000, 5).tolist() == [59, 355, 396, 749, 980]
    assert batch().permutation(8).tolist() == [6, 0, 2, 3, 1, 4, 5, 7]
    assert batch().integers(-5, 5, 8).tolist() == [4, -2, 0, 3, 3, 1, -3, 1]


# -- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [AesWords, ShakeWords])
def test_secure_streams_have_no_seed_and_never_repeat(make):
    a, b = Streams(make()), Streams(make())
    assert not a.is_simulation and a.seed is None
    words = [set(s.stream("noise", 1, 2).words(1500).tolist()) for s in (a, b)]
    assert words[0].isdisjoint(words[1])


def test_without_cryptography_the_standard_library_will_do(monkeypatch):
    monkeypatch.setattr(_words, "Cipher", None)
    assert type(streams_for(None)._source) is ShakeWords


@pytest.mark.parametrize("make", [AesWords, ShakeWords])
@pytest.mark.parametrize("twin", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_never_copied(make, twin):
    streams = Streams(make())
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        twin(streams._source)
    if twin is not copy.copy:  # a shallow copy of Streams is the same secret object, no twin
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            twin(streams)


@pytest.mark.parametrize("make", [AesWords, ShakeWords])
def test_a_forked_process_cannot_repeat_the_noise(make, monkeypatch):
    streams = Streams(make())
    streams.stream("noise").units(5)
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    with pytest.raises(RuntimeError, match="forked"):
        streams.stream("noise").units(5)


def test_aes_words_are_aes_in_counter_mode():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    source = AesWords()
    start = bytes([0, 0, 1, 4, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 2])  # silo, round, draw, j + 2
    cipher = Cipher(algorithms.AES(source._key("noise")), modes.CTR(start)).encryptor()
    expected = np.frombuffer(cipher.update(bytes(8 * 20_000)), np.uint64)
    for count in (1, 100, 257, 2048, 2049, 20_000):  # stacked, one by one, long
        for silos in ([260], [7, 260, 7]):
            words = source.words("noise", silos, 9, 2, count)
            np.testing.assert_array_equal(words[silos.index(260)], expected[:count])
    assert source._key("noise") != source._key("batch")


# -- uniforms and normals ------------------------------------------------------------------------


@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2, 3])
def test_the_last_words_of_a_long_draw_are_drawn(more):
    """Long draws are made in pieces of `_ZEROS`, of which the last may be one block."""
    words = AesWords()
    count = 3 * (len(_words._ZEROS) // 8) + more
    short, long = (words.words("noise", [5], 0, 0, n)[0] for n in (count, count + 40))
    np.testing.assert_array_equal(short, long[:count])
    assert len(np.unique(short)) == count


# -- samples -------------------------------------------------------------------------------------


def test_bytes_then_ties_is_comparing_whole_words():
    """The law for large silos: exactly 2^64 q of the 2^64 (byte, rest) pairs are chosen."""
    limit = _streams.threshold(0.3)
    first, rest = limit >> 56, limit & (1 << 56) - 1
    heads = np.array([first - 1, first, first, first, first + 1] + [255] * 3, dtype=np.uint8)
    ties = np.array([rest - 1, rest, 0], dtype=np.uint64) << np.uint64(8)
    answers = iter([heads.view(np.uint64), ties])
    chosen = _streams._by_bytes(5, limit, lambda count: next(answers))
    assert chosen.tolist() == [0, 1, 3]


@pytest.mark.parametrize("n", [0, 1, 7, 10_000])
def test_certain_and_impossible_samples(streams, n):
    assert streams.stream("b").poisson_sample(n, 0).tolist() == []
    assert streams.stream("b").poisson_sample(n, 1).tolist() == list(range(n))
    assert streams.stream("b").subset(n, 0).tolist() == []
    assert streams.stream("b").subset(n, n).tolist() == list(range(n))


def chi_squared(counts):
    """Return how unlikely counts of equally likely outcomes are."""
    expected = counts.sum() / len(counts)
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


@pytest.mark.parametrize(("n", "b"), [(6, 3), (5, 1), (17, 2), (33, 1)])
def test_every_subset_is_equally_likely(streams, n, b):
    outcomes = {s: i for i, s in enumerate(combinations(range(n), b))}
    stream = streams.stream("batch")
    draws = [outcomes[tuple(stream.subset(n, b).tolist())] for _ in range(40 * len(outcomes))]
    assert chi_squared(np.bincount(draws, minlength=len(outcomes))) > 1e-7


def test_integers_reject_what_would_favour_some():
    width = 3 << 61  # 2^64 is 2 widths and 2^62 words left over
    answers = iter(
        [np.array([5, 6 << 61, 2**64 - 1], np.uint64), np.array([7 << 61, 9], np.uint64)]
    )
    answers = iter([*answers, np.array([width + 8], np.uint64)])
    assert _streams.integers(width, 3, lambda count: next(answers)).tolist() == [5, 8, 9]
    words = np.array([7, 8, 2**64 - 1], np.uint64)  # 2^64 is a multiple of 8: none is refused
    assert _streams.integers(8, 3, lambda count: words).tolist() == [7, 0, 7]


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "count"), [(1, 1), (64, 5), (65, 5), (3, 2000)])
def test_words_of_silos_in_rounds_of_their_own(n, count):
    source, silos = SimulationWords(5), np.arange(n) * 7 % 31
    rounds, draw = np.arange(n) // 3, 4
    words = source.words_at("noise", silos, rounds, draw, count)
    for row, i, round in zip(words, silos, rounds, strict=True):
        np.testing.assert_array_equal(row, source.words("noise", [i], int(round), draw, count)[0])


@pytest.mark.parametrize("count", [9, 16, 700, 1023, 1024])
def test_draws_of_one_bucket_begin_alike_up_to_its_end(count):
    """Alone, among others and over rounds; 1,024 words are still a short draw."""
    source, silos = SimulationWords(5), np.array([3, 9])
    words = source.words("x", silos, 4, 0, count)
    size = 1 << (count - 1).bit_length()
    np.testing.assert_array_equal(source.words("x", silos, 4, 0, size)[:, :count], words)
    np.testing.assert_array_equal(source.words("x", silos[1:], 4, 0, count), words[1:])
    rounds = source.words_of_rounds("x", silos, range(3, 6), count)
    np.testing.assert_array_equal(rounds[1], words)
    least = size // 2 + 1
    np.testing.assert_array_equal(source.words("x", silos, 4, 0, least), words[:, :least])


@pytest.mark.parametrize("q", [0.0, 2.0**-64, 0.25, 0.7, 1 - 2.0**-53])
def test_a_word_is_below_a_rate_from_zero_to_one_less_than_its_share_of_them(q):
    """Of 2^64 words, q 2^64: in masks of many silos as in a single sample."""
    share = int(q * 2**64)
    words = [max(share - 1, 0), share, min(share + 1, 2**64 - 1)]
    expected = [word < share for word in words]
    given = np.array([[words, words]], np.uint64)
    mask = _streams.below(given, np.array([3, 2]), np.array([q, q]))
    assert mask[0, 0].tolist() == expected
    assert mask[0, 1].tolist() == [*expected[:2], False]
    alone = _streams.poisson(3, q, lambda n: np.array(words, np.uint64)[:n])
    assert alone.tolist() == np.flatnonzero(expected).tolist()


def test_addresses_and_states_that_are_none():
    """A stream beyond its last draw would repeat the words of another."""
    streams, draw = streams_for(0), r"silo must lie in \[0, 2\^32\)"
    for bad in (-1, 2**32):
        for ask in (lambda bad=bad: streams.stream("x", bad),
                    lambda bad=bad: streams.units_block("x", [0, bad], 0, 3)):  # fmt: skip
            with pytest.raises(ValueError, match=draw):
                ask()
        with pytest.raises(ValueError, match=draw.replace("silo", "round")):
            streams.stream("x", 0, bad)
    for bad in (-1, 1.5, "0", [1]):
        with pytest.raises(ValueError, match="random_state must be None, an integer of 0 or more"):
            streams_for(bad)
    stream = streams.stream("x")
    stream._draws = _words.REFINED
    with pytest.raises(OverflowError, match="use a stream for each round"):
        stream.random(3)
