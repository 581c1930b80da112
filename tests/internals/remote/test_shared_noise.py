"""Noise that silos share, elsewhere: the bits of `fit`; what letters of a hostile server bring."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cryptography")


from skdpfl.algorithms import FedAvg
from skdpfl.federation import Silo
from skdpfl.privacy import SecureAggregation
from skdpfl.remote import Refused, SilosMissing, Terms, new_silo_key, pack, unpack
from skdpfl.remote import _gate as gates
from skdpfl.remote._letters import Answer, Ask, End, Offer, Refusal
from skdpfl.remote._masks import public_of, total_of
from skdpfl.remote._row import rows_of
from skdpfl.scaling import ValueCounts
from tests.remote.silos_here import (
    NAMES,
    Here,
    estimator,
    fit_elsewhere,
    fit_here,
    problem,
    with_plan,
)

KEYS = {name: new_silo_key() for name in NAMES}
PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3, "trust": "secagg"}
FITS = {
    "scales and temperature": ("ISRLDPClassifier", {"trust": "secagg", "scaling": "private"}),
    "two collude": (
        "ISRLDPRegressor",
        {
            "trust": SecureAggregation(2, spare_rounds=1),
            "feature_bounds": (-3, 3),
            "target_bounds": (-6, 6),
        },
    ),
    "three of four": ("DPFedAvgClassifier", {**PLAIN, "local_steps": 1, "silo_fraction": 0.75}),
    "whole silos in turn": (
        "DPFedAvgClassifier",
        {**PLAIN, "unit": "silo", "silo_fraction": 0.75, "epsilon": 20.0, "delta": 0.01},
    ),
}


@pytest.mark.filterwarnings("ignore:Hiding a whole silo", "ignore:The noise will drown")
@pytest.mark.parametrize("name", FITS)
def test_the_model_is_that_of_one_process(tmp_path, name):
    kind, options = FITS[name]
    data = problem(kind[-10:] if "Class" in kind else "Regressor")
    here, model = Here(tmp_path, data, keys=KEYS), estimator(kind, **options)
    if model.unit == "silo":
        here.options["terms"] = Terms(unit="silo", delta=0.2)
    there = fit_elsewhere(model, here)
    coef, spent = there.coef_.copy(), there.privacy_spent_
    alone = fit_here(estimator(kind, **options), data)
    assert (coef == alone.coef_).all() and (there.intercept_ == alone.intercept_).all()
    assert spent.epsilon == alone.privacy_spent_.epsilon and spent.trust == "secagg"
    for silo in NAMES:
        (entry,) = here.entries(silo)
        assert entry.spent.epsilon <= spent.epsilon + 1e-12
        assert entry.spent.colluding == spent.colluding


# ---- who leaves ---------------------------------------------------------------------------------


class Leaving(Here):
    """A silo's answers stay away from its ``n``-th letter that reads records on."""

    def __init__(self, folder, n, who="west", data=None, late=True):
        super().__init__(folder, data or problem(), keys=KEYS)
        self.n, self.who, self.late, self.asked = n, who, late, []

    def deliver(self, letters):
        if isinstance(unpack(next(iter(letters.values()))), End):
            return {}  # so that tests may ask for more
        reads = {n: unpack(d) for n, d in letters.items() if isinstance(unpack(d), Ask)}
        self.asked += [(n, ask) for n, ask in reads.items()]
        numbers = {(ask.purpose, ask.number) for n, ask in self.asked if n == self.who}
        gone = self.who in reads and len(numbers) >= self.n
        if gone and not self.late:  # it does not even get the letter
            return super().deliver({n: d for n, d in letters.items() if n != self.who})
        came = super().deliver(letters)
        return {n: a for n, a in came.items() if not (gone and n == self.who)}

    def sent(self, number):
        """Return who sent what in an attempt, late letters with the others."""
        pairs = zip(self.letters, self.answers, strict=True)
        found = {
            n: unpack(a)
            for (n, data), (_, a) in pairs
            if getattr(unpack(data), "number", None) == number
        }
        return {n: answer.values for n, answer in found.items() if isinstance(answer, Answer)}


def spare(n, colluding=1, **options):
    trust = SecureAggregation(colluding, spare_rounds=n)
    return estimator(**PLAIN | {"trust": trust} | options)


