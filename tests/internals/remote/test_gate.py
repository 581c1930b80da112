"""The rules by which a silo takes part; each test speaks to one silo, as a server would."""

import dataclasses
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from skdpfl import scaling
from skdpfl._codec import _FIELDS
from skdpfl.algorithms import FedExp, Scaffold
from skdpfl.models import MLP
from skdpfl.privacy import Guarantee, PrivacyLedger
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms import ServerGradients
from skdpfl.privacy.sampling import Disjoint, PoissonSampling, WithoutReplacement
from skdpfl.remote import Gate, Refused, SiloRecords, Terms, pack, unpack
from skdpfl.remote._gate import _check_clip_norm
from skdpfl.remote._letters import Agreement, Answer, Ask, End, Part, Refusal
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem, with_plan


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the server says to one silo in a fit with scales and two rounds."""
    here = Here(tmp_path_factory.mktemp("fit"), problem())
    fit_elsewhere(estimator(n_rounds=2, feature_bounds=(-4, 4), random_state=None), here)
    letters = [unpack(letter) for name, letter in here.letters if name == "north"]
    X, y, silos = problem()
    return letters, SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])


class Silo:
    """One silo that a test talks to; each letter meets a new Gate, as after a restart."""

    def __init__(self, folder, records, budget=(50.0, 1e-3), **options):
        self.path, self.records = folder / "north.ledger", records
        self.budget, self.options = budget, options

    def gate(self):
        ledger = PrivacyLedger(*self.budget, path=self.path)
        return Gate(self.records, ledger, **self.options)

    def tell(self, letter):
        return unpack(self.gate().answer(letter if isinstance(letter, bytes) else pack(letter)))

    @property
    def n_charged(self):
        return len(PrivacyLedger(path=self.path, must_exist=True).entries)


@pytest.fixture
def silo(tmp_path, said):
    return Silo(tmp_path, said[1])


def refused(answer, words):
    assert isinstance(answer, Refusal), answer
    assert words in answer.reason, answer.reason


def offer_of(said, **changes):
    offer = said[0][0]
    rest = {k: v for k, v in changes.items() if k in {f.name for f in dataclasses.fields(offer)}}
    row = {k: v for k, v in changes.items() if k not in rest}
    return dataclasses.replace(offer, row=with_plan(offer.row, **row), **rest)


# ---- before it agrees ---------------------------------------------------------------------------


@pytest.mark.parametrize("older", ["gate", "server"])
def test_a_field_that_the_other_release_lacks_is_refused(silo, said, monkeypatch, older):
    """An older gate would clip and price by another algorithm, a newer one fill in a default."""
    task = dataclasses.replace(said[0][0].task, algorithm=FedExp(1.0, 3, squared_row=1.2))
    known = {FedExp: {k: v for k, v in _FIELDS[FedExp].items() if k != "squared_row"}}
    if older == "server":
        with monkeypatch.context() as then:
            then.setitem(_FIELDS, FedExp, known[FedExp])
            letter = pack(offer_of(said, task=task))
    else:
        letter = pack(offer_of(said, task=task))
        monkeypatch.setitem(_FIELDS, FedExp, known[FedExp])
    refused(silo.tell(letter), "algorithms.FedExp must have the fields")
    refused(silo.tell(letter), "server and silos need the same release of skdpfl")
    assert not silo.path.exists() or not silo.n_charged


def test_it_refuses_what_its_ledger_cannot_pay(tmp_path, said):
    silo = Silo(tmp_path, said[1], budget=(2.0, 1e-3))
    refused(silo.tell(said[0][0]), "costs more than this silo's ledger has left")
    refused(silo.tell(said[0][1]), "has not agreed to this fit")


def test_it_computes_the_price_itself(tmp_path, said):
    """A row with less noise is not the plan that its terms allow, whatever the server says."""
    silo = Silo(tmp_path, said[1], terms=Terms(epsilon=3.0, delta=1e-4))
    less = offer_of(said, noise_multiplier=said[0][0].row.plan.noise_multiplier / 1.05)
    refused(silo.tell(less), "this fit costs epsilon=3.")
    assert isinstance(silo.tell(said[0][0]), Agreement)
    more_steps = offer_of(said, steps=(1, 2), fit="longer")
    refused(silo.tell(more_steps), "this fit costs epsilon=")
    tighter = Silo(tmp_path / "b", said[1], terms=Terms(delta=1e-6))
    refused(tighter.tell(said[0][0]), "terms allow epsilon=inf at delta=1e-06")
    whole = Silo(tmp_path / "c", said[1], terms=Terms(unit="silo"))
    refused(whole.tell(said[0][0]), "agreed to unit='silo'")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", np.nan),  # no cost is above it
        ("epsilon", -1.0),
        ("epsilon", "3"),
        ("delta", np.nan),
        ("delta", 1.0),
        ("unit", "patient"),
        ("neighbours", "auto"),
        ("colluding", -1),
        ("silos_per_person", 0),
    ],
)
def test_terms_that_say_nothing_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*got {value!r}"):
        Terms(**{name: value})


def test_releases_beside_the_rounds_are_part_of_the_price(silo, said):
    """Without them the rounds are cheaper; each one more costs more."""
    whole = silo.tell(said[0][0]).epsilon
    none = silo.tell(offer_of(said, sums=(), fit="a")).epsilon
    scales, after = said[0][0].row.sums
    twice = dataclasses.replace(scales, mus=scales.mus + scales.mus)
    assert none < whole < silo.tell(offer_of(said, sums=(twice, after), fit="b")).epsilon
    fails = dataclasses.replace(scales, failure=1e-6)
    assert whole < silo.tell(offer_of(said, sums=(fails, after), fit="c")).epsilon


#: what an offer says, or what it says of the records, and why it is refused
WRONG = {
    "another name": (
        {"name": "east", "silos": ("east",), "silo_ids": ("east",)},
        "this silo is 'north'",
    ),
    "another release": ({"release": "9.9"}, "The server has skdpfl 9.9, this silo"),
    "a seed": ({"seed": 3}, "Whoever knows the seed knows the noise"),
    "features": ({"n_features": 9}, "this silo 4"),
    "classes": ({"classes": (5, 6)}, "operator declared different classes"),
    "classes out of order": ({"classes": (1, 0)}, "must be sorted"),
    "a class twice": ({"classes": (0, 0)}, "without duplicates"),
    "classes of two kinds": ({"classes": (0, "1")}, "labels of one type"),
    "records": ({"n_units": 5}, "differ in the size of this silo"),
    "dtype": ({"dtype": "float32"}, "declared different dtypes"),
    "a horizon": ({"horizon": 5.0}, "declared different events"),
    "a horizon that is none": ({"horizon": float("nan")}, "must be a positive number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses_offers_for_others_and_what_it_does_not_have(silo, said, name):
    changes, words = WRONG[name]
    facts = said[0][0].facts
    if changes.keys() <= {field.name for field in dataclasses.fields(facts)}:
        changes = {"facts": dataclasses.replace(facts, **changes)}
    refused(silo.tell(offer_of(said, **changes)), words)


#: of a plan, of a sum in it, and of a sum's budgets
INCONSISTENT = {
    "plan": [
        {"noise_multiplier": 0.0}, {"noise_multiplier": np.nan}, {"clip_norm": np.inf},
        {"steps": ()}, {"delta": 0.0}, {"silo_sizes": np.array([7])},
        {"cohorts": (np.zeros(3, int), np.array([2, 1]))},
        {"cohorts": (np.zeros(2, int), np.array([1, 0, 1]))},
        {"cohorts": (np.array([0, 1]), np.array([1, 1]))},
        {"guarantee": Guarantee(trust="server"), "mechanism": ServerGradients()},
        {"schedule": (np.zeros(1, int),) * 2}, {"setup": (((Gaussian(9.0), 1),),)},
        {"sampling": PoissonSampling(-0.5)}, {"sampling": PoissonSampling(float("nan"))},
        {"sampling": WithoutReplacement(1.5)}, {"sampling": Disjoint(1)},
        {"sampling": Disjoint(10_000)},
    ],
    "sum": [
        *({"mus": (np.array([mu]),)} for mu in (0.0, -1.0, np.inf, np.nan)),
        {"mus": (np.ones(2),)}, {"mus": ()}, {"purpose": "round"}, {"first": -1}, {"failure": 1.0},
    ],
    "budgets": [
        {"silo_sizes": np.array([7])}, {"guarantee": Guarantee(trust="server")}, {"every": 0},
        {"guarantee": Guarantee(neighbours="add_remove")}, {"guarantee": Guarantee(unit="silo")},
    ],
}  # fmt: skip


@pytest.mark.every
@pytest.mark.parametrize(
    ("part", "change"), [(part, each) for part, all_ in INCONSISTENT.items() for each in all_]
)
def test_plans_that_mean_nothing_are_refused(said, part, change):
    scales, after = said[0][0].row.sums
    if part == "budgets":
        change = {"budgets": dataclasses.replace(scales.budgets, **change)}
    if part != "plan":
        change = {"sums": (dataclasses.replace(scales, **change), after)}
    for wrong in (change, {"sums": (after, after)}):
        with pytest.raises(ValueError, match="are inconsistent"):
            offer_of(said, **wrong)


# ---- once ---------------------------------------------------------------------------------------


def told(silo, letters):
    """Tell a silo all of these; return the last answer's bytes."""
    for letter in letters:
        answer = silo.gate().answer(pack(letter))
        assert not isinstance(unpack(answer), Refusal), unpack(answer)
    return answer


