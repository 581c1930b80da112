"""Fits that are killed go on: the same model, every release counted and run once."""

import contextlib
import os
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdpfl import (
    Checkpoint,
    DPFedAvgClassifier,
    DPFederatedClassifier,
    DPFedEXPClassifier,
    DPScaffoldClassifier,
    ISRLDPClassifier,
)
from skdpfl.algorithms import MinibatchSGD
from skdpfl.estimators import _training
from skdpfl.estimators._checkpoint import KeptFit
from skdpfl.federation import LocalFederation, SumQuestion
from skdpfl.privacy import PrivacyLedger
from tests.remote.silos_here import Killed

RNG = np.random.default_rng(0)
SILOS = np.arange(120) % 4
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(int)

FITS = {
    "minibatch": ISRLDPClassifier(3.0, n_rounds=6, scaling=None, random_state=0),
    "accelerated, cohorts": ISRLDPClassifier(
        3.0, n_rounds=6, scaling=None, solver="accelerated", silo_fraction=0.5, random_state=0
    ),
    "one pass": ISRLDPClassifier(
        3.0, n_rounds=4, scaling=None, solver="accelerated", sampling="disjoint", random_state=0
    ),
    "scaffold, private scales": DPScaffoldClassifier(
        9.0, n_rounds=5, local_steps=2, scaling="private", random_state=0
    ),
    "momentum, calibrated": DPFedAvgClassifier(
        9.0, n_rounds=4, scaling=None, calibrate=True, random_state=0
    ),
    "whole silos": DPFedEXPClassifier(3.0, n_rounds=5, trust="server", random_state=0),
}


def fit(estimator, path):
    with warnings.catch_warnings(), Checkpoint(path):
        warnings.simplefilter("ignore")
        return estimator.fit(X, Y, silos=SILOS)


def kill_after(patch, n_writes):
    """Let the process end right after some write."""
    write, left = KeptFit._write, [n_writes]

    def dying(self):
        write(self)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    patch.setattr(KeptFit, "_write", dying)


@pytest.mark.parametrize("name", FITS)
def test_the_model_is_that_of_a_fit_without_a_crash(name, tmp_path, monkeypatch):
    estimator = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator.fit(X, Y, silos=SILOS)
        coef, cost = expected.coef_.copy(), expected.privacy_spent_
    for n_writes in (1, 2, 4):
        path = tmp_path / str(n_writes)
        with monkeypatch.context() as patch:
            kill_after(patch, n_writes)
            with pytest.raises(Killed):
                fit(estimator, path)
        found = fit(estimator, path)
        assert (found.coef_ == coef).all() and found.privacy_spent_ == cost
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "4"]


@pytest.mark.parametrize("seed", [0, None])
def test_each_release_happens_and_is_charged_once(seed, tmp_path, monkeypatch):
    estimator = DPScaffoldClassifier(9.0, n_rounds=5, scaling="private", silo_fraction=0.5,
                                     random_state=seed)  # fmt: skip
    rounds, questions = [], []
    play, ask = LocalFederation.round, LocalFederation.ask
    monkeypatch.setattr(
        LocalFederation, "round", lambda self, r, *a: rounds.append(r) or play(self, r, *a)
    )
    monkeypatch.setattr(
        LocalFederation,
        "ask",
        lambda self, q: questions.append((q.purpose, q.number)) or ask(self, q),
    )
    with PrivacyLedger(epsilon=20.0, delta=1e-3, path=tmp_path / "ledger") as ledger:
        with monkeypatch.context() as patch:
            kill_after(patch, 4)
            with pytest.raises(Killed):
                fit(estimator, tmp_path / "fit")
        fitted = fit(estimator, tmp_path / "fit")
        again = fit(estimator, tmp_path / "fit")
        assert len(ledger.entries) == 1
        assert ledger.spent.epsilon == pytest.approx(fitted.privacy_spent_.epsilon)
    assert rounds == list(range(5)) and len(questions) == len(set(questions)) > 3
    assert (again.coef_ == fitted.coef_).all()


