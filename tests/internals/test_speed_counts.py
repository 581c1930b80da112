"""What a fit may cost, in counts rather than seconds: products, copies, reads, streams, calls.

Seconds depend on the machine and on who else uses it. These numbers do not; where one of them
grows, a benchmark would (``benchmarks/speed.py``).
"""

import importlib
import mmap
import os
import pkgutil
import subprocess
import sys
import tracemalloc
from collections import Counter
from functools import lru_cache
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpfl import (
    DPFedAvgClassifier,
    DPFedAvgRegressor,
    DPScaffoldClassifier,
    ISRLDPClassifier,
    ISRLDPRegressor,
)
from skdpfl.federation import LocalFederation, SiloData, _batches, _data, _local
from skdpfl.models import Records, _clipping, _products
from skdpfl.models._products import CompiledProducts
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
    count(SimulationWords, "words", "draws")
    count(SimulationWords, "words_of_rounds", "draws of many rounds")
    return counts


# ---- large silos: few products, none of them over all records -----------------------------------


@pytest.mark.parametrize(("rate", "chunks"), [(0.25, 1), (0.5, 2)])
@pytest.mark.parametrize("together", [True, False])
def test_a_local_step_is_one_product_forward_and_one_per_chunk_back(
    products, monkeypatch, counted, rate, chunks, together
):
    """Of a group of silos that have equally many records; or of a silo alone."""
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
    X, y, silos = records(2800, 130, 4)  # 1,441 parameters and batches of 175 or 350: no stacks
    model = DPScaffoldClassifier(
        n_rounds=2, local_steps=5, sampling_rate=rate, sampling="without_replacement", **COMMON
    )
    model.fit(X, y, silos=silos)
    steps = 2 * 4 * 5
    calls = steps // 4 if together else steps
    if products == "compiled":
        assert (counted["compiled"], counted["products"]) == (2 * calls, 0)
        assert counted["gathers"] == 1  # for the norms of all records
    else:
        assert counted["products"] == calls * (1 + chunks)
        assert counted["gathers"] == calls + 1
    # a batch, its state, the noise, its state, second draws
    assert counted["draws"] <= 3 * steps


def test_single_precision_is_where_products_are_computed(products, monkeypatch):
    X, y, silos = records(2800, 130, 4)
    seen = set()
    matmul, raw, by_class = np.matmul, CompiledProducts.raw, _products.products_by_class

    def seeing_matmul(a, b, **kw):
        seen.add((a.dtype, b.dtype))
        return matmul(a, b, **kw)

    def seeing_by_class(X, edges, weights, out):
        seen.add((X.dtype, weights.dtype))
        return by_class(X, edges, weights, out)

    def seeing_raw(self, params, n_columns):
        seen.add((self._table.dtype, params.dtype))
        return raw(self, params, n_columns)

    monkeypatch.setattr(np, "matmul", seeing_matmul)
    monkeypatch.setattr(_products, "products_by_class", seeing_by_class)
    monkeypatch.setattr(CompiledProducts, "raw", seeing_raw)
    DPScaffoldClassifier(n_rounds=1, local_steps=2, sampling_rate=0.25, **COMMON).fit(
        X, y, silos=silos
    )
    assert seen == {(np.dtype(np.float32), np.dtype(np.float32))}


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


def test_silos_of_unlike_sizes_draw_ahead_as_those_of_like_sizes_do(counted):
    sizes = [3, 6, 12, 24, 48, 96, 190, 380]
    silos = np.repeat(np.arange(8), sizes)
    X = np.random.default_rng(0).normal(size=(len(silos), 5))
    model = ISRLDPClassifier(n_rounds=200, sampling_rate=0.3, **COMMON)
    model.fit(X, X[:, 0] > 0, silos=silos)
    # a block of each stack's batches and noise serves many rounds
    assert counted["draws of many rounds"] <= 8 * 2 * 4


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_silos_of_any_sizes_are_two_products(products, counted, rate):
    """Which are kept from round to round with all that their clipping needs, as equal silos are."""
    silos = np.repeat(np.arange(6), [500, 700, 1000, 1100, 1400, 1500])
    X = np.random.default_rng(0).normal(size=(len(silos), 8))
    model = ISRLDPClassifier(n_rounds=30, sampling_rate=rate, **COMMON | {"noise_multiplier": 4})
    model.fit(X, X[:, 0] > 0, silos=silos)
    if products == "compiled":
        assert (counted["in one pass"], counted["compiled"], counted["products"]) == (30, 0, 0)
        assert (counted["limits"], counted["gathers"]) == (1, 1)


