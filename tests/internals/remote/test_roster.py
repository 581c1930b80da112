"""Rosters: a server that forges keys, tells silos different plans or invents some gets nothing."""

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cryptography")

from skdpfl.algorithms import FedExp
from skdpfl.remote import Gate, SilosMissing, Terms, new_silo_key, pack, public_key, unpack
from skdpfl.remote._letters import Ask, End, Offer, Refusal
from skdpfl.remote._masks import new_key, public_of, total_of
from skdpfl.scaling import AffineScaling
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, problem, with_plan

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}
KEYS = {name: new_silo_key() for name in NAMES}


class Hostile(Here):
    """A server that changes what silos are told, or what the others hear of them."""

    def __init__(self, folder, change=lambda name, letter: letter, **options):
        super().__init__(folder, problem(), keys=KEYS, **options)
        self.change = change

    def deliver(self, letters):
        changed = {n: pack(self.change(n, unpack(data))) for n, data in letters.items()}
        return super().deliver(changed)

    def said(self, name):
        """Return what a silo answered to letters that read records."""
        pairs = zip(self.letters, self.answers, strict=True)
        asked = [
            unpack(a) for (n, data), (_, a) in pairs if n == name and isinstance(unpack(data), Ask)
        ]
        return [answer for answer in asked if not isinstance(answer, Refusal)]


def with_keys(letter, keys, signatures=None):
    if not isinstance(letter, Ask) or letter.part.keys is None:
        return letter
    signatures = letter.part.signatures if signatures is None else signatures
    return replace(letter, part=replace(letter.part, keys=keys, signatures=signatures))


def forged(name, letter):
    """A key of the server's own in the place of one silo's, signed by a key of its own."""
    if not isinstance(letter, Ask) or letter.part.keys is None or name == "west":
        return letter
    return with_keys(letter, (*letter.part.keys[:3], public_of(new_key())))


def signed_by_another(name, letter):
    """A key of the server's own, with the signature of a silo that works with it."""
    if not isinstance(letter, Ask) or letter.part.keys is None or name == "west":
        return letter
    keys, signatures = letter.part.keys, letter.part.signatures
    return with_keys(letter, (*keys[:3], public_of(new_key())), (*signatures[:3], signatures[2]))


def swapped(name, letter):
    """Two silos' keys and signatures, one in the place of the other."""
    if not isinstance(letter, Ask) or letter.part.keys is None or name in ("east", "north"):
        return letter
    (a, b, *keys), (c, d, *signatures) = letter.part.keys, letter.part.signatures
    return with_keys(letter, (b, a, *keys), (d, c, *signatures))


def without_signatures(name, letter):
    if not isinstance(letter, Ask) or letter.part.keys is None:
        return letter
    return with_keys(letter, letter.part.keys, ("",) * 4)


FORGERIES = {f.__name__: f for f in (forged, signed_by_another, swapped, without_signatures)}


@pytest.mark.parametrize("name", FORGERIES)
def test_keys_that_silos_did_not_sign_bring_nothing(tmp_path, name):
    """Only the silo whose own key was replaced for others hears what it should."""
    here = Hostile(tmp_path, FORGERIES[name])
    with pytest.raises(SilosMissing, match=r"not signed|its own"):
        fit_elsewhere(estimator(**PLAIN), here, masked=True)
    spared = {"forged": ["west"], "signed_by_another": ["west"], "swapped": ["east", "north"]}
    for silo in set(NAMES) - set(spared.get(name, ())):
        assert not here.said(silo)
        assert not here.entries(silo)  # and nobody paid


OTHER_PLANS = {
    "weights": lambda row: with_plan(row, weights=row.plan.weights[::-1].copy()),
    "noise": lambda row: with_plan(row, noise_multiplier=row.plan.noise_multiplier * 2),
    "cohorts": lambda row: replace(row, cohorts=(np.tile(np.arange(4), 3), np.full(3, 4))),
}


def with_task(**changes):
    return lambda offer: replace(offer, task=replace(offer.task, **changes))