def test_a_fit_goes_on_with_those_that_are_left(tmp_path, monkeypatch):
    """The next attempt has another number, three silos, and the share of three."""
    told, draw = set(), Silo.round

    def watched(self, number, *content, among):
        told.add((number, among))
        return draw(self, number, *content, among=among)

    monkeypatch.setattr(Silo, "round", watched)
    here = Leaving(tmp_path, 2)
    model = fit_elsewhere(spare(1), here, n_attempts=1)
    assert np.isfinite(model.coef_).all()
    rounds = {(ask.number, ask.part.round, len(ask.part.among)) for _, ask in here.asked}
    assert rounds == {(0, 0, 4), (1, 1, 4), (2, 1, 3), (3, 2, 3)}
    assert told == {(0, 4), (1, 4), (2, 3), (3, 3)}
    assert "west" not in [name for name, ask in here.asked if ask.number > 1]
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
    price = spare(1).plan_for(silo_sizes=[50] * 4, n_features=4)
    assert price.n_rounds == 3 and price.spent().n_releases == 4


@pytest.mark.parametrize("late", [True, False])
def test_what_a_failed_attempt_left_is_uniform(tmp_path, late):
    """A late letter completes the sum that was asked for, which was priced, and no other.

    Sums of three letters, and sums over the attempts, are as large as 64 bits.
    """
    here = Leaving(tmp_path, 2, late=late)
    fit_elsewhere(spare(1), here, n_attempts=1)
    dead, after = here.sent(1), here.sent(2)
    assert set(after) == set(NAMES[:3]) and set(dead) == set(NAMES if late else NAMES[:3])
    threes = total_of([dead[n] for n in NAMES[:3]])
    mixed = total_of([dead["east"], *(after[n] for n in NAMES[1:3])])
    both = [dead[n].view("u8") - after[n].view("u8") for n in NAMES[:3]]
    for part in (threes, mixed, total_of([each.view("i8") for each in both])):
        assert np.abs(part.astype(float)).max() > 2**55
    assert np.abs(total_of(list(after.values()))).max() < 2**52
    if late:
        assert np.abs(total_of(list(dead.values()))).max() < 2**52


def test_too_many_that_leave_end_the_fit_in_words(tmp_path):
    with pytest.raises(SilosMissing, match=r"None of 0 spare attempts is left.*SecureAggregation"):
        fit_elsewhere(spare(0), Leaving(tmp_path / "none", 2), n_attempts=1)
    with pytest.raises(SilosMissing, match=r"has 3 silos left.*colluding=3.*at most epsilon=2\.99"):
        fit_elsewhere(spare(2, colluding=3), Leaving(tmp_path / "few", 2), n_attempts=1)


def test_a_question_beside_the_rounds_needs_all_silos_or_a_spare_attempt(tmp_path):
    with pytest.raises(SilosMissing, match=r"for the labels needs.*at most epsilon=2\.99.*of 0"):
        fit_elsewhere(
            estimator(trust="secagg", scaling="private"), Leaving(tmp_path, 1), n_attempts=1
        )


def test_spare_rounds_with_dealt_batches_have_some_of_their_own(tmp_path):
    model = spare(1, sampling="disjoint")
    here = Leaving(tmp_path, 2)
    fit_elsewhere(model, here, n_attempts=1)
    assert {ask.number for _, ask in here.asked} == {0, 1, 2, 3}
    with pytest.raises(Refused, match="need all silos in each round"):
        fit_elsewhere(
            spare(1, sampling="disjoint", silo_fraction=0.75), Here(tmp_path, problem(), keys=KEYS)
        )
    offer = next(unpack(data) for _, data in here.letters)
    with pytest.raises(Refused, match="noise_schedule=None"):
        with_plan(offer.row, noise_schedule=("round", 0.9, 0))
    with pytest.raises(Refused, match="are inconsistent"):  # no batch is left for it
        with_plan(offer.row, spare_rounds=2)


# ---- a hostile server ---------------------------------------------------------------------------


class Offered(Here):
    """Silos that agree; what they are asked is kept, and not brought."""

    def deliver(self, letters):
        self.asked = {name: unpack(letter) for name, letter in letters.items()}
        if any(isinstance(letter, Ask) for letter in self.asked.values()):
            return {}
        return super().deliver(letters)

    def say(self, name, ask):
        return unpack(self.gate(name).answer(pack(ask)))


def test_values_and_their_counts_are_no_masked_sum(tmp_path):
    """Exact counts ended in an error of the mask, after the silo had paid."""
    here = Offered(tmp_path, problem(), keys=KEYS)
    with pytest.raises(SilosMissing):
        fit_elsewhere(estimator(trust="secagg"), here, n_attempts=1)
    first = here.asked["east"]
    counts = ValueCounts(np.ones(4, bool), 100, ("category",) * 4)
    assert first.purpose != "round" and first.part is not None
    assert "set of values is not a sum" in here.say("east", replace(first, content=counts)).reason
    assert not here.entries("east")


