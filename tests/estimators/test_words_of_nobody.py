"""No error quotes a record: neither in its words nor in those of the errors behind it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl import preprocessing
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget, silo_scores
from skdpfl.remote import SiloRecords

pytestmark = pytest.mark.filterwarnings("ignore:X has feature names, but")
NAME, NUMBER = "Mrs Jones", 123.456
N = 60
rng = np.random.default_rng(0)
X = rng.uniform(size=(N, 3))
y = np.arange(N) % 2


def spoilt(values, place, value, dtype):
    values = values.astype(dtype)
    values[place] = value
    return values


WORDS = spoilt(X, (5, 1), NAME, object)
COMPLEX = spoilt(X, (5, 1), NUMBER + 1j, complex)
TABLES = {
    "words": WORDS,
    "words in a frame": pd.DataFrame(WORDS, columns=["a", "b", "c"]),
    "words in lists": WORDS.tolist(),
    "complex": COMPLEX,
    "complex frame": pd.DataFrame(COMPLEX),
}
BOUNDS = {"feature_bounds": (0, 1)}


def clf(**params):
    return skdpfl.ISRLDPClassifier(n_rounds=2, **BOUNDS, **params)


def reg(**params):
    return skdpfl.ISRLDPRegressor(n_rounds=2, target_bounds=(0, 1), **BOUNDS, **params)


def said(call):
    """Return all that an error says, and the errors behind it."""
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    words, error = [], raised.value
    while error is not None:
        words.append(f"{error} {getattr(error, '__notes__', '')}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(words)


SEARCH = DPRandomizedSearchCV(clf(), {"alpha": [0, 1]}, n_iter=2, random_state=1)
READERS = {
    "fit": lambda table: clf().fit(table, y),
    "predict": lambda table: clf().fit(X, y).predict(table),
    "score": lambda table: clf().fit(X, y).score(table, y),
    "search": lambda table: SEARCH.fit(table, y),  # its part for scores may hold the record
    "shared": lambda table: SharedBudget(
        make_pipeline(preprocessing.DPStandardScaler(**BOUNDS), clf())
    ).fit(table, y),
    "scores": lambda table: silo_scores(clf().fit(X, y), table, y, silos=y),
    "scaler": lambda table: preprocessing.DPStandardScaler(**BOUNDS).fit(table),
    "range": lambda table: preprocessing.DPMinMaxScaler().fit(table),
    "mapped": lambda table: preprocessing.DPMinMaxScaler(**BOUNDS).fit(X).transform(table),
    "imputer": lambda table: preprocessing.DPSimpleImputer(**BOUNDS).fit(table),
    "projection": lambda table: preprocessing.DPPCA(2, 1.0).fit(table),
    "rows": lambda table: preprocessing.RowTransformer(_numbers).fit_transform(np.asarray(table)),
}


def _numbers(row):
    if np.iscomplexobj(row):
        raise ValueError(f"{row} is complex")
    return row.astype(float)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", TABLES)
def test_what_cannot_be_read_is_named_by_its_place(reader, table):
    words = said(lambda: READERS[reader](TABLES[table]))
    assert NAME not in words and str(NUMBER) not in words
    if table == "words":
        place = "row " if reader in ("search", "scores") else "row 5"  # of a part of the rows
        assert place in words and (reader == "rows" or "column 1" in words)


def test_complex_levels_are_not_quoted():
    assert str(NUMBER) not in said(lambda: preprocessing.DPOneHotEncoder().fit(COMPLEX))


OTHERS = {
    "weight": lambda: clf().fit(X, y, sample_weight=spoilt(np.ones(N), 3, -NUMBER, float)),
    "weight, word": lambda: clf().fit(X, y, sample_weight=spoilt(np.ones(N), 3, NAME, object)),
    "weight, complex": lambda: clf().fit(X, y, sample_weight=spoilt(y, 3, NUMBER * 1j, complex)),
    "target, word": lambda: reg().fit(X, spoilt(y, 3, NAME, object)),
    "target, complex": lambda: reg().fit(X, spoilt(y, 3, NUMBER * 1j, complex)),
    "target, complex object": lambda: reg().fit(X, spoilt(y, 3, COMPLEX[5, 1], object)),
    "complex elsewhere": lambda: SiloRecords("s", spoilt(X, (5, 1), COMPLEX[5, 1], object), y),
    "counts": lambda: reg(loss="poisson").fit(X, spoilt(y, 3, -NUMBER, float)),
    "label": lambda: clf(classes=["a", "b"]).fit(X, spoilt(np.array(["a", "b"])[y], 3, NAME, "U9")),
    "mixed labels": lambda: clf().fit(X, spoilt(y, 3, NAME, object)),
    "numbers as labels": lambda: clf().fit(X, spoilt(y, 3, NUMBER, float)),
    "records elsewhere": lambda: SiloRecords("s", WORDS, y, classes=[0, 1]),
    "labels elsewhere": lambda: SiloRecords("s", X, spoilt(y, 3, NAME, object), classes=[0, 1]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_targets_and_weights_are_not_quoted(name):
    words = said(OTHERS[name])
    assert NAME not in words and str(NUMBER) not in words