@pytest.mark.parametrize("n_writes", [4, 6, 10, 13, 99])
def test_a_trusted_server_adds_noise_to_each_answer_once(n_writes, tmp_path, monkeypatch):
    """Sums of scales and slopes, noised twice, are two releases: also of a fit that had ended.

    Two classes with a given clip norm ask for slopes; with an automatic one, for shares alone.
    """
    estimator = DPFedAvgClassifier(9.0, n_rounds=3, local_steps=1, clip_norm=1.0, trust="server",
                                   scaling="private")  # fmt: skip
    added, real = [], SumQuestion.added

    def adding(*asked):
        added.append((released := real(*asked)).tobytes())
        return released

    monkeypatch.setattr(SumQuestion, "added", adding)
    with monkeypatch.context() as patch:
        kill_after(patch, n_writes)
        with pytest.raises(Killed) if n_writes < 99 else contextlib.nullcontext():
            fit(estimator, tmp_path / "fit")
    before = added.copy()
    added.clear()
    first = fit(estimator, tmp_path / "fit").coef_
    again, n = added[: len(before)], len(added)
    assert before and again == before and n == 5
    assert (fit(estimator, tmp_path / "fit").coef_ == first).all()
    assert added[n:] == added[:n]


def test_nothing_is_heard_of_a_round_before_it_is_on_disk(tmp_path, monkeypatch):
    order = []
    keep = KeptFit.keep
    monkeypatch.setattr(KeptFit, "keep", lambda *a: keep(*a) or order.append("disk"))
    told = _training.AfterRound.__call__
    monkeypatch.setattr(
        _training.AfterRound, "__call__", lambda *a: order.append("told") or told(*a)
    )
    fit(FITS["minibatch"], tmp_path / "fit")
    assert order == ["disk", "told"] * 6


def test_a_file_is_for_one_fit(tmp_path):
    fit(FITS["minibatch"], tmp_path / "fit")
    with pytest.raises(ValueError, match="to another fit"):
        fit(FITS["whole silos"], tmp_path / "fit")
    with pytest.raises(ValueError, match="to another fit"), Checkpoint(tmp_path / "fit"):
        FITS["minibatch"].fit(X[::-1], Y, silos=SILOS)
    data = (tmp_path / "fit").read_bytes()
    (tmp_path / "fit").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged"):
        fit(FITS["minibatch"], tmp_path / "fit")


@pytest.mark.parametrize("kind", [np.array, pd.Series])
def test_a_file_is_for_all_numbers_of_its_parameters(kind, tmp_path):
    """NumPy and pandas show eight digits of a number, and not the middle of a long array."""
    X = RNG.normal(size=(40, 1200))
    bounds = np.full(1200, 3.0)
    for name, changed in (("middle", 50.0), ("digits", 3.0 + 1e-12)):
        others = bounds.copy()
        others[600] = changed
        ended = ISRLDPClassifier(3.0, feature_bounds=(kind(-bounds), kind(bounds)), n_rounds=1)
        other = ISRLDPClassifier(3.0, feature_bounds=(kind(-others), kind(others)), n_rounds=1)
        for _ in range(2):
            with warnings.catch_warnings(), Checkpoint(tmp_path / name):
                warnings.simplefilter("ignore")
                ended.set_params(random_state=0).fit(X, Y[:40], silos=SILOS[:40])
        with pytest.raises(ValueError, match="to another fit"), Checkpoint(tmp_path / name):
            other.set_params(random_state=0).fit(X, Y[:40], silos=SILOS[:40])


class Unkept(MinibatchSGD):
    """Its state is what no file can keep."""

    def init(self, params):
        return super().init(params)._replace(round=Fraction(0))


def test_a_state_that_no_file_can_keep_is_refused_before_anything_is_paid(tmp_path):
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
        with pytest.raises(ValueError, match="cannot keep the state of Unkept"):
            fit(DPFederatedClassifier(5.0, algorithm=Unkept(0.1)), tmp_path / "own")
        assert not ledger.entries