@pytest.fixture
def offered(tmp_path):
    """Silos that agreed to a fit with one spare round, and what "east" is asked first."""
    here = Offered(tmp_path, problem(), keys=KEYS)
    with pytest.raises(SilosMissing):
        fit_elsewhere(spare(1), here, n_attempts=1)
    return here, here.asked["east"]


def at(ask, number, round, among=NAMES, **changes):
    numbers = np.array([NAMES.index(name) for name in among])
    return replace(
        ask, number=number, part=replace(ask.part, round=round, among=numbers), **changes
    )


def test_a_server_that_pretends_failures_has_as_many_sums_as_were_priced(offered):
    """Three rounds and a spare one: four answers, whatever the server says of failures."""
    here, first = offered
    tried = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (2, 2), (3, 1), (4, 3), (5, 2)]
    said = [here.say("east", at(first, *each)) for each in tried]
    assert [isinstance(answer, Answer) for answer in said] == [True] * 4 + [False] * 5
    assert len(here.entries("east")) == 1


@pytest.mark.parametrize(
    ("number", "round"), [(2, 0), (0, 1), (1, 3), (-1, -1), (0, -1), (4, 2), (0, None)]
)
def test_attempts_beyond_the_plan_are_refused(offered, number, round):
    here, first = offered
    assert isinstance(here.say("east", at(first, number, round)), Refusal)
    assert not here.entries("east")


def test_rounds_do_not_go_back_and_failures_are_not_forgotten(offered):
    here, first = offered
    assert isinstance(here.say("east", at(first, 2, 1)), Answer)  # one failed before
    for number, round in ((3, 0), (3, 1), (3, 3)):
        assert isinstance(here.say("east", at(first, number, round)), Refusal)
    assert isinstance(here.say("east", at(first, 3, 2)), Answer)


def test_cohorts_that_are_too_small_are_refused(offered):
    here, first = offered
    assert "needs 3 silos of a round or more" in here.say("east", at(first, 0, 0, NAMES[:2])).reason
    assert "including this one" in here.say("east", at(first, 0, 0, NAMES[1:])).reason
    assert isinstance(here.say("east", at(first, 0, 0, NAMES[:3])), Answer)


def test_silos_that_are_told_different_cohorts_or_models_send_what_does_not_add_up(offered):
    """Nobody refuses: each answers what it was asked, and no sum is readable."""
    here, first = offered
    asks = {name: here.asked[name] for name in NAMES}
    asks["east"] = replace(first, content=first.content + 1e-9)
    sent = [here.say(name, ask).values for name, ask in asks.items()]
    assert np.abs(total_of(sent).astype(float)).max() > 2**55
    asks = {name: at(here.asked[name], 1, 1) for name in NAMES}
    asks["east"] = at(first, 1, 1, NAMES[:3])
    sent = [here.say(name, ask).values for name, ask in asks.items()]
    assert np.abs(total_of(sent).astype(float)).max() > 2**55
    assert np.abs(total_of(sent[:3]).astype(float)).max() > 2**55


def test_more_than_one_fresh_gradient_is_not_sent(tmp_path):
    """The share is for one clipped gradient; several local steps would move the sum further."""

    def change(letter):
        algorithm = FedAvg(local_steps=3, learning_rate=0.1)
        return replace(letter, task=replace(letter.task, algorithm=algorithm))

    class Greedy(Here):
        def deliver(self, letters):
            return super().deliver({n: pack(change(unpack(d))) for n, d in letters.items()})

    greedy = Greedy(tmp_path, problem(), keys=KEYS)
    with pytest.raises(SilosMissing, match="one fresh gradient per round"):
        fit_elsewhere(estimator(**PLAIN), greedy)
    row = next(unpack(data).row for _, data in greedy.letters)
    with pytest.raises(Refused, match="are inconsistent"):  # priced or not
        with_plan(row, steps=(1, 3, 1))


@pytest.mark.filterwarnings("ignore:Hiding a whole silo")
def test_whole_silos_are_noised_by_what_each_prices(tmp_path):
    """Messages of whole silos are noised by the first one's multiplier: no other may differ."""

    def change(letter):
        if not isinstance(letter, Offer):
            return letter
        z = letter.row.plan.noise_multiplier * np.array([1e-3, 1, 1, 1])
        return replace(letter, row=with_plan(letter.row, noise_multiplier=z))

    options = {"epsilon": 20.0, "delta": 0.01, "scaling": None, "trust": "secagg"}
    here = Here(tmp_path, problem(), keys=KEYS, terms=Terms(unit="silo", delta=0.2))
    fit_elsewhere(estimator("DPFedEXPClassifier", **options), here)
    offer = next(unpack(data) for _, data in here.letters)
    with pytest.raises(Refused, match="are inconsistent"):
        change(offer)


