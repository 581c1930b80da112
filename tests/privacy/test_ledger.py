"""The ledger: admission is a filter, the record survives, workers are seen."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import BudgetExceeded, PrivacyLeakWarning
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate, FixedSizeGaussian, Gaussian, PoissonGaussian, Profile
from tests.guaranteed import cost_of

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)


def model(epsilon=1.0, **params):
    return ISRLDPClassifier(epsilon=epsilon, scaling=None, n_rounds=3, **params)


def cost(*composition, unit="record", seed=None, neighbours="replace"):
    return cost_of(
        unit=unit,
        trust="silo",
        neighbours=neighbours,
        delta=1e-5,
        compositions=[composition],
        silo_ids=[0] if unit == "record" else None,
        group_of_silo=[0] if unit == "record" else None,
        simulation_seeds=frozenset() if seed is None else frozenset({seed}),
    )


def gaussian(mu):
    return cost((Gaussian(2 / mu), 1))


def test_records_every_fit_and_composes():
    with PrivacyLedger() as ledger:
        one, two = model().fit(X, y), model(0.5).fit(X, y)
    assert [e.name for e in ledger.entries] == ["ISRLDPClassifier"] * 2
    assert ledger.spent.epsilon == pytest.approx((one.privacy_spent_ + two.privacy_spent_).epsilon)
    assert ledger.spent.epsilon < 1.5


def test_refuses_before_data_are_read_and_leaves_the_estimator_alone():
    with PrivacyLedger(epsilon=1.2) as ledger:
        model(1.0).fit(X, y)
        refused = model(1.0)
        message = r"beyond epsilon=1.2.*after 1 fit.*by itself it costs epsilon="
        with pytest.raises(BudgetExceeded, match=message):
            refused.fit(X, y)
        assert not hasattr(refused, "coef_")
        assert len(ledger.entries) == 1


def test_a_question_is_answered_as_a_fit_would_be_and_records_nothing():
    within, beyond = cost((Gaussian(9.0), 1)), cost((Gaussian(2.0), 1))
    with PrivacyLedger(epsilon=1.2) as ledger:
        for _ in range(3):
            ledger.check(within)
        with pytest.raises(BudgetExceeded):
            ledger.check(beyond)
        assert not ledger.entries
        while len(ledger.entries) < 20:
            try:
                ledger.check(within)
            except BudgetExceeded:
                break
            ledger.charge("a fit", within)
        with pytest.raises(BudgetExceeded):
            ledger.charge("a fit", within)
        assert 1 <= len(ledger.entries) < 20
    with pytest.raises(BudgetExceeded):
        PrivacyLedger(epsilon=1.2).check(beyond)


def test_one_fit_may_use_the_whole_budget_and_nothing_fits_after_it():
    with PrivacyLedger(epsilon=1.0, delta=1e-4) as ledger:
        model(1.0, delta=1e-4).fit(X, y)
        with pytest.raises(BudgetExceeded):
            model(0.05, delta=1e-4).fit(X, y)
    assert len(ledger.entries) == 1


def test_the_published_hole_of_composed_budgets_is_closed():
    # each second fit composes with the first to epsilon = 3; chosen by the first one's output the
    # pair has delta 1.7e-5, so a ledger of (3, 1e-5) must admit neither
    for second in (gaussian(0.517), cost((PoissonGaussian(0.476, 0.001), 100))):
        with PrivacyLedger(epsilon=3, delta=1e-5) as ledger:
            ledger.charge("first", gaussian(0.5))
            with pytest.raises(BudgetExceeded):
                ledger.charge("second", second)


@pytest.mark.parametrize(
    "odd",
    [
        (FixedSizeGaussian(math.inf, 0.5), 1),
        (PoissonGaussian(1.0, 0.0), 1),
        (Profile((-1.0, 0.0, 1.0), (0.7, 0.1, 1e-9)), 1),
        (Approximate(800.0), 1),
    ],
)
def test_no_cost_opens_the_budget_for_others(odd):
    with PrivacyLedger(2000.0) as ledger:
        ledger.charge("odd", cost(odd))
        with pytest.raises(BudgetExceeded):
            for _ in range(3):
                ledger.charge("more", gaussian(40.0))


def test_units_do_not_mix():
    with PrivacyLedger(5.0) as ledger:
        ledger.charge("records", gaussian(0.1))
        with pytest.raises(ValueError, match="the same unit"):
            ledger.charge("silos", cost((Gaussian(50.0), 1), unit="silo"))


def test_relations_do_not_mix():
    """Nine fits of epsilon 0.5 under zeroing cost far more under replacement."""
    with PrivacyLedger(2.0) as ledger:
        model(0.5).fit(X, y)
        admitted = 1
        with pytest.raises(BudgetExceeded):
            for _ in range(9):
                model(0.5, neighbours="add_remove").fit(X, y)
                admitted += 1
    assert ledger.spent.neighbours == "replace"
    assert ledger.spent.epsilon <= 2.0
    assert admitted < 4


def test_replacement_is_refused_where_the_first_fit_was_under_zeroing():
    with PrivacyLedger(5.0) as ledger:
        ledger.charge("zeroing", cost((Gaussian(20.0), 1), neighbours="add_remove"))
        ledger.charge("zeroing", cost((Gaussian(20.0), 1), neighbours="add_remove"))
        with pytest.raises(ValueError, match="by its first fit"):
            ledger.charge("replacing", gaussian(0.1))
    assert ledger.spent.neighbours == "add_remove"


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_seed_that_repeats_is_said_once(n_jobs):
    with warnings.catch_warnings(record=True) as caught, PrivacyLedger() as ledger:
        warnings.simplefilter("always")
        cross_val_score(model(random_state=3), X, y, cv=4, n_jobs=n_jobs)
    assert len(ledger.entries) == 4
    texts = [str(w.message) for w in caught if issubclass(w.category, PrivacyLeakWarning)]
    assert len(texts) == 1 and "random_state=3" in texts[0]


@pytest.mark.slow
def test_worker_processes_started_before_the_ledger_are_seen():
    Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(4))  # loky keeps these workers
    template = model()
    with PrivacyLedger() as ledger:
        Parallel(n_jobs=2)(delayed(clone(template).fit)(X, y) for _ in range(3))
        assert len(ledger.entries) == 3


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_plain_search_shows_its_cost(n_jobs):
    pipe = make_pipeline(FunctionTransformer(), model())
    grid = {"isrldpclassifier__clip_norm": [0.5, 1.0]}
    with PrivacyLedger() as ledger:
        GridSearchCV(pipe, grid, cv=2, n_jobs=n_jobs).fit(X, y)
    assert len(ledger.entries) == 5  # four and the refit
    assert ledger.spent.epsilon > 2


def test_nested_ledgers_both_record_and_closed_ones_do_not():
    with PrivacyLedger() as outer:
        with PrivacyLedger() as inner:
            fitted = model().fit(X, y)
            copy = clone(fitted)  # it carries both
        fitted.fit(X, y)
    assert (len(inner.entries), len(outer.entries)) == (1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.fit(X, y)
        clone(fitted).fit(X, y)
        copy.fit(X, y)


@pytest.mark.slow
def test_a_killed_process_has_been_charged(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys, numpy as np
        from skdpfl import ISRLDPClassifier
        from skdpfl.privacy import PrivacyLedger
        import skdpfl.estimators._training as base
        base.run = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)  # dies as training starts
        X = np.random.default_rng(0).normal(size=(50, 2)); y = np.arange(50) % 2
        with PrivacyLedger(2.0, path=sys.argv[1]):
            ISRLDPClassifier(epsilon=1.0, n_rounds=2, scaling=None).fit(X, y)
        """
    )
    path = tmp_path / "budget.sqlite"
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with PrivacyLedger(2.0, path=path) as ledger:
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceeded):
            model(1.9).fit(X, y)


def test_bad_arguments():
    with pytest.raises(ValueError, match="epsilon must be None or a number > 0; got -1"):
        PrivacyLedger(-1)
    with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\); got 2"):
        PrivacyLedger(1, delta=2)
    with pytest.raises(ValueError, match="method must be"):
        PrivacyLedger(1, method="pld")
    with pytest.raises(ValueError, match="epsilon must be None or a number > 0; got 'x'"):
        PrivacyLedger("x")
    with pytest.raises(ValueError, match=r"delta must be a number in .*; got 'auto'"):
        PrivacyLedger(1.0, delta="auto")
    ledger = PrivacyLedger(1.0)
    assert ledger.spent is None
    assert repr(ledger) == "PrivacyLedger(epsilon=1, delta=1e-05; 0 fits, 0 is spent, 1 fits)"
    with ledger:
        pass
    assert ledger.spent is None
    with pytest.raises(ValueError, match="closed"), ledger:
        pass


def test_equal_seeds_are_reported():
    with PrivacyLedger():
        model(random_state=3).fit(X, y)
        model(random_state=4).fit(X, y)
        with pytest.warns(PrivacyLeakWarning, match="random_state=3.*same noise"):
            model(0.5, random_state=3).fit(X, y)