@pytest.mark.parametrize("last", [1, 3, 4, 5])
def test_asked_again_it_sends_the_same_bytes_or_nothing(silo, said, last):
    """The same words: the same bytes, after a restart too. Other words: no second release."""
    letters = said[0][: last + 1]
    assert len(letters) == last + 1
    answer = told(silo, letters)
    assert silo.gate().answer(pack(letters[-1])) == answer
    ask = letters[-1]
    other = ask.content
    if isinstance(other, np.ndarray):
        other = other + 1
    elif isinstance(other, scaling.Labels):
        other = scaling.Histogram(np.array([0]), np.zeros(1), np.ones(1))
    else:
        boxes = other.boxes._replace(center=other.boxes.center + 1)
        other = dataclasses.replace(other, boxes=boxes)
    refused(silo.tell(dataclasses.replace(ask, content=other)), "once and in order")
    for earlier in letters[1:-1]:
        reply = silo.tell(earlier)
        assert isinstance(reply, Refusal)
    assert silo.n_charged == 1


def test_an_agreement_is_for_one_offer_and_its_rounds(silo, said):
    silo.tell(said[0][0])
    refused(silo.tell(offer_of(said, noise_multiplier=99.0)), "a different offer with the name")
    told(silo, said[0][:-1])
    last = said[0][-2]
    assert last.purpose == "round" and silo.n_charged == 1
    refused(silo.tell(dataclasses.replace(last, number=2)), "got round 2")
    part = Part(np.arange(3), 0, 1.0)
    refused(silo.tell(dataclasses.replace(last, part=part)), "did not agree to masked sums")


