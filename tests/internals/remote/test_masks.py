"""Masked sums: exact, of one use, refused where they would hide nothing; the same noise."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cryptography")

from skdpfl.federation import Silo
from skdpfl.remote import Refused, SilosMissing, Terms, pack, unpack
from skdpfl.remote._letters import Answer, Refusal
from skdpfl.remote._masks import mask, masked, new_key, on_grid, pair_secrets, public_of, total_of
from tests.internals.remote.test_shared_noise import Offered
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}
FITS = {
    "three of four": ("ISRLDPRegressor", {"silo_fraction": 0.75, "n_rounds": 3}),
    "whole silos": ("DPScaffoldClassifier", {"unit": "silo", "epsilon": 8.0, **PLAIN}),
}


@pytest.mark.filterwarnings("ignore:Hiding a whole silo")
@pytest.mark.parametrize("name", FITS)
def test_the_model_is_that_of_messages_in_the_clear(tmp_path, name):
    """Up to the grid; each silo pays the same."""
    kind, options = FITS[name]
    data, model = (
        problem(kind[-10:] if "Class" in kind else "Regressor"),
        estimator(kind, **options),
    )
    here = Here(tmp_path, data)
    if model.unit == "silo":
        here.options["terms"] = Terms(unit="silo", delta=0.2)
    there = fit_elsewhere(model, here, masked=True)
    spent, coef = there.privacy_spent_, there.coef_.copy()
    clear = fit_here(estimator(kind, **options), data)
    np.testing.assert_allclose(coef, clear.coef_, atol=1e-8)
    assert spent.epsilon == clear.privacy_spent_.epsilon
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The letters of a masked fit, and the answers to them."""
    here = Here(tmp_path_factory.mktemp("masked"), problem())
    fit_elsewhere(estimator(**PLAIN), here, masked=True)
    letters = [(name, unpack(letter)) for name, letter in here.letters]
    return letters, [unpack(answer) for _, answer in here.answers]


def answers(said, number):
    return [a.values for a in said[1] if isinstance(a, Answer) and a.number == number]


def test_what_is_sent_is_uniform_but_for_the_sum(said):
    """Messages and sums of three are as large as 64 bits; the sum of four is a sum of messages.

    Of n fair bits six standard errors are 3 / sqrt(n).
    """
    rounds = [answers(said, r) for r in range(3)]
    for sent in rounds:
        threes = [total_of(np.delete(sent, i, 0)) for i in range(4)]
        assert all(np.abs(part.astype(float)).max() > 2**55 for part in (*sent, *threes))
        assert np.abs(total_of(sent)).max() < 2**50
    bits = np.unpackbits(np.concatenate([each for sent in rounds for each in sent]).view("u1"))
    assert abs(bits.mean() - 0.5) < 3 / len(bits) ** 0.5
    apart = np.subtract(rounds[0], rounds[1]).astype(float)
    assert (np.abs(apart).max(axis=1) > 2**50).all()  # another mask in each round


@pytest.mark.parametrize("size", [1, 7, 512, 513, 40_000])
def test_sums_are_exact_on_the_grid(size):
    rng = np.random.default_rng(size)
    n, step = int(rng.integers(3, 7)), 2.0 ** -rng.integers(5, 30)
    private = [new_key() for _ in range(n + 2)]
    public = [public_of(key) for key in private]
    among = sorted(rng.permutation(n + 2)[:n].tolist())
    values, weights = rng.normal(size=(n, size)), rng.uniform(0.1, 1, n)
    steps = [on_grid(v, w, step, n) for v, w in zip(values, weights, strict=True)]
    secrets = {i: pair_secrets(private[i], i, public, b"") for i in among}
    masks = [mask(secrets[i], i, among, b"round 4", size) for i in among]
    sent = [masked(each, m) for each, m in zip(steps, masks, strict=True)]
    assert (total_of(sent) == np.sum(steps, axis=0)).all()
    np.testing.assert_allclose(total_of(sent) * step, weights @ values, atol=n * step)
    other = mask(secrets[among[0]], among[0], among, b"round 5", size)
    fewer = mask(secrets[among[0]], among[0], among[:-1], b"round 4", size)
    assert (other != masks[0]).all() and (fewer != masks[0]).all()