#: what all silos are offered alike, told differently to two of them
OTHER_OFFERS = {
    name: (lambda offer, change=change: replace(offer, row=change(offer.row)))
    for name, change in OTHER_PLANS.items()
} | {
    "class weights": with_task(class_weights=(0.0, 0.0)),
    "maps": with_task(features=AffineScaling(np.zeros(4), np.full(4, 1e9))),
    "features": lambda o: replace(o, facts=replace(o.facts, feature_names=("d", "c", "b", "a"))),
    "purpose": lambda o: replace(o, purpose="something else"),
}


@pytest.mark.parametrize("name", OTHER_OFFERS)
def test_silos_that_were_offered_different_things_send_nothing(tmp_path, name):
    """Also two of three silos with weights (0, 0), whose sum would be the third one's model."""

    def change(silo, letter):
        if isinstance(letter, Offer) and silo in ("east", "north"):
            return OTHER_OFFERS[name](letter)
        return letter

    here = Hostile(tmp_path, change)
    # algorithm and plan have to agree on rounds, so that one is refused before
    with pytest.raises(SilosMissing, match=r"not signed|steps or features"):
        fit_elsewhere(estimator(**PLAIN), here, masked=True)
    assert not any(here.said(silo) for silo in NAMES)
    assert not any(here.entries(silo) for silo in NAMES)


OTHER_TASKS = {
    "class weights": {"class_weights": (0.0, 0.0)},
    "algorithm": {"algorithm": FedExp(1.0)},
}


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_the_task_of_the_rounds_is_the_one_that_was_offered(tmp_path, name):
    """The attack one letter later: every silo agreed to the same, two are asked for another."""

    def change(silo, letter):
        if isinstance(letter, Ask) and letter.task is not None and silo in ("east", "north"):
            return replace(letter, task=replace(letter.task, **OTHER_TASKS[name]))
        return letter

    here = Hostile(tmp_path, change)
    with pytest.raises(SilosMissing, match="differ from those offered"):
        fit_elsewhere(estimator(**PLAIN), here, masked=True)
    assert not here.said("east") and not here.entries("east")


OTHER_QUESTIONS = {
    "maps": lambda ask: replace(
        ask,
        task=ask.task and replace(ask.task, features=AffineScaling(np.zeros(4), np.full(4, 1e9))),
    ),
    "grid": lambda ask: replace(ask, part=replace(ask.part, step=2.0**200)),
    "broadcast": lambda ask: replace(ask, content=ask.content + 1e-9),
}


@pytest.mark.parametrize("name", OTHER_QUESTIONS)
def test_silos_that_are_asked_for_different_things_send_no_readable_sum(tmp_path, name):
    """What may differ from the offer is in the masks: maps and steps, which follow from sums."""

    def change(silo, letter):
        if isinstance(letter, Ask) and silo in ("east", "north"):
            return OTHER_QUESTIONS[name](letter)
        return letter

    fine = Hostile(tmp_path)
    fit_elsewhere(estimator(**PLAIN), fine, masked=True)
    (tmp_path / "hostile").mkdir()
    here = Hostile(tmp_path / "hostile", change)
    with suppress(Exception), np.errstate(all="ignore"):  # a model of garbage may be refused
        fit_elsewhere(estimator(**PLAIN), here, masked=True)
    for server, readable in ((fine, True), (here, False)):
        sums = total_of([server.said(silo)[0].values for silo in NAMES])
        assert (np.abs(sums).max() < 2**50) == readable


def test_a_key_is_valid_until_its_last_day(tmp_path):
    class Old(Here):
        def gate(self, name):
            gate = super().gate(name)
            roster = dict(gate.terms.silos) | {"west": gate.terms.silos["west"] + f" until {day}"}
            gate.terms = replace(gate.terms, silos=roster)
            return gate

    for day in ("2999-12-31", "2025-12-31"):
        (tmp_path / day).mkdir()
        here = Old(tmp_path / day, problem(), keys=KEYS)
        if day > "2026":
            fit_elsewhere(estimator(**PLAIN), here, masked=True)
            continue
        with pytest.raises(SilosMissing, match="'west' on this silo's roster was valid until 2025"):
            fit_elsewhere(estimator(**PLAIN), here, masked=True)
        assert not any(here.entries(silo) for silo in NAMES)


