"""What a fit may cost, in counts rather than seconds: products, copies, reads, streams, calls.

Seconds depend on the machine and on who else uses it. These numbers do not; where one of them
grows, a benchmark would (``benchmarks/speed.py``).
"""

import subprocess
import sys
import tracemalloc
from collections import Counter
from functools import lru_cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.estimators import _base, _training
from skdpfl.federation import LocalFederation, SiloData, _local
from skdpfl.models import Records, _clipping, _products
from skdpfl.models._products import CompiledProducts
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.words import SimulationWords

COMMON = {
    "epsilon": None,
    "noise_multiplier": 2.0,
    "clip_norm": 1.0,
    "learning_rate": 0.1,
    "scaling": None,
    "random_state": 0,
}


@lru_cache(maxsize=4)
def records(n, d, n_silos, dtype=np.float32, mixed=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=dtype)
    silos = np.arange(n) * n_silos // n
    return X, rng.integers(0, 11, n), rng.permutation(silos) if mixed else silos


@pytest.fixture
def counted(monkeypatch):
    """Count matrix products, gathers and draws of random words."""
    counts = Counter()

    def count(owner, name, label):
        original = getattr(owner, name)

        def counting(*args, **kw):
            counts[label] += 1
            return original(*args, **kw)

        monkeypatch.setattr(owner, name, counting)

    count(_products, "_product", "products")
    count(_products, "products_by_class", "products")
    count(CompiledProducts, "raw", "compiled")
    count(CompiledProducts, "sums", "compiled")
    count(CompiledProducts, "step", "in one pass")
    count(_clipping, "slope_limits", "limits")
    count(SiloData, "at", "gathers")
    count(Records, "gathered", "gathers")
    count(_training, "choose_within_budget", "choices")
    count(_training, "make_plan", "plans")
    count(PrivacyPlan, "spent", "costs")
    count(LocalFederation, "ask", "asked")
    count(SimulationWords, "words", "draws")
    count(SimulationWords, "words_of_rounds", "draws of many rounds")
    return counts


@pytest.fixture
def checked(monkeypatch):
    """The calls of scikit-learn's checks, which take most of a row's time."""
    calls, original = [], _base.validate_data

    def watched(*args, **options):
        calls.append(1)
        return original(*args, **options)

    monkeypatch.setattr(_base, "validate_data", watched)
    return calls


# ---- small silos: one call, its random numbers drawn ahead --------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_a_round_of_small_silos_is_two_products(products, counted, rate):
    X, y, silos = records(1070, 8, 5, np.float64)
    ISRLDPRegressor(n_rounds=30, sampling_rate=rate, **COMMON).fit(X, y, silos=silos)
    if products == "compiled":
        assert (counted["in one pass"], counted["compiled"], counted["products"]) == (30, 0, 0)
    else:
        assert counted["products"] <= 30 * (1 + 5)
    assert counted["limits"] == 1  # of all records, once for all rounds
    assert counted["gathers"] <= 1 + 30 * (products == "numpy")  # the norms
    assert counted["draws of many rounds"] <= 4
    assert counted["draws"] <= 30  # second draws of normals, in some rounds


@pytest.mark.parametrize(("bounds", "most"), [(None, 4), ((-4, 4), 5)])
def test_a_fit_is_checked_planned_and_priced_once(counted, checked, bounds, most):
    """And asks the records at most ``most`` times before its rounds."""
    X, y, silos = records(2000, 20, 10, np.float64)
    model = ISRLDPClassifier(3.0, feature_bounds=bounds, random_state=0)
    model.fit(pd.DataFrame(X), y > 5, silos=silos)
    assert (len(checked), counted["choices"], counted["plans"], counted["costs"]) == (1, 1, 1, 1)
    assert counted["asked"] <= most
    checked.clear()
    model.fit(X, y > 5, silos=silos)
    assert not checked


# ---- memory: X is not copied --------------------------------------------------------------------


def peak_of(function):
    with pytest.MonkeyPatch.context() as patch:
        # 32 MiB of which no page is used
        patch.setattr(_local, "keep_freed_memory", lambda: None)
        tracemalloc.start()
        try:
            function()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_predictions_do_not_copy_the_records():
    """16 MB by blocks: the results twice, and a block."""
    X, y, _ = records(100_000, 40, 1)
    fitted = ISRLDPClassifier(model="linear", feature_bounds=(-3, 3), random_state=0)
    fitted.fit(X[:2000], y[:2000] > 5)
    found = []
    peak = peak_of(lambda: found.append(fitted.decision_function(X)))
    assert peak < 2 * found[0].nbytes + 2**22
    some = [fitted.decision_function(X[i : i + 9000]) for i in range(0, len(X), 9000)]
    np.testing.assert_array_equal(found[0], np.concatenate(some))


@pytest.mark.parametrize("model", ["linear", "additive"])
def test_few_numbers_are_checked_in_one_pass_and_predicted_alike(model, checked):
    """Others are refused as scikit-learn does."""
    X, y, _ = records(3000, 3, 1, np.float64)
    fitted = ISRLDPClassifier(8.0, model=model, feature_bounds=(-3, 3), random_state=0)
    fitted.fit(pd.DataFrame(X, columns=list("abc")), y > 5)
    with pytest.warns(UserWarning, match="feature names"):
        fitted.predict(X[:1])
    fitted.fit(X, y > 5)
    checked.clear()
    for rows in (X[:1], X[:40, ::-1], X.T[:3, :3].T):
        found = fitted.predict_proba(rows), fitted.predict(rows)
        assert not checked
        for own, asked in zip(found, (fitted.predict_proba, fitted.predict), strict=True):
            np.testing.assert_array_equal(own, asked(rows.tolist()))  # lists are checked by it
        checked.clear()
    for bad, words in [
        (np.full((1, 3), np.nan), "NaN"),
        (np.full((1, 3), -np.inf), "infinity"),
        (X[:1, :2], "2 features"),
        (X[:0], "0 sample"),
        (X[0], "1D array"),
        (X[None], "dim 3"),
        (X[:1].astype(complex), "Complex"),
    ]:
        with pytest.raises(ValueError, match=words):
            fitted.predict(bad)