def test_blocks_drawn_ahead_do_not_pile_up():
    """Cohorts that change bring new stacks: only the last ones' numbers are kept."""
    from skdpfl.federation._gradient import GROUPS, Ahead

    made = []

    def make(silos, steps):
        made.append((silos[0], steps))
        return 1000.0 * silos[None, :] + np.arange(steps.start, steps.stop)[:, None]

    ahead, stacks = Ahead(make, 1), [np.array([i]) for i in range(GROUPS + 5)]
    for step in range(3):
        for silos in stacks[:GROUPS]:
            assert ahead.get(silos, step, 3) == 1000 * silos[0] + step
    assert len(made) == GROUPS
    for silos in stacks:
        ahead.get(silos, 0, 3)
    assert (len(made), len(ahead._blocks)) == (GROUPS + 5, GROUPS)
    assert ahead.get(stacks[0].copy(), 2, 3) == 2  # another array: another stack


def test_a_cohort_of_small_silos_is_two_products_a_local_step(products, counted):
    X, y, silos = records(6000, 10, 300, mixed=True)
    DPFedAvgClassifier(
        unit="silo",
        trust="server",
        cohort="poisson",
        silo_fraction=0.1,
        sampling_rate=1.0,
        n_rounds=12,
        local_steps=5,
        **COMMON,
    ).fit(X, y, silos=silos)
    if products == "compiled":
        assert (counted["compiled"], counted["products"]) == (2 * 5 * 12, 0)
        assert counted["gathers"] == 12 + 1
    else:
        assert counted["products"] <= 5 * 12 * (1 + 50)


def calls_of(function):
    """Count the calls of Python functions and built-in ones."""
    count = 0

    def profiler(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profiler)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def per_round(fit, few, many):
    fit(few)
    return (calls_of(lambda: fit(many)) - calls_of(lambda: fit(few))) / (many - few)


def test_a_round_of_small_silos_takes_few_calls():
    X, y, silos = records(1070, 8, 5, np.float64)

    def fit(n_rounds):
        ISRLDPRegressor(n_rounds=n_rounds, sampling_rate=0.17, **COMMON).fit(X, y, silos=silos)

    assert per_round(fit, 10, 60) < 240


def test_a_local_step_of_a_large_silo_takes_few_calls():
    X, y, silos = records(2800, 130, 4)

    def fit(n_rounds):
        model = DPScaffoldClassifier(n_rounds=n_rounds, local_steps=10, sampling_rate=0.25)
        model.set_params(**COMMON).fit(X, y, silos=silos)

    assert per_round(fit, 1, 4) < 4 * 10 * 150


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


MODELS = {
    "batches": lambda: ISRLDPClassifier(n_rounds=2, sampling_rate=0.02, **COMMON),
    "everybody": lambda: ISRLDPClassifier(n_rounds=4, sampling_rate=1.0, **COMMON),
    "local steps": lambda: DPScaffoldClassifier(
        n_rounds=1, local_steps=2, sampling_rate=0.05, **COMMON
    ),
    "scales found": lambda: ISRLDPClassifier(
        n_rounds=2, sampling_rate=0.02, **COMMON | {"scaling": "private", "noise_multiplier": 0.6}
    ),
}


ORDERS = "sorted", "mixed", "on disk"
#: what the others add is each other's: slow
HERE = {("batches", "mixed"), ("everybody", "sorted"), ("local steps", "on disk")}
HERE |= {("scales found", "sorted")}


@pytest.mark.parametrize(
    ("model", "order"),
    [
        pytest.param(*pair, marks=[] if pair in HERE else pytest.mark.slow)
        for pair in product(MODELS, ORDERS)
    ],
)
def test_large_data_are_not_copied(model, order, tmp_path, monkeypatch):
    """80 MB in 5 silos, large from 64 MB on: a quarter of X at most, y and ids included."""
    monkeypatch.setattr(_batches, "PART", 2**18)
    for module in (_data, _local):
        monkeypatch.setattr(module, "LARGE", 2**26)
    X, y, silos = records(100_000, 200, 5, mixed=order == "mixed")
    y = (y > 5).astype(np.int8)
    if order == "on disk":
        X.tofile(tmp_path / "X")
        X = np.memmap(tmp_path / "X", np.float32, "r", shape=X.shape)
    fit = MODELS[model]
    fit().fit(X[:1000], y[:1000], silos=np.arange(1000) % 5)  # imports and tables
    assert peak_of(lambda: fit().fit(X, y, silos=silos)) < 0.25 * X.nbytes


