"""The main job: honest private baselines over silos, as a table and a picture.

For each data set three private methods are cross-validated at three epsilons beside the same model
without privacy and a constant prediction. Every fold keeps every silo; nothing is tuned, scaled or
encoded beforehand: the estimators get raw numbers, or a frame with text and gaps, and what is
public of the columns. Run it by ``make demo``.

All three spend their budget on a hundred private gradients of each silo. ISRL-DP averages after
every one of them; the other two talk five times in all, after twenty local steps each. By default
silos then take short steps and the server a long one. That leaves SCAFFOLD little to correct, so
the two are close. In the synthetic silos the server takes the plain mean of the silos' models, as
the papers have it: there SCAFFOLD's corrections show.
"""

import argparse
import itertools
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

import skdpfl
from skdpfl.datasets import (
    fetch_heart_disease,
    fetch_insurance,
    fetch_obesity,
    make_federated_classification,
    split_into_silos,
)
from skdpfl.model_selection import SiloStratifiedKFold

EPSILONS = (1.0, 3.0, 9.0)
METHODS = ("ISRL-DP", "DP-FedAvg", "DP-SCAFFOLD")
PREFIX = {"ISRL-DP": "ISRLDP", "DP-FedAvg": "DPFedAvg", "DP-SCAFFOLD": "DPScaffold"}
FIVE_ROUNDS = {"local_steps": 20, "n_rounds": 5}
STEPS = {"ISRL-DP": {}, "DP-FedAvg": FIVE_ROUNDS, "DP-SCAFFOLD": FIVE_ROUNDS}
TALK = {
    "ISRL-DP": "40 or 100 rounds × 1 step",
    "DP-FedAvg": "5 rounds × 20 steps",
    "DP-SCAFFOLD": "5 rounds × 20 steps",
}
#: the set whose silos' models the server averages as they are
PLAIN_MEANS = "synthetic, 10 unlike silos, plain means"
#: what a data sheet says of the ten measures of breast cancer (radius, texture, ...): the largest
#: mean of a patient's cells, the largest error of that mean, the largest value of a cell
MEASURES = [
    *(50, 50, 200, 5000, 0.2, 0.5, 0.5, 0.5, 0.5, 0.1),
    *(5, 5, 50, 1000, 0.05, 0.2, 0.5, 0.1, 0.1, 0.05),
    *(50, 50, 500, 5000, 0.5, 2, 2, 0.5, 1, 0.5),
]
#: what is drawn beside them, and its lines
BESIDE = {"not private": "--", "constant prediction": ":"}
COLOURS = {"ISRL-DP": "#0072B2", "DP-FedAvg": "#E69F00", "DP-SCAFFOLD": "#009E73"}
MARKERS = {"ISRL-DP": "o", "DP-FedAvg": "s", "DP-SCAFFOLD": "^"}


def builtin_sets():
    """Yield (name, X, y, silos, bounds, target_bounds) of data that ship with scikit-learn."""
    X, y = load_breast_cancer(return_X_y=True)
    bounds = (0, MEASURES)
    yield "breast cancer, 5 silos by label", X, y, split_into_silos(y, 5, "sorted"), bounds, None
    X, y = load_digits(return_X_y=True)
    yield "digits, 5 silos by label", X, y, split_into_silos(y, 5, "sorted"), (0, 16), None
    data = make_federated_classification(
        10, 300, n_features=20, n_classes=4, alpha=1, beta=1, random_state=0
    )
    bounds = (-10, 10)  # wide enough for any silo of this generator
    yield PLAIN_MEANS, data.data, data.target, data.silos, bounds, None
    yield visits()


def visits(n=3000):
    """Return a frame of made-up visits with text and gaps; the pulse is not declared."""
    rng = np.random.default_rng(0)
    public = {
        "age": (18, 100),
        "ward": ["heart", "lung", "other", "skin"],
        "arrived": ["alone", "ambulance"],
    }
    columns = {
        "age": rng.uniform(18, 90, n),
        "ward": rng.choice(public["ward"], n),
        "arrived": rng.choice(public["arrived"], n, p=[0.8, 0.2]),
        "pulse": rng.normal(80, 12, n),
    }
    frame = pd.DataFrame(columns)
    risk = frame["age"] / 20 + 2 * (frame["ward"] == "heart") + 2 * (frame["arrived"] != "alone")
    ill = (risk + rng.logistic(0, 0.7, n) > 4).to_numpy().astype(int)
    for name, step in {"age": 8, "ward": 9, "pulse": 3}.items():
        frame.loc[::step, name] = None
    return "visits, 5 hospitals, raw frame", frame, ill, rng.integers(0, 5, n), public, None


def fetched_sets():
    """Yield the sets that are read from $SKDPFL_DATA or the cache, or say how to get them."""
    sources = [
        ("heart disease, 4 hospitals", fetch_heart_disease),
        ("insurance, 5 silos by charges", fetch_insurance),
        ("obesity, 7 silos by label", fetch_obesity),
    ]
    for name, fetch in sources:
        try:
            data = fetch(download_if_missing=False)
        except OSError:
            print(f"({name}: not on this machine; skdpfl.datasets.{fetch.__name__}() fetches it)")
            continue
        targets = data.get("target_bounds")  # classes have none
        yield name, data.data, data.target, data.silos, data.feature_bounds, targets


