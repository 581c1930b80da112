"""Odd arguments, layouts, surroundings: an error in words or the right model, never less cost."""

import inspect
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpfl import DPScaffoldClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.federation import LocalFederation
from skdpfl.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X, SILOS = RNG.normal(size=(60, 3)), np.arange(60) % 3
Y = (X[:, 0] > 0).astype(int)
SMALL = {"n_rounds": 2, "scaling": None, "delta": 1e-4}


def quietly(estimator, X=X, y=Y, silos=SILOS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y, silos=silos)


# ---- arguments -----------------------------------------------------------------------------------

ODD = [
    None, True, False, 0, 1, -1, 2, 10**30, -(10**30), 0.0, 1e-320, 0.5, 1.0, 1e308, np.inf,
    -np.inf, np.nan, "", "auto", "é", b"x", (), (1,), [], {}, {0: 1.0}, {0: np.nan, 1: 1, 2: 1},
    1j, np.float32(0.5), np.int8(3), np.array(0.5), np.array([0.5, 1]), Fraction(1, 3), object(),
    lambda: 1, float, pd.NA, pd.Series([1.0]), range(3), ("round", 0.1, 1),
]  # fmt: skip
PARAMETERS = {
    kind: sorted(set(kind().get_params()) - {"n_jobs", "verbose"})
    for kind in (ISRLDPClassifier, ISRLDPRegressor, DPScaffoldClassifier)
}


@settings(max_examples=60, derandomize=True)
@given(st.data())
def test_odd_arguments_are_refused_in_words_or_work(data):
    kind = data.draw(st.sampled_from(list(PARAMETERS)))
    name = data.draw(st.sampled_from(PARAMETERS[kind]))
    value = data.draw(st.sampled_from(ODD))
    try:
        fitted = quietly(kind(**SMALL | {name: value}))
    except (ValueError, TypeError) as error:
        assert len(str(error)) > 15, (name, value)
    else:
        assert fitted.privacy_spent_.epsilon >= 0


LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "backwards": lambda a: a[::-1][::-1],
    "every second": lambda a: np.repeat(a, 2, axis=0)[::2],
    "part of a table": lambda a: np.hstack([a, a])[:, :3],
    "frame": pd.DataFrame,
    "read only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "objects": lambda a: a.astype(object),
    "lists": lambda a: a.tolist(),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_change_no_bit(name, dtype):
    estimator = ISRLDPClassifier(2.0, **SMALL, random_state=0)
    given_, rows = X.astype(dtype), LAYOUTS[name](X.astype(dtype))
    if name in ("objects", "lists", "other byte order"):  # which are read as double precision
        given_ = given_.astype(float)
    np.testing.assert_array_equal(quietly(estimator, rows).coef_, quietly(estimator, given_).coef_)


# ---- surroundings --------------------------------------------------------------------------------


