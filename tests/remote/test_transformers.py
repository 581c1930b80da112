"""Transformers of silos elsewhere: what they learn in one process, paid once, noised there."""

import numpy as np
import pytest
from sklearn.base import clone

from skdpfl import preprocessing
from skdpfl.federation import Schema
from skdpfl.remote import Refused, RemoteFederation, SiloRecords, SilosMissing, Terms, unpack
from tests.remote.silos_here import NAMES, Here, estimator, problem, schema

NUMBERS = {
    "scaler": preprocessing.DPStandardScaler(3.0),
    "scaler in bounds": preprocessing.DPStandardScaler(3.0, feature_bounds=(-4, 4)),
    "range": preprocessing.DPMinMaxScaler(3.0),
    "public range": preprocessing.DPMinMaxScaler(feature_bounds=(-4, 4)),
    "curves": preprocessing.DPSplineTransformer(3.0, feature_bounds=(-4, 4)),
    "pca": preprocessing.DPPCA(2, 3.0, row_norm=3.0),
    "pca, zeroed": preprocessing.DPPCA(2, 3.0, row_norm=3.0, center=False, neighbours="add_remove"),
}
WORDS = {
    "mean": preprocessing.DPSimpleImputer(8.0),
    "median in bounds": preprocessing.DPSimpleImputer(
        8.0, strategy="median", feature_bounds=(-4, 4)
    ),
    "most frequent": preprocessing.DPSimpleImputer(20.0, strategy="most_frequent"),
    "encoder": preprocessing.DPOneHotEncoder(20.0),
    "declared": preprocessing.DPOneHotEncoder(categories=[["a", "b"]] * 4),
}


class HereRaw(Here):
    """Silos with tables as they are, without targets."""

    def records(self, name):
        X, _, silos = self.problem
        return SiloRecords(name, X[silos == NAMES.index(name)], raw=True)


def found_by(transformer):
    """What a transformer has learnt, in words: equal if all numbers are."""
    names = [n for n in vars(transformer) if n.endswith("_") and n != "silo_ids_"]
    names = [n for n in names if n not in ("privacy_spent_", "feature_names_in_", "scaling_")]
    if hasattr(transformer, "curves_"):
        curves = transformer.curves_.curves
        return [part.tolist() for each in curves for part in (each.knots, each.cuts, each.shares)]
    return {n: np.asarray(vars(transformer)[n], dtype=object).tolist() for n in names}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*NUMBERS, *WORDS])
def test_transformers_learn_what_they_learn_in_one_process(tmp_path, name):
    """Bit for bit; each silo pays once, by its own price, and gives nothing out for free."""
    X, y, silos = problem("Regressor", 1600)
    words = name in WORDS
    here = clone((WORDS if words else NUMBERS)[name]).set_params(random_state=0)
    if words:
        X = X.astype(object)
        X[::9, 1] = None
        if isinstance(here, preprocessing.DPOneHotEncoder) or here.strategy == "most_frequent":
            X = np.where(X == None, None, np.where(X.astype(float) > 0, "b", "a"))  # noqa: E711
    there, data = clone(here), (X, y, silos)
    relation = {"neighbours": here.neighbours} if here.neighbours != "auto" else {}
    terms = Terms(delta=1e-3, **relation)
    courier = (HereRaw if words else Here)(tmp_path, data, terms=terms)
    facts = schema(data, **({"dtype": "object"} if words else {}))
    given = X.astype(float) if name in ("mean", "median in bounds") else X
    here.fit(given, silos=np.array(NAMES)[silos])
    there.fit_federation(RemoteFederation(courier, facts, estimator="a transformer"), facts)
    assert found_by(there) == found_by(here)
    assert there.privacy_spent_.epsilon == here.privacy_spent_.epsilon
    for silo in NAMES:
        entries = courier.entries(silo)
        assert len(entries) == (here.privacy_spent_.epsilon > 0)
        for entry in entries:
            assert entry.spent.epsilon == pytest.approx(here.privacy_spent_.epsilon, rel=1e-9)


def test_tables_of_words_are_for_sums_that_can_read_them(tmp_path):
    data = problem("Regressor")
    here = HereRaw(tmp_path, data)
    facts = schema(data, dtype="object")
    federation = RemoteFederation(here, facts, estimator="a fit")
    with pytest.raises(SilosMissing, match="needs a table of numbers"):
        preprocessing.DPPCA(2, random_state=0).fit_federation(federation, facts)
    with pytest.raises(SilosMissing, match="need numbers"):
        estimator("ISRLDPRegressor", scaling=None).fit_federation(federation, facts)
    assert not any(here.entries(name) for name in NAMES)
    with pytest.raises(ValueError, match="A raw table may hold"):
        SiloRecords("a", [[object()]], raw=True)


@pytest.mark.parametrize("how, words", [({"epsilon": np.inf}, "exact numbers"),
                                        ({"trust": "server"}, "each silo then adds")])  # fmt: skip
def test_transformers_elsewhere_are_noised_by_their_silos(tmp_path, how, words):
    here = Here(tmp_path, problem("Regressor"))
    facts = schema(here.problem)
    with pytest.raises(Refused, match=words):
        preprocessing.DPPCA(2, **how).fit_federation(RemoteFederation(here, facts), facts)
    assert not here.letters


ASKED = {
    "encoder": lambda **how: preprocessing.DPOneHotEncoder(3.0, **how),
    "imputer": lambda **how: preprocessing.DPSimpleImputer(3.0, strategy="most_frequent", **how),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_the_names_that_leave_a_gate_tell_nothing_of_the_first_record(tmp_path, name):
    """The order of names was that of first occurrence: the first record's value, with certainty.

    In each of 40 draws the first record's value moves to the last place, which changes no count:
    what the gate sends is the same to the last bit, names sorted, each of Python's own types.
    """
    rng, silos = np.random.default_rng(0), np.zeros(900, int)
    for draw in range(40):
        X = rng.choice(np.array([np.str_("c"), "a", 2, 2.0, "b"], dtype=object), (900, 1))
        sent = []
        for turned in (X, X[::-1], np.roll(X, 1, axis=0)):
            folder = tmp_path / f"{draw}-{len(sent)}"
            folder.mkdir()
            here = HereRaw(folder, (turned, None, silos))
            facts = Schema({"east": 900}, 1, dtype="object")
            federation = RemoteFederation(here, facts, estimator="a look")
            ASKED[name](random_state=draw).fit_federation(federation, facts)
            came = [unpack(answer) for _, answer in here.answers]
            ((values, names),) = [(a.values, a.names) for a in came if hasattr(a, "names")]
            assert {type(each) for each in names[0]} == {str}
            sent.append((names, values.tolist()))
        assert sent == 3 * [((("2", "a", "b", "c"),), sent[0][1])]