#: bytes that batches may take, however large the data
WORK = 2**22
MIXED = {
    # silos, dtype of X, y and ids, model
    "large silos": (4, np.float32, np.int8, int, "everybody"),
    "large silos, double": (4, np.float64, np.int8, int, "everybody"),
    "stacks": (400, np.float32, np.int8, int, "everybody"),
    "stacks, double": (400, np.float64, np.int64, int, "everybody"),
    "small silos": (10_000, np.float32, np.int8, int, "everybody"),
    "text": (400, np.float32, np.int8, "U6", "everybody"),
    "many classes": (40, np.float32, np.int8, int, "classes"),
    "numbers": (40, np.float64, np.float64, int, "regression"),
    "whole silos": (400, np.float32, np.int8, int, "whole"),
    "scaled": (400, np.float32, np.int8, int, "scaled"),
}


def mixed_model(name):
    if name == "regression":
        return DPFedAvgRegressor(n_rounds=4, local_steps=1, sampling_rate=1.0, **COMMON)
    options = dict(n_rounds=4, local_steps=1, sampling_rate=1.0) | COMMON
    if name == "whole":
        options |= {"unit": "silo", "trust": "server", "cohort": "poisson"}
        options |= {"silo_fraction": 0.25, "n_rounds": 20}
    if name == "scaled":
        options |= {"scaling": "private", "noise_multiplier": 0.6}
    return DPFedAvgClassifier(**options)


@pytest.mark.parametrize("case", MIXED)
def test_mixed_rows_take_at_most_the_data_once_more(case):
    """A copy in the silos' order, of 32 or 64 MB here, and what batches take on their way."""
    n_silos, dtype, y_dtype, id_dtype, name = MIXED[case]
    rng = np.random.default_rng(0)
    X = records(400_000, 20, 400, mixed=True)[0].astype(dtype)
    y = rng.integers(0, 4 if name == "classes" else 2, len(X)).astype(y_dtype)
    silos = (rng.permutation(len(X)) % n_silos).astype(id_dtype)
    mixed_model(name).fit(X[:1000], y[:1000], silos=np.arange(1000) % 5)  # imports and tables
    peak = peak_of(lambda: mixed_model(name).fit(X, y, silos=silos))
    assert peak <= X.nbytes + y.nbytes + silos.nbytes + WORK


def test_a_batch_is_gathered_once(monkeypatch):
    """A second copy of a batch would show: a batch is most of what this fit allocates."""
    monkeypatch.setattr(_batches, "GROUP", 1)  # one silo at a time
    X, y, silos = records(3200, 4000, 4)
    batch = 4 * 200 * 4000

    def fit():
        DPScaffoldClassifier(
            n_rounds=1, local_steps=2, sampling_rate=0.25, sampling="without_replacement", **COMMON
        ).fit(X, y > 5, silos=silos)

    fit()
    assert peak_of(fit) < 1.6 * batch


def test_many_silos_take_little_memory():
    X, y, silos = records(100_000, 20, 10_000, mixed=True)

    def fit():
        DPFedAvgClassifier(n_rounds=2, local_steps=1, sampling_rate=1.0, **COMMON).fit(
            X, y > 5, silos=silos
        )

    fit()
    assert peak_of(fit) < 4 * X.nbytes


# ---- layouts: a round touches its batch, whatever the table lies like ----------------------------

LAYOUTS = {
    "rows": lambda X, path: X,
    "columns": lambda X, path: np.asfortranarray(X),
    "some columns": lambda X, path: np.hstack([X[:, :1], X])[:, 1:],
    "columns reversed": lambda X, path: X[:, ::-1],
    "rows reversed": lambda X, path: X[::-1],
    "every other row": lambda X, path: np.repeat(X, 2, axis=0)[::2],
    "frame": lambda X, path: pd.DataFrame({f"c{i}": X[:, i] for i in range(X.shape[1])}),
    "frame of a table": lambda X, path: pd.DataFrame(X, columns=[f"c{i}" for i in range(20)]),
    "columns on disk": lambda X, path: on_disk(X, path, "F"),
    "rows on disk": lambda X, path: on_disk(X, path, "C"),
}


def on_disk(X, path, order):
    X.ravel(order).tofile(path / "X")
    return np.memmap(path / "X", X.dtype, "r", shape=X.shape, order=order)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_round_touches_no_more_than_its_batch(monkeypatch, tmp_path, layout):
    """Of 16 MB a round reads 0.3. Gathering by np.take copied all of a table of columns."""
    X, y, silos = records(200_000, 20, 2000, mixed=True)
    table, given, most = LAYOUTS[layout](X, tmp_path), [], []
    at, round_ = SiloData.at, LocalFederation.round

    def counting_at(self, rows, dtype=None):
        found = at(self, rows, dtype)
        given.append(found[0].nbytes)
        return found

    def watched(self, *args):
        given.clear()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        yield from round_(self, *args)
        most.append((tracemalloc.get_traced_memory()[1] - before, sum(given)))

    monkeypatch.setattr(SiloData, "at", counting_at)
    monkeypatch.setattr(LocalFederation, "round", watched)
    model = DPFedAvgClassifier(
        unit="silo", trust="server", silo_fraction=0.02, n_rounds=5, local_steps=2, **COMMON
    )
    peak_of(lambda: model.fit(table, y > 5, silos=silos))
    assert len(most) == 5
    assert max(read for _, read in most) <= 0.04 * X.nbytes
    assert max(peak for peak, _ in most) <= 0.2 * X.nbytes