def test_fits_cannot_share_an_entry_of_the_ledger(silo, said):
    """Whatever a server calls its fits, each of them is paid for."""
    for number, (name, fit) in enumerate([("a, fit b", "c"), ("a", "b, fit c"), ("a", "d")]):
        silo.tell(offer_of(said, estimator=name, fit=fit))
        assert isinstance(silo.tell(dataclasses.replace(said[0][1], fit=fit)), Answer)
        assert silo.n_charged == number + 1


def test_a_fit_whose_memory_is_gone_is_not_begun_again(silo, said):
    """It was paid once; noise that is drawn again would be a second release."""
    told(silo, said[0][:2])
    for kept in silo.path.parent.rglob("*.fit"):
        kept.unlink()
    refused(silo.tell(said[0][0]), "ledger cannot be used")
    shutil.rmtree(f"{silo.path}.fits")  # all of it: a new memory begins
    refused(silo.tell(said[0][0]), "its stored state is missing")
    refused(silo.tell(said[0][1]), "has not agreed to this fit")
    assert silo.n_charged == 1
    told(silo, [offer_of(said, fit="another")])


def test_sizes_and_labels_are_no_answer_where_the_terms_keep_them_secret(tmp_path, said):
    """Whole silos are protected: offers for records are refused before a record is counted."""
    silo = Silo(tmp_path, said[1], terms=Terms(unit="silo"))
    n = len(said[1].y)
    answers = []
    for size in (n - 1, n, n + 1):
        facts = dataclasses.replace(said[0][0].facts, n_units=size)
        offer = offer_of(said, silo_sizes=np.array([size]), sums=(), facts=facts, fit=f"{size}")
        answers.append(silo.tell(offer).reason)
    assert len(set(answers)) == 1 and "agreed to unit='silo'" in answers[0]