def test_numbers_that_leave_no_room_for_the_sum_are_refused():
    for values in ([2.0**62], [np.inf], [np.nan]):
        with pytest.raises(Refused, match="too large"):
            on_grid(np.array(values), 1.0, 1.0, 3)
    assert on_grid(np.array([2.0**60]), 1.0, 1.0, 3)[0] == 2**60


def test_rounds_of_two_silos_are_refused_before_anybody_pays(tmp_path):
    here = Here(tmp_path, problem())
    with pytest.raises(Refused, match="at least 3 silos; got one of 2"):
        fit_elsewhere(estimator(**PLAIN, silo_fraction=0.5), here, masked=True)
    assert not here.letters


WRONG = {
    "nothing of a sum": (lambda p: None, "lacks the data of one"),
    "two silos": (lambda p: replace(p, among=np.array([0, 1])), "needs 3 silos of a round"),
    "the same twice": (
        lambda p: replace(p, among=np.array([0, 0, 1, 2])),
        "needs 3 silos of a round",
    ),
    "without this one": (lambda p: replace(p, among=np.arange(1, 4)), "including this one"),
    "somebody unknown": (lambda p: replace(p, among=np.arange(5)), "needs 3 silos of a round"),
    "another key of this one": (
        lambda p: replace(p, keys=(public_of(new_key()), *p.keys[1:])),
        "including this silo's own",
    ),
    "one key twice": (lambda p: replace(p, keys=(*p.keys[:3], p.keys[1])), "the key of each"),
    "no keys": (lambda p: replace(p, keys=None), "first letter of a masked fit must contain"),
    "no grid": (lambda p: replace(p, step=float("nan")), "positive"),
}


@pytest.fixture
def silo(tmp_path):
    """One silo that agreed to a masked fit, and what it is asked first."""
    here = Offered(tmp_path, problem())
    with pytest.raises(SilosMissing):
        fit_elsewhere(estimator(**PLAIN), here, masked=True, n_attempts=1)
    return here, here.asked["east"]


@pytest.mark.every
@pytest.mark.parametrize("name", WRONG)
def test_parts_that_would_hide_nothing_are_refused(silo, name):
    here, first = silo
    change, words = WRONG[name]
    ask = replace(first, part=change(first.part))
    answer = unpack(here.gate("east").answer(pack(ask)))
    assert isinstance(answer, Refusal) and words in answer.reason


def test_a_message_that_is_too_large_is_not_drawn_again(silo, monkeypatch):
    """Each refusal would compare a message of new noise with the grid that the server chose."""
    here, first = silo
    drawn, draw = [], Silo.round
    monkeypatch.setattr(Silo, "round", lambda self, *a, **k: drawn.append(1) or draw(self, *a, **k))
    fine = replace(first, part=replace(first.part, step=1e-30))
    once = here.gate("east").answer(pack(fine))
    assert "too large" in unpack(once).reason
    assert here.gate("east").answer(pack(fine)) == once
    for step in (1e-29, first.part.step):
        other = replace(first, part=replace(first.part, step=step))
        assert "ended" in unpack(here.gate("east").answer(pack(other))).reason
    assert len(drawn) == 1
    assert len(here.entries("east")) == 1


def test_keys_stay(silo):
    here, first = silo
    assert isinstance(unpack(here.gate("east").answer(pack(first))), Answer)
    keys = *first.part.keys[:3], public_of(new_key())
    part = replace(first.part, keys=keys, round=1)
    later = replace(first, number=1, task=None, part=part)
    answer = unpack(here.gate("east").answer(pack(later)))
    assert "The keys of a fit" in answer.reason
    good = replace(later, part=replace(part, keys=None))
    assert isinstance(unpack(here.gate("east").answer(pack(good))), Answer)