def test_two_threads_that_fit_one_object_both_pay():
    estimator, found = ISRLDPClassifier(2.0, **SMALL | {"n_rounds": 30}), []
    with PrivacyLedger(epsilon=50.0, delta=1e-2) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = threading.Barrier(2)

        def fit():
            start.wait()
            with ledger:
                found.append(estimator.fit(X, Y, silos=SILOS).coef_.copy())

        threads = [threading.Thread(target=fit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ledger.entries) == len(found) == 2


def test_a_forked_process_draws_noise_of_its_own():
    def coefficients():
        return quietly(ISRLDPClassifier(2.0, **SMALL)).coef_.tobytes()

    before, (read, write) = coefficients(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a forked process does not have
        child = os.fork()
    if child == 0:
        os.write(write, coefficients())
        os._exit(0)
    mine, theirs = coefficients(), os.read(read, 4096)
    assert os.waitpid(child, 0)[1] == 0
    assert len({before, mine, theirs}) == 3 and len(theirs) == len(mine)


def fitted_elsewhere(estimator, seeded, ledger):
    """What a spawned process finds: a seeded fit's model, and those of fits without a seed."""
    with ledger:
        fresh = [quietly(fit).coef_ for fit in (estimator, ISRLDPClassifier(2.0, **SMALL))]
        return quietly(seeded).coef_.tobytes(), [model.tobytes() for model in fresh]


@pytest.mark.slow
def test_spawned_processes_have_noise_of_their_own_and_pay_into_one_ledger(tmp_path):
    """A spawned worker has nothing but what was pickled, and the operating system's randomness."""
    seeded = ISRLDPClassifier(2.0, **SMALL, random_state=0)
    fitted = quietly(ISRLDPClassifier(2.0, **SMALL))
    same = pickle.loads(pickle.dumps(fitted))
    assert same.coef_.tobytes() == fitted.coef_.tobytes()
    assert tuple(same.privacy_spent_) == tuple(fitted.privacy_spent_)
    ledger = PrivacyLedger(50.0, delta=1e-2, path=tmp_path / "ledger")
    with pytest.warns(PrivacyLeakWarning, match="2 fits in this ledger had random_state=0"), ledger:
        mine = quietly(ISRLDPClassifier(2.0, **SMALL)).coef_.tobytes()
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            # a fitted object fits again, with noise that is not the parent's
            found = pool.starmap(fitted_elsewhere, [(fitted, seeded, ledger)] * 2, chunksize=1)
    assert len(ledger.entries) == 1 + 2 * 3
    assert {there for there, _ in found} == {quietly(seeded).coef_.tobytes()}
    noises = [mine, fitted.coef_.tobytes(), *(noise for _, fresh in found for noise in fresh)]
    assert len(set(noises)) == len(noises) == 6


# the moment may be one of a callback of the garbage collector, which drops the interrupt
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_has_paid_for_what_it_showed():
    estimator, rng = ISRLDPClassifier(2.0, **SMALL | {"n_rounds": 20}), np.random.default_rng(0)
    start = time.perf_counter()
    quietly(estimator)
    seconds = time.perf_counter() - start
    broken, old = 0, signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with PrivacyLedger(500.0, delta=1e-2) as ledger:
            for _ in range(12):
                paid, model, rounds = len(ledger.entries), estimator.coef_.tobytes(), []
                estimator._watch = rounds.append
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.1, 1.1) * seconds)
                    quietly(estimator)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    broken += 1
                showed = bool(rounds) or estimator.coef_.tobytes() != model
                assert len(ledger.entries) in ((paid + 1,) if showed else (paid, paid + 1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert broken and np.isfinite(quietly(estimator).decision_function(X)).all()


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, RecursionError, SystemExit])
def test_a_fit_that_breaks_off_is_paid_and_leaves_nothing(error, monkeypatch):
    estimator = quietly(ISRLDPClassifier(2.0, **SMALL, random_state=0))
    before = pickle.dumps(vars(estimator)["coef_"])

    def fail(*args):
        raise error

    monkeypatch.setattr(LocalFederation, "gradients", lambda _: fail)
    with PrivacyLedger(epsilon=50.0, delta=1e-2) as ledger, pytest.raises(error):
        quietly(estimator)
    assert len(ledger.entries) == 1 and pickle.dumps(estimator.coef_) == before


def test_a_fit_inside_a_fit_pays_too():
    """What looks at a fit's rounds may fit: the same object for ever, or another one."""
    estimator = ISRLDPClassifier(1.0, **SMALL, random_state=0)
    estimator._watch = lambda _: estimator.fit(X, Y, silos=SILOS)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 250)
    try:
        with pytest.raises(RecursionError), PrivacyLedger(epsilon=1e6, delta=0.5) as ledger:
            quietly(estimator)
    finally:
        sys.setrecursionlimit(limit)
    assert len(ledger.entries) > 3 and not hasattr(estimator, "coef_")
    estimator._watch = lambda _: quietly(ISRLDPClassifier(1.0, **SMALL, random_state=1))
    with PrivacyLedger(epsilon=50.0, delta=1e-2) as ledger:
        quietly(estimator)
    assert len(ledger.entries) == 1 + estimator.n_iter_