def score(method, epsilon, data, fold, seed):
    """Return the test score and the epsilon spent by one method on one fold."""
    name, X, y, silos, bounds, target_bounds = data
    train, test = fold
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    is_classifier = target_bounds is None
    if method in BESIDE:
        model = (plain if method == "not private" else constant)(X, is_classifier)
        return model.fit(X_train, y[train]).score(X_test, y[test]), np.inf
    kind = "Classifier" if is_classifier else "Regressor"
    params = {} if is_classifier else {"target_bounds": target_bounds}
    if name == PLAIN_MEANS and method != "ISRL-DP":
        params["global_learning_rate"] = 1.0
    model = getattr(skdpfl, PREFIX[method] + kind)(
        epsilon=epsilon, feature_bounds=bounds, random_state=seed, **params, **STEPS[method]
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The noise will drown")  # the table shows how much
        model.fit(X_train, y[train], silos=silos[train])
    return model.score(X_test, y[test]), model.privacy_spent_.epsilon


def plain(X, is_classifier):
    """Return the same model without privacy, with what a frame needs before it."""
    last = LogisticRegression(max_iter=1000) if is_classifier else LinearRegression()
    if not hasattr(X, "columns"):
        return make_pipeline(StandardScaler(), last)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    encoded = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(encoded, last)


def constant(X, is_classifier):
    """Return the constant prediction: the most frequent label, or the mean."""
    return DummyClassifier() if is_classifier else DummyRegressor()


def evaluate(data, n_splits):
    """Return {(method, epsilon): (mean score, standard deviation, epsilon spent)}."""
    X, silos = data[1], data[3]
    cv = SiloStratifiedKFold(n_splits, shuffle=True, random_state=0)
    folds = list(cv.split(X, groups=silos))
    jobs = [(m, e) for m in METHODS for e in EPSILONS] + [(m, np.inf) for m in BESIDE]
    runs = Parallel(n_jobs=2)(
        delayed(score)(m, e, data, fold, seed) for m, e in jobs for seed, fold in enumerate(folds)
    )
    runs = np.asarray(runs).reshape(len(jobs), len(folds), 2)
    return {
        job: (run[:, 0].mean(), run[:, 0].std(), run[:, 1].max())
        for job, run in zip(jobs, runs, strict=True)
    }


def print_table(name, results):
    """Print one data set's table."""
    beside = ", ".join(f"{method}: {results[method, np.inf][0]:.3f}" for method in BESIDE)
    print(f"\n{name}    ({beside})")
    print(f"  {'':12s} {'':25s}" + "".join(f"   ε = {e:<9g}" for e in EPSILONS))
    for method in METHODS:
        cells = [f"{results[method, e][0]:.3f} ± {results[method, e][1]:.3f}" for e in EPSILONS]
        print(f"  {method:12s} {TALK[method]:25s}" + "".join(f"   {c:13s}" for c in cells))
    spent = max(results[m, e][2] / e for m in METHODS for e in EPSILONS)
    for one, other in itertools.combinations(METHODS, 2):
        if all(np.allclose(results[one, e], results[other, e], atol=5e-4) for e in EPSILONS):
            print(f"  {one} and {other} have identical numbers, to three digits")
    print(f"  spent at most {spent:.4f} of each budget (privacy_spent_ of every fit)")


def save_picture(tables, path):
    """Save score over epsilon, a panel per data set."""
    import matplotlib.pyplot as plt

    columns = min(3, len(tables))
    rows = -(-len(tables) // columns)
    size = (3.6 * columns, 3.0 * rows + 0.6)
    fig, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for ax in axes.flat[len(tables) :]:
        ax.set_axis_off()
    for ax, (name, results) in zip(axes.flat, tables.items(), strict=False):
        draw_panel(ax, name, results)
    axes[0, 0].set_ylabel("accuracy, ± std over folds")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, frameon=False, loc="outside lower center", ncols=2)
    fig.suptitle("Every record is protected against the server and the other silos")
    fig.savefig(path, dpi=110)


def draw_panel(ax, name, results):
    """Draw one data set."""
    for method, aside in zip(METHODS, (0.95, 1.0, 1.05), strict=True):  # equal scores are seen
        mean, std = (np.array([results[method, e][i] for e in EPSILONS]) for i in (0, 1))
        look = {"color": COLOURS[method], "marker": MARKERS[method], "capsize": 2}
        label = f"{method}, {TALK[method]}"
        ax.errorbar(np.multiply(EPSILONS, aside), mean, std, label=label, **look)
    for method, look in BESIDE.items():
        ax.axhline(results[method, np.inf][0], color="0.3", ls=look, label=method)
    ax.set_title(name, fontsize="medium")
    ax.set(xscale="log", xlabel="privacy budget ε, per record", xlim=(0.8, 11))
    if "insurance" in name:
        ax.set_ylabel("R², ± std over folds")
    ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    ax.minorticks_off()
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)


def main():
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no fetched data, two folds")
    parser.add_argument("--output", default="demo.png", help="where the picture goes")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start, tables = time.perf_counter(), {}
    sets = [*builtin_sets()] if options.quick else [*builtin_sets(), *fetched_sets()]
    for data in sets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            tables[data[0]] = evaluate(data, 2 if options.quick else 5)
        print_table(data[0], tables[data[0]])
    save_picture(tables, options.output)
    seconds = time.perf_counter() - start
    print("\nSilos by label are a benchmark's way of making silos unlike; real ones must not be,")
    print("since a silo's id is public. The guarantees: docs/privacy.md.")
    print(f"Picture: {Path(options.output).resolve()}   ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
