"""A server that is killed and started again goes on with its fit; nobody pays or draws twice."""

import numpy as np
import pytest

from skdpfl.models import MLP
from skdpfl.remote import Refused, RemoteFederation, SilosMissing, new_silo_key
from tests.remote.silos_here import NAMES, Here, Killed, estimator, problem, schema

FITS = {
    "plain": {"calibrate": False, "scaling": None, "n_rounds": 4},
    "questions": {"n_rounds": 2, "feature_bounds": (-4, 4)},
    "some silos": {"sampling": "disjoint", "silo_fraction": 0.5, "n_rounds": 4, "scaling": None},
    "a network": {"model": MLP((3,)), "n_rounds": 2, "scaling": None, "calibrate": False},
    "shared noise": {"trust": "secagg", "n_rounds": 2, "feature_bounds": (-4, 4)},
}


def fit(here, journal, seed=None, **options):
    model = estimator(random_state=seed, **options)
    facts = schema(here.problem)
    federation = RemoteFederation(here, facts, classes=[0, 1], journal=journal)
    return model.fit_federation(federation, facts)


def killed_at(here, n):
    """Let the server be killed after its n-th exchange was sent, before an answer is kept."""
    deliver, count = here.deliver, []

    def once(letters):
        came = deliver(letters)
        count.append(1)
        if len(count) == n:
            raise Killed
        return came

    here.deliver = once


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The noise will drown")
@pytest.mark.parametrize("name", FITS)
def test_a_server_that_is_killed_in_each_exchange_goes_on(tmp_path, name):
    """Without a seed: the second process finds the fit, its own draws and the answers."""
    keys = None
    if "trust" in FITS[name]:
        pytest.importorskip("cryptography")
        keys = {silo: new_silo_key() for silo in NAMES}
    here = Here(tmp_path, problem(), allow_simulation=False, keys=keys)
    journal, model, ends = tmp_path / "journal", None, 0
    for n in range(1, 30):
        killed_at(here, 2 if n > 1 else 1)  # one exchange further each time
        try:
            model = fit(here, journal, **FITS[name])
            break
        except Killed:
            ends += 1
    assert model is not None and ends >= 3
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
    by_words = {}
    for letter, answer in zip(here.letters, here.answers, strict=True):
        by_words.setdefault(letter, set()).add(answer)
    assert all(len(answers) == 1 for answers in by_words.values())
    n_letters = len(here.letters)
    again = fit(here, journal, **FITS[name])  # the whole fit is there: nobody is asked
    assert len(here.letters) == n_letters
    for one, other in zip(learnt(model), learnt(again), strict=True):
        assert np.array_equal(one, other)
    assert journal.stat().st_mode & 0o777 == 0o600


def learnt(model):
    if hasattr(model, "coef_"):
        return [model.coef_, model.intercept_]
    return [*model.coefs_, *model.intercepts_]


@pytest.mark.slow
def test_a_journal_is_for_one_fit(tmp_path):
    here = Here(tmp_path, problem())
    plain = FITS["plain"]
    fit(here, tmp_path / "journal", **plain)
    with pytest.raises(ValueError, match="belongs to a fit with other parameters"):
        fit(here, tmp_path / "journal", **plain | {"n_rounds": 5})
    facts = schema(here.problem)
    federation = RemoteFederation(here, facts, classes=[0, 1], journal=tmp_path / "second")
    estimator(**plain).fit_federation(federation, facts)
    with pytest.raises(Refused, match="give each fit a federation"):
        estimator(**plain).fit_federation(federation, facts)


@pytest.mark.parametrize("content", [b"", b"x" * 40, (9).to_bytes(8, "little") + b"x" * 9])
def test_a_file_that_is_no_journal(tmp_path, content):
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a journal of a fit"):
        RemoteFederation(None, schema(problem()), journal=path)


def test_a_record_that_was_being_written_is_left_out(tmp_path):
    here = Here(tmp_path, problem())
    path = tmp_path / "journal"
    model = fit(here, path, **FITS["plain"])
    path.write_bytes(path.read_bytes()[:-7])
    n_letters = len(here.letters)
    again = fit(here, path, **FITS["plain"])
    assert len(here.letters) == n_letters + 4  # the last round, from its silos' memory
    assert np.array_equal(model.coef_, again.coef_)


def test_missing_answers_are_asked_for_again(tmp_path):
    """A fit that failed because a silo was silent goes on when it is back."""
    here = Here(tmp_path, problem())
    here.spoil = lambda name, count, answer: None if name == "north" and count > 8 else answer
    with pytest.raises(SilosMissing, match="north"):
        fit(here, tmp_path / "journal", **FITS["plain"])
    here.spoil = lambda name, count, answer: answer
    model = fit(here, tmp_path / "journal", **FITS["plain"])
    assert np.isfinite(model.coef_).all()
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4


def test_a_model_that_is_not_finite_costs_no_round(tmp_path):
    """By the server, before a letter leaves; by a silo, before it answers."""
    here = Here(tmp_path, problem())
    facts = schema(here.problem)
    federation = RemoteFederation(here, facts, classes=[0, 1])
    with pytest.raises(Refused, match="the fit stops before the next round"):
        list(federation.round(0, np.array([np.nan]), np.arange(4), 1.0))
    with pytest.raises(Refused, match="the fit stops before the next round"):
        list(federation.round(0, (np.zeros(2), np.array([np.inf])), np.arange(4), 1.0))
    assert not here.letters