def test_which_labels_occur_is_no_answer(tmp_path, said):
    """The same words to any classes, whatever labels the records have."""
    answers = []
    for y in (said[1].y, np.zeros_like(said[1].y)):
        records = SiloRecords("north", said[1].X, y, classes=[0, 1])
        silo = Silo(tmp_path / str(len(answers)), records)
        asked = [(0,), (1,), (0, 1), (0, 1, 2)]
        facts = [dataclasses.replace(said[0][0].facts, classes=c) for c in asked]
        offers = [offer_of(said, facts=f, fit=str(i)) for i, f in enumerate(facts)]
        answers.append([getattr(silo.tell(o), "reason", "agreed") for o in offers])
    assert answers[0] == answers[1] and answers[0].count("agreed") == 1
    silo = Silo(tmp_path / "undeclared", SiloRecords("north", said[1].X, said[1].y))
    refused(silo.tell(said[0][0]), "declared different classes")
    with pytest.raises(ValueError, match=r"not among classes \[.*\]: in"):
        SiloRecords("north", said[1].X, said[1].y, classes=[0])


BROADCASTS = {
    "two models": lambda p: np.stack([p, p + 1]),
    "one number": lambda p: p[:1],
    "text": lambda p: np.array(["0"] * len(p)),
    "nothing": lambda p: None,
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcasts_of_another_shape_are_refused_before_they_are_paid(silo, said, name):
    first = next(letter for letter in said[0][1:] if letter.purpose == "round")
    silo.tell(said[0][0])
    content = BROADCASTS[name](first.content)
    refused(silo.tell(dataclasses.replace(first, content=content)), "does not fit the algorithm")
    assert silo.n_charged == 0


@pytest.mark.parametrize("clip", [0.0, -1.0, np.nan, np.inf, 1e-300, 5e-324, 1e300])
def test_messages_are_clipped_to_norms_that_noise_is_made_for(clip):
    row = SimpleNamespace(unit="silo", clip_norm=0.5)
    with pytest.raises(Refused, match="near that of the plan"):
        _check_clip_norm(clip, row)
    for near in (0.5, 1e-6, 1e6):
        _check_clip_norm(near, row)


ALL, FEWER = scaling.Columns(np.ones(4, bool), False), scaling.Columns(np.ones(3, bool), False)
UNIT = scaling.Boxes(np.zeros(4), np.ones(4))


def scales(what, number=1):
    return Ask("", "scales", number, what, 1.0)


UNPLANNED = {
    "another release": (scales(scaling.Moments(ALL, UNIT), 7), "no sum number"),
    "empty boxes": (
        scales(scaling.Moments(ALL, scaling.Boxes(np.zeros(4), np.zeros(4)))),
        "do not fit the requested",
    ),
    "no numbers": (
        scales(scaling.Moments(ALL, scaling.Boxes(np.full(4, np.nan), np.ones(4)))),
        "do not fit the requested",
    ),
    "fewer columns": (
        scales(scaling.Moments(FEWER, scaling.Boxes(np.zeros(3), np.ones(3)))),
        "do not fit the requested",
    ),
    "many bins": (
        scales(scaling.Counts(ALL, scaling.LinearGrid(0.0, 1.0, 10**6))),
        "do not fit the requested",
    ),
    "slopes too early": (scales(scaling.Slopes(np.zeros(5), 1.0, 1.0)), "needs a model"),
    "a round without a task": (Ask("", "round", 0, np.zeros(5), 1.0), "needs a task"),
}


@pytest.mark.parametrize("name", UNPLANNED)
def test_questions_that_were_not_planned_are_refused(silo, said, name):
    ask, words = UNPLANNED[name]
    silo.tell(said[0][0])
    refused(silo.tell(dataclasses.replace(ask, fit=said[0][0].fit)), words)
    assert silo.n_charged == 0


def test_the_task_is_that_of_the_plan(silo, said):
    k = [letter.purpose if i else "" for i, letter in enumerate(said[0])].index("round")
    told(silo, said[0][:k])
    first = said[0][k]
    model = dataclasses.replace(first.task.model, n_features=3)
    for changes, words in (
        ({"model": model}, "agreed plan"),
        ({"algorithm": scaffold()}, "offered"),
    ):
        task = dataclasses.replace(first.task, **changes)
        refused(silo.tell(dataclasses.replace(first, task=task)), words)
    told(silo, [first])
    later = dataclasses.replace(said[0][k + 1], task=dataclasses.replace(first.task, alpha=1.0))
    refused(silo.tell(later), "must not change")


def test_a_model_that_does_not_fit_in_a_message_is_refused(silo, said):
    task = said[0][0].task
    for model in (MLP((2**28,)).build(4, 1), MLP((2**20, 2**20)).build(4, 1)):
        large = dataclasses.replace(task, model=model)
        refused(silo.tell(offer_of(said, task=large)), "too large to be sent")
    refused(silo.tell(offer_of(said, task=None)), "must contain its model, loss and algorithm")


def scaffold():
    return Scaffold(0.1, 3)


# ---- errors tell nothing ------------------------------------------------------------------------


def test_a_fit_that_an_error_ended_is_charged_in_full(monkeypatch, silo, said):
    """The error may have depended on noise that was drawn: no part of the price comes back."""
    k = [getattr(letter, "purpose", "") for letter in said[0]].index("round")
    told(silo, said[0][: k + 1])
    monkeypatch.setattr("skdpfl.remote._gate.streams_of", lambda offer: 1 / 0)
    refused(silo.tell(said[0][k + 1]), "its log has the details")
    monkeypatch.undo()
    refused(silo.tell(said[0][k + 1]), "its log has the details")  # as before, word for word
    refused(silo.tell(End(said[0][0].fit, 1)), "charged in full")


@pytest.mark.parametrize("reads", ["table", "targets"])
def test_no_record_is_read_before_the_fit_is_paid(monkeypatch, silo, said, reads):
    """Else an error, or its time, could tell of a value for nothing, again and again."""
    charged, read = [], getattr(SiloRecords, reads)

    def reading(self, *args):
        charged.append(silo.n_charged)
        return read(self, *args)

    monkeypatch.setattr(SiloRecords, reads, reading)
    told(silo, said[0])
    assert len(charged) == len(said[0]) - 1 and set(charged) == {1}


def test_a_broadcast_that_is_not_finite_uses_up_no_round(silo, said):
    k = [getattr(letter, "purpose", "") for letter in said[0]].index("round")
    told(silo, said[0][:k])
    broken = dataclasses.replace(said[0][k], content=said[0][k].content * np.nan)
    refused(silo.tell(broken), "the round was not spent")
    told(silo, said[0][k:])