def referenced(table):
    """The bytes of the pages of a mapped table that were read or written since `forget`."""
    address, found = table.__array_interface__["data"][0], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(maxsplit=1)[0]:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            found = first <= address < last
        elif found and line.startswith("Referenced:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("no such mapping")


def forget():
    """Forget what was read; Linux keeps it for each page of 4 KB."""
    Path("/proc/self/clear_refs").write_text("1")


MAPPED = {
    "rows": lambda X: X,
    "some columns": lambda X: X[:, 1:],
    "rows reversed": lambda X: X[::-1],
}


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
@pytest.mark.parametrize("protected", ["silo", "record"])
@pytest.mark.parametrize("layout", MAPPED)
def test_a_round_reads_no_page_but_its_batch(monkeypatch, layout, protected):
    """Not only copies count: a record is a page here, of 16 MB, or ends on the next one."""
    for module in (_data, _local):
        monkeypatch.setattr(module, "LARGE", 2**20)  # no copy at the start
    n, d = 4000, 1024
    space = mmap.mmap(-1, 4 * n * d)
    X = np.frombuffer(space, np.float32).reshape(n, d)
    X[:] = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    y, m = X[:, 0] > 0, 200 if protected == "silo" else 4
    silos = np.random.default_rng(1).permutation(n) % m
    read, round_ = [], LocalFederation.round

    def watched(self, *args):
        forget()
        yield from round_(self, *args)
        read.append(referenced(X))

    monkeypatch.setattr(LocalFederation, "round", watched)
    if protected == "silo":
        share = {"unit": "silo", "trust": "server", "silo_fraction": 0.02, "cohort": "uniform"}
        model = DPFedAvgClassifier(**share, n_rounds=5, local_steps=2, **COMMON)
    else:
        model = ISRLDPClassifier(
            n_rounds=5, sampling="without_replacement", sampling_rate=0.02, **COMMON
        )
    model.fit(MAPPED[layout](X), y, silos=silos)
    assert len(read) == 5
    pages = 2 if layout == "some columns" else 1
    assert min(read) > 0
    assert max(read) <= pages * 0.02 * X.nbytes * 1.1


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "disk" not in name])
def test_any_layout_takes_at_most_the_data_once_more(tmp_path, layout):
    X, y, silos = records(400_000, 20, 400, mixed=True)
    table, y = LAYOUTS[layout](X, tmp_path), (y > 5).astype(np.int8)
    mixed_model("everybody").fit(X[:1000], y[:1000], silos=np.arange(1000) % 5)
    peak = peak_of(lambda: mixed_model("everybody").fit(table, y, silos=silos))
    assert peak <= X.nbytes + y.nbytes + silos.nbytes + WORK


@pytest.mark.parametrize("layout", ["columns", "some columns", "rows reversed", "columns on disk"])
def test_models_do_not_depend_on_the_layout(tmp_path, layout):
    X, y, silos = records(3000, 20, 30, mixed=True)
    same = LAYOUTS[layout](X[::-1] if layout == "rows reversed" else X, tmp_path)
    for model in ("everybody", "whole", "scaled", "classes"):
        fits = [mixed_model(model).fit(table, y > 5, silos=silos) for table in (X, same)]
        assert np.array_equal(fits[0].coef_, fits[1].coef_)


# ---- the benchmark itself runs ------------------------------------------------------------------


def test_the_benchmarks_parts_are_those_of_the_code(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    where = importlib.import_module("speed_parts.where")
    for target in chain.from_iterable(where.PARTS.values()):
        assert callable(pkgutil.resolve_name(target))


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path):
    pytest.importorskip("sklearn.callback", reason="rounds are timed by callbacks")
    script = Path(__file__).parents[2] / "benchmarks" / "speed.py"
    picture = tmp_path / "growth.png"
    command = [sys.executable, script, "--quick", "--picture", picture]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    workloads, more = ("W1, a round", "W2, a fit", "W3, a fit"), ("rounds", "whole silos")
    for word in (*workloads, "matrix products", *more, "GB on disk"):
        assert word in done.stdout
    assert picture.stat().st_size > 10_000
