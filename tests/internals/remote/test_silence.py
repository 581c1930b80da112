"""Nothing but letters leaves: no word of an error in reading records, or in computing on them.

Each fault carries SECRET, as an error of pandas or of a database carries a record's value.
"""

import logging
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest

from skdpfl.losses import LogLoss
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Gate, Hello, Refused, SiloRecords, WireError, answer_of, pack, unpack
from skdpfl.remote._letters import Agreement, Answer, Ask, Introduction, Refusal
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem

SECRET = "HIV positive"


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """What a server says to one silo in a fit, the bytes."""
    here = Here(tmp_path_factory.mktemp("fit"), problem())
    fit_elsewhere(estimator(n_rounds=2, feature_bounds=(-4, 4), random_state=None), here)
    return [pack(Hello()), *(letter for name, letter in here.letters if name == "north")]


def mine():
    X, y, silos = problem()
    return X[silos == 1], y[silos == 1]


# ---- records that cannot be read ----------------------------------------------------------------


def a_stray_label():
    X, y = mine()
    y = y.astype(object)
    y[0] = SECRET
    return SiloRecords("north", X, y, classes=[0, 1])


def a_broken_database():
    connection = sqlite3.connect(":memory:")
    return pd.read_sql_query(f'select "{SECRET}" from "{SECRET}"', connection)


def nothing():
    return None


def an_error_of_its_own():
    raise type(SECRET, (Exception,), {"__str__": lambda self: SECRET})


def words_of_ours():
    raise Refused(f"This silo has {SECRET}.")


def chained():
    try:
        an_error_of_its_own()
    except Exception as error:
        raise ValueError("see the cause") from error


def chained_by_accident():
    try:
        words_of_ours()
    except Exception:
        return pd.to_datetime(pd.Series([SECRET]), format="%Y")


def several():
    raise ExceptionGroup(SECRET, [ValueError(SECRET), KeyError(SECRET)])


def an_exit():
    raise SystemExit(SECRET)


def a_warning_that_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn(SECRET, stacklevel=2)


LOADS = [
    a_stray_label, a_broken_database,nothing,
an_error_of_its_own, words_of_ours, chained, chained_by_accident,
    several, an_exit, a_warning_that_is_an_error,
]  # fmt: skip


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """What a silo answers that reads no records at all."""

    def fails():
        raise OSError

    return answer_of(fails, pack(Hello()))


@pytest.mark.parametrize("load", LOADS, ids=lambda f: f.__name__)
def test_records_that_cannot_be_read_leave_no_word(tmp_path, caplog, letters, fixed, load):
    """The same bytes, whatever the fault, to each letter of a fit; the log names the place."""
    caplog.set_level(logging.INFO, "skdpfl.remote")

    def make():
        return Gate(load(), PrivacyLedger(9.0, 1e-3, path=tmp_path / "north.ledger"))

    assert {answer_of(make, letter) for letter in letters} == {fixed}
    assert SECRET.encode() not in fixed and isinstance(unpack(fixed), Refusal)
    assert "The silo cannot be started" in caplog.text
    assert SECRET not in caplog.text.replace(f"{SECRET} in ", "")  # a class of that name


# ---- errors in computing ------------------------------------------------------------------------


def raises(kind):
    def fails(*args, **kwargs):
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise kind(f"the record is {SECRET}") from error

    return fails


KINDS = [ValueError, Refused, WireError, MemoryError, AssertionError, RecursionError]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_in_drawing_leave_no_word(monkeypatch, tmp_path, caplog, letters, kind):
    """Also of the classes whose words may be sent elsewhere, by a loss of somebody's own."""
    caplog.set_level(logging.INFO, "skdpfl.remote")
    X, y = mine()
    left, reasons = [], set()
    monkeypatch.setattr(LogLoss, "gradient", raises(kind))
    monkeypatch.setattr(LogLoss, "gradient_", raises(kind), raising=False)
    monkeypatch.setattr("skdpfl.federation.Silo.round", raises(kind))
    for letter in letters:
        records = SiloRecords("north", X, y, classes=[0, 1])
        gate = Gate(records, PrivacyLedger(9.0, 1e-3, path=tmp_path / "north.ledger"))
        left.append(gate.answer(letter))
        if isinstance(unpack(left[-1]), Refusal):
            reasons.add(unpack(left[-1]).reason.rstrip())
    assert not any(SECRET.encode() in data for data in left)
    assert SECRET not in caplog.text and f"{kind.__name__} in fails" in caplog.text
    assert reasons == {
        "An error occurred at the silo; its log has the details.",
        "This fit ended at this silo, because of an error in an answer.",
    }


def test_a_warning_leaves_no_word_in_the_log(monkeypatch, tmp_path, caplog, letters):
    """pandas and NumPy warn of values."""
    caplog.set_level(logging.INFO, "skdpfl.remote")
    X, y = mine()

    class Talks(SiloRecords):
        def check(self, *offered, **kind):
            warnings.warn(SECRET, stacklevel=2)
            super().check(*offered, **kind)

    records = Talks("north", X, y, classes=[0, 1])
    gate = Gate(records, PrivacyLedger(9.0, 1e-3, path=tmp_path / "north.ledger"))
    assert isinstance(unpack(gate.answer(letters[1])), Agreement)
    assert "UserWarning in" in caplog.text and SECRET not in caplog.text


# ---- sizes --------------------------------------------------------------------------------------


def test_sizes_of_answers_do_not_depend_on_records(tmp_path, letters):
    """Other records of the same public facts: each answer has as many bytes."""
    sizes = []
    for factor in (0.0, 1.0, 1e9):
        X, y = mine()
        y = np.zeros_like(y) if factor == 0 else y
        folder, took = tmp_path / str(factor), []
        folder.mkdir()
        for letter in letters:
            records = SiloRecords("north", X * factor, y, classes=[0, 1])
            gate = Gate(records, PrivacyLedger(9.0, 1e-3, path=folder / "north.ledger"))
            took.append(gate.answer(letter))
        kinds = [type(unpack(answer)) for answer in took]
        assert kinds == [Introduction, Agreement, *[Answer] * (len(letters) - 2)]
        sizes.append([len(answer) for answer in took])
    assert sizes[0] == sizes[1] == sizes[2]


def test_refusals_are_of_one_size(tmp_path, letters):
    X, y = mine()
    sizes, reasons = set(), set()
    asked = unpack(letters[2])
    others = [pack(Ask(asked.fit, "round", n, np.zeros(n), 1.0)) for n in (0, 3)]
    for budget in (9.0, 1.0):
        folder = tmp_path / str(budget)
        folder.mkdir()
        records = SiloRecords("north", X, y, classes=[0, 1])
        gate = Gate(records, PrivacyLedger(budget, 1e-3, path=folder / "north.ledger"))
        for letter in [letters[1], *others, letters[3]]:
            answer = gate.answer(letter)
            if isinstance(unpack(answer), Refusal):
                sizes.add(len(answer))
                reasons.add(unpack(answer).reason)
    assert len(sizes) == 1 and len(reasons) >= 3