def test_a_message_of_a_whole_silo_does_not_reveal_the_cohort():
    """A silo that sends its own noise is in every round: an absence would be seen."""
    options = {"unit": "silo", "epsilon": 20.0, "delta": 0.01, "trust": "silo"}
    model = estimator("DPFedAvgClassifier", **PLAIN | options)
    row, *_ = rows_of(model.plan_for(silo_sizes=[50] * 4, n_features=4), (), False)
    for n in (0, 1):
        with pytest.raises(Refused, match="are inconsistent"):
            replace(row, cohorts=(np.zeros(2 + n, int), np.array([1, n, 1])))


def test_a_roster_that_was_taken_away_ends_the_fit(offered):
    here, first = offered
    here.keys = None
    assert "only with silos on its roster" in here.say("east", first).reason
    here.keys = {name: key for name, key in KEYS.items() if name != "west"}
    assert "was not signed" in here.say("east", first).reason
    assert not here.entries("east")


OPERATORS = {
    "no roster": ({}, False, "shares noise only with silos on its roster"),
    "more that collude": (
        {"terms": Terms(colluding=2)},
        True,
        "terms require colluding=2 at least",
    ),
    "another price": ({"terms": Terms(epsilon=1.0)}, True, "terms allow epsilon=1"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_decide_whom_they_share_noise_with(tmp_path, name):
    options, keyed, words = OPERATORS[name]
    here = Here(tmp_path, problem(), keys=KEYS if keyed else None, **options)
    with pytest.raises(SilosMissing, match=words):
        fit_elsewhere(estimator(**PLAIN), here)
    assert not any(here.entries(silo) for silo in NAMES)


# ---- a simulator without the records ------------------------------------------------------------


def other_records():
    """Return the same silos with other records in "east"; nothing that is public differs."""
    X, y, silos = problem()
    mine = silos == 0
    rng = np.random.default_rng(99)
    X, y = X.copy(), y.copy()
    X[mine], y[mine] = rng.normal(size=(mine.sum(), 4)), rng.integers(0, 2, mine.sum())
    return X, y, silos


def forge(name, letter):
    if name == "east" and isinstance(letter, Ask) and letter.part.keys is not None:
        keys = (*letter.part.keys[:3], public_of("11" * 32))
        return replace(letter, part=replace(letter.part, keys=keys))
    return letter


def beyond(name, letter):
    if not isinstance(letter, Ask):
        return letter
    return replace(letter, number=letter.number + 2)


@pytest.mark.parametrize("attack", [forge, beyond])
def test_a_hostile_server_gets_letters_that_do_not_depend_on_records(tmp_path, monkeypatch, attack):
    """All that a silo says, byte by byte, is said with other records as well."""
    said = []
    for number, data in enumerate((problem(), other_records())):
        keys = iter([f"{i:064x}" for i in range(1, 99)])
        monkeypatch.setattr(gates._masks, "new_key", lambda keys=keys: next(keys))

        class Hostile(Here):
            def deliver(self, letters):
                changed = {n: pack(attack(n, unpack(d))) for n, d in letters.items()}
                return super().deliver(changed)

        here = Hostile(tmp_path / str(number), data, keys=KEYS)
        (tmp_path / str(number)).mkdir()
        monkeypatch.setattr("secrets.token_hex", lambda n: "ab" * n)
        with pytest.raises(SilosMissing):
            fit_elsewhere(estimator(**PLAIN), here, n_attempts=1)
        assert not here.entries("east")
        said.append([answer for name, answer in here.answers if name == "east"])
    assert said[0] == said[1]


def test_sums_guard_against_as_many_silos_as_the_rounds(tmp_path):
    """A row whose scales have less noise than its promise says is none."""
    here = Offered(tmp_path, problem(), keys=KEYS)
    with pytest.raises(SilosMissing):
        model = estimator(trust=SecureAggregation(colluding=2), scaling="private")
        fit_elsewhere(model, here, n_attempts=1)
    row = next(unpack(data).row for _, data in here.letters)
    first, *rest = row.sums
    guarantee = replace(first.budgets.guarantee, colluding=1)
    fewer = replace(first, budgets=replace(first.budgets, guarantee=guarantee))
    assert with_plan(row, sums=(first, *rest)) and row.promise.colluding == 2
    with pytest.raises(ValueError, match="are inconsistent"):
        with_plan(row, sums=(fewer, *rest))