def test_few_numbers_are_checked_in_one_pass_and_fitted_alike(checked):
    """Names of an earlier fit go; others are refused as scikit-learn does."""
    X, y, _ = records(300, 3, 1, np.float64)
    model = ISRLDPRegressor(8.0, feature_bounds=(-3, 3), target_bounds=(0, 10), random_state=0)
    named = model.fit(pd.DataFrame(X, columns=list("abc")), y).coef_
    assert checked and list(model.feature_names_in_) == list("abc")
    checked.clear()
    for targets in (y, y.astype(float)):
        np.testing.assert_array_equal(model.fit(X, targets).coef_, named)
    assert not checked
    assert model.n_features_in_ == 3 and not hasattr(model, "feature_names_in_")
    for rows, targets, words in [
        (np.full((300, 3), np.inf), y, "infinity"),
        (X, np.full(300, np.nan), "NaN"),
        (X[:200], y, "inconsistent numbers"),
        (X[:1], y[:1], "minimum of 2"),
        (X[:, :0], y, "0 feature"),
        (X, X, "1d array"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.fit(rows, targets)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_predictions_do_not_encode_a_whole_frame(kind):
    """Of 68 columns 22 MB for all rows; a block has at most 2^13 rows, 4.5 MB."""
    n, codes = 40_000, np.random.default_rng(0).integers(0, 20, (3, 40_000)).astype(str)
    frame = pd.DataFrame(dict(zip("abc", codes, strict=True))).assign(age=np.arange(n) / n)
    known = {"age": (0, 1)} | {name: [str(k) for k in range(20)] for name in "abc"}
    fitted = ISRLDPClassifier(model="linear", feature_bounds=known, random_state=0)
    fitted.fit(frame[:3000], np.arange(3000) % 2)
    given = pl.from_pandas(frame) if kind == "polars" else frame
    found = []
    peak = peak_of(lambda: found.append(fitted.decision_function(given)))
    assert peak < 1.5e7
    some = [fitted.decision_function(given[i : i + 900]) for i in range(0, n, 900)]
    np.testing.assert_array_equal(found[0], np.concatenate(some))
    assert len(found[0]) == n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mixed", [False, True])
def test_curves_take_the_data_once_more_and_a_byte_for_each_number(dtype, mixed):
    """The six columns that each number has are not made for all rows; 12 MB are for the rest.

    NumPy in place of C expands blocks of 8,192 rows, some 4 arrays of 6 MB.
    """
    X, y, silos = records(100_000, 20, 10, dtype, mixed)
    options = {"feature_bounds": (-4, 4), "trust": "server", "random_state": 0, "n_rounds": 3}
    model = ISRLDPClassifier(8.0, model="additive", **options)
    peak = peak_of(lambda: model.fit(X, y > 5, silos=silos))
    assert model.coef_.shape == (1, 120)
    assert peak < X.nbytes + X.size + (1.2e7 if _products.compiled else 2.4e7)


@pytest.mark.parametrize("model", ["linear", "additive"])
def test_levels_take_a_byte_for_each_column_and_no_column_of_0_and_1(model):
    """Which would be 52 MB; a byte for each column, the number twice, 2; 17 are for the rest."""
    n, rng = 100_000, np.random.default_rng(0)
    names = [f"level {k}" for k in range(20)]
    columns = {f"c{j}": pd.Categorical.from_codes(rng.integers(0, 20, n), names) for j in range(3)}
    frame = pd.DataFrame(columns | {"x": rng.random(n)})
    options = {"feature_bounds": {"x": (0, 1)} | dict.fromkeys(columns, names), "n_rounds": 3}
    model = ISRLDPClassifier(8.0, model=model, trust="server", random_state=0, **options)
    peak = peak_of(lambda: model.fit(frame, frame.x > 0.4, silos=np.arange(n) // 10_000))
    assert model.coef_.shape[1] >= 65
    assert peak < n * (4 + 16) + 1.7e7


LIMITED = """
import resource, sys, warnings
import numpy as np
from skdpfl import ISRLDPClassifier
warnings.simplefilter("ignore")
X = np.memmap(sys.argv[1], np.float32, "r", shape=(4_000_000, 20))
y = np.arange(len(X)) % 2 == 0
model = ISRLDPClassifier(3.0, model=sys.argv[2], feature_bounds=(-4, 4), trust="server")
model.set_params(n_rounds=10, random_state=0).fit(X[:3000], y[:3000])
model.predict(X[:3000])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
limit = 1024 * int(status["VmData"].split()[0]) + X.nbytes // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
assert model.fit(X, y).predict(X).shape == y.shape
print(len(model.coef_[0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits count mapped files elsewhere")
@pytest.mark.parametrize(("model", "width"), [("linear", 20), ("additive", 120)])
def test_a_file_of_twice_the_memory_limit_is_fitted(model, width, tmp_path):
    """320 MB on disk; a process that may allocate half of that fits it, and predicts its rows."""
    with (tmp_path / "X").open("wb") as file:
        for _ in range(40):
            records(100_000, 20, 1)[0].tofile(file)
    command = [sys.executable, "-c", LIMITED, tmp_path / "X", model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(width)], done.stderr