def test_a_key_signed_for_an_earlier_fit_is_none_of_this_one(tmp_path):
    """A replay: the fit before had the same plan, and the silo's signature is real."""
    kept = {}

    def remember(name, letter):
        if isinstance(letter, Ask) and letter.part.keys is not None:
            kept.setdefault("part", letter.part)
        return letter

    fit_elsewhere(estimator(**PLAIN), Hostile(tmp_path, remember), masked=True)

    def replay(name, letter):
        if not isinstance(letter, Ask) or letter.part.keys is None or name == "west":
            return letter
        keys = *letter.part.keys[:3], kept["part"].keys[3]
        return with_keys(letter, keys, (*letter.part.signatures[:3], kept["part"].signatures[3]))

    here = Hostile(tmp_path, replay)
    with pytest.raises(SilosMissing, match="not signed"):
        fit_elsewhere(estimator(**PLAIN), here, masked=True)
    assert not any(here.said(silo) for silo in NAMES[:3])


def test_a_gate_is_on_its_own_roster(tmp_path):
    here = Here(tmp_path, problem(), keys=KEYS)
    here.gate("east")
    records, publics = here.records("east"), {n: public_key(k) for n, k in KEYS.items()}
    ledger = here.gate("east")._memory._open()
    for roster, key in ((publics, None), (publics, KEYS["west"]), ({}, KEYS["east"])):
        with pytest.raises(ValueError, match="roster must contain each silo"):
            Gate(records, ledger, terms=Terms(silos=roster), key=key)
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        Gate(records, ledger, terms=Terms(silos=publics), key="00")


def test_secrets_of_masks_live_as_long_as_the_fit(tmp_path):
    """In a file of their own: first the key, then what it gave, nothing once the fit is done."""
    seen = []

    def note(name, letter):
        kept = sorted((tmp_path / "east.ledger.fits").glob("*.secrets"))
        seen.append([set(unpack(path.read_bytes())) for path in kept])
        return letter

    here = Hostile(tmp_path, note)
    fit_elsewhere(estimator(**PLAIN), here, masked=True)
    assert [{"key"}] in seen and [{"secrets", "keys"}] in seen
    folder = tmp_path / "east.ledger.fits"
    (path,) = folder.glob("*.fit")
    assert not list(folder.glob("*.secrets")) and not {"key", "secrets"} & set(
        unpack(path.read_bytes())
    )
    pairs = zip(here.letters, here.answers, strict=True)
    asks, answers = zip(
        *[(d, a) for (n, d), (_, a) in pairs if n == "east" and isinstance(unpack(d), Ask)],
        strict=True,
    )
    assert here.gate("east").answer(asks[-1]) == answers[-1]  # the same bytes, stored
    later = replace(unpack(asks[0]), number=1, part=replace(unpack(asks[0]).part, round=1))
    assert isinstance(unpack(here.gate("east").answer(pack(later))), Refusal)


def test_secrets_of_a_fit_that_nobody_ended_are_deleted_later(tmp_path):
    def lost(name, count, answer):
        return None if isinstance(unpack(answer), End) or count > 9 else answer

    here = Hostile(tmp_path, spoil=lost)
    with pytest.raises(SilosMissing):
        fit_elsewhere(estimator(**PLAIN), here, masked=True, n_attempts=1)
    (path,) = (tmp_path / "east.ledger.fits").glob("*.secrets")
    os.utime(path, (0, 0))
    here.spoil = lambda name, count, answer: answer
    fit_elsewhere(estimator(**PLAIN), here, masked=True)
    assert not list((tmp_path / "east.ledger.fits").glob("*.secrets"))
