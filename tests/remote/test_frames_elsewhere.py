"""Frames of silos elsewhere are encoded there, by what is declared of their columns, or found."""

from dataclasses import replace

import numpy as np
import pytest

import skdpfl
from skdpfl import remote
from skdpfl.federation import Schema
from tests.estimators.test_frames import DECLARED, raw
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here

#: what the server says of columns; ranges of numbers and dates are the estimator's
COLUMNS = DECLARED | {"age": "number", "seen": "date"}
#: nothing but kinds: levels and ranges are found within the budget
KINDS = {"age": "number", "ward": "category", "smoker": "flag", "seen": "date", "plan": {3, 7, 11}}


class Frames(Here):
    """Silos that hold frames."""

    declared, extra = DECLARED, ()

    def records(self, name):
        frame, y, silos = self.problem
        mine = silos == NAMES.index(name)
        own = frame[mine].drop(columns=[c for c in frame if c not in self.declared])
        options = {"classes": [0, 1], "columns": self.declared} | dict(self.extra)
        if self.persons is not None:
            options["persons"] = self.persons[mine]
        return remote.SiloRecords(name, own, y[mine], **options)


def problem(n=400):
    frame, y, silos = raw(n)
    return frame, y.astype(int), silos


def facts(columns=COLUMNS, n=400):
    return Schema(dict.fromkeys(NAMES, n // 4), columns=columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ISRLDPClassifier", "DPFedAvgClassifier"])
def test_frames_elsewhere_give_the_same_model(kind, tmp_path):
    known = fit_here(estimator(kind, feature_bounds=DECLARED), problem())
    model = estimator(kind, feature_bounds=DECLARED)
    model = fit_elsewhere(model, Frames(tmp_path, problem()), facts())
    np.testing.assert_array_equal(model.coef_, known.coef_)
    assert model.schema_ == known.schema_
    assert model.privacy_spent_.epsilon == known.privacy_spent_.epsilon
    frame = problem()[0]
    np.testing.assert_array_equal(model.predict(frame), known.predict(frame))
    assert model.feature_names_in_.tolist() == list(DECLARED)


FOUND = {
    "silos' noise": {},
    "shares of noise": {"trust": "secagg"},
    "curves": {"model": "additive"},
    "no scales": {"scaling": None, "model": "linear"},
    "intervals": {"inference": "intervals"},
    "persons": {"unit": "person"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FOUND)
@pytest.mark.filterwarnings("ignore:No coefficient has an interval")  # levels add up to 1
def test_levels_and_ranges_elsewhere_are_those_found_here(case, tmp_path):
    data = problem(4000)
    silos = Frames(tmp_path, data, keys={name: remote.new_silo_key() for name in NAMES})
    silos.declared, how, n = KINDS, {}, 4000
    if case == "persons":  # who have two rows each
        codes = np.asarray(data[2])
        order, n = np.argsort(codes, kind="stable"), 2000
        silos.persons = np.empty(4000, int)
        silos.persons[order] = np.arange(4000) // 2
        how = {"persons": silos.persons}
    options = {"epsilon": 8.0, "max_categories": 5, "feature_bounds": KINDS} | FOUND[case]
    known = fit_here(estimator(**options), data, **how)
    model = fit_elsewhere(estimator(**options), silos, facts(KINDS, n))
    assert model.schema_ == known.schema_
    assert model.schema_["ward"].levels == ("heart", "lung", "skin")
    np.testing.assert_array_equal(model.coef_, known.coef_)
    assert model.privacy_spent_.epsilon == known.privacy_spent_.epsilon
    (entry,) = silos.entries("east")
    assert entry.spent.epsilon <= model.privacy_spent_.epsilon * (1 + 1e-12)
    if case == "silos' noise":
        federation = skdpfl.remote.RemoteFederation(silos, facts(KINDS, 4000), classes=[0, 1])
        scores = remote.score_federation(model, federation, epsilon=8.0, random_state=1)
        assert abs(scores.overall - model.score(*data[:2])) < 10 * scores.overall_noise


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # four silos are few
@pytest.mark.parametrize("kind", ["DPFedEXPClassifier", "DPFederatedClassifier"])
def test_whole_silos_elsewhere_find_ranges_as_here(kind, tmp_path):
    """Levels cannot be found: one silo may be the only one that has one (test_found_levels)."""
    kinds = {name: KINDS[name] for name in ("age", "smoker", "seen")}
    frame, y, codes = problem(4000)
    data = frame[list(kinds)], y, codes
    silos = Frames(tmp_path, data, budget=(5000.0, 1e-3), terms=remote.Terms(unit="silo"))
    silos.declared = kinds
    options = {"epsilon": 60.0, "delta": 1e-5, "feature_bounds": kinds}
    options |= {} if kind == "DPFedEXPClassifier" else {"unit": "silo"}
    known = fit_here(estimator(kind, **options), data)
    model = fit_elsewhere(estimator(kind, **options), silos, facts(kinds, 4000))
    assert model.schema_ == known.schema_ and model.schema_["age"].range is not None
    np.testing.assert_array_equal(model.coef_, known.coef_)


@pytest.mark.slow
def test_a_silo_may_lack_a_column(tmp_path):
    silos = Frames(tmp_path, problem())
    silos.declared = {name: entry for name, entry in DECLARED.items() if name != "ward"}
    silos.extra = {"neutral": {"ward": None}}
    frame, y, codes = problem()
    known = fit_here(estimator(feature_bounds=DECLARED), (frame.assign(ward=None), y, codes))
    model = fit_elsewhere(estimator(feature_bounds=DECLARED), silos, facts())
    np.testing.assert_array_equal(model.coef_, known.coef_)


REFUSED = {
    "other levels": (DECLARED | {"ward": ["heart", "lung"]}, "another column 'ward'"),
    "another range": (DECLARED | {"age": (0, 110)}, "another column 'age'"),
    "another kind": (DECLARED | {"smoker": "category"}, "another column 'smoker'"),
    "one less": ({"age": (18, 100)}, "This silo has no column 'ward'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_declarations_are_refused_before_anything_is_charged(case, tmp_path):
    silos = Frames(tmp_path, problem())
    silos.declared, words = REFUSED[case]
    with pytest.raises((remote.Refused, remote.SilosMissing), match=words):
        fit_elsewhere(estimator(feature_bounds=DECLARED), silos, facts())
    assert not silos.entries("east")


def test_what_silos_or_servers_cannot_do_is_named(tmp_path):
    frame, y, _ = problem()
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['ward'\]"):
        remote.SiloRecords("east", frame.drop(columns="ward"), y, classes=[0, 1], columns=DECLARED)
    with pytest.raises(ValueError, match="Give n_features, or the columns"):
        Schema({"east": 10})
    here = skdpfl.federation.LocalFederation(None, None)
    with pytest.raises(ValueError, match=r"of \['age', 'ward', 'seen'\] cannot be found: declare"):
        estimator()._encoding_elsewhere(KINDS, here)
    federation = skdpfl.remote.RemoteFederation(Frames(tmp_path, problem()), facts())
    with pytest.raises(remote.Refused, match="is for models that are fitted to frames"):
        skdpfl.preprocessing.DPStandardScaler(1.0).fit_federation(federation, facts())


def test_a_silo_reads_its_frame_by_the_agreed_columns_only(tmp_path):
    """Whatever a server sends of columns, it is checked against the offer in public words."""
    silos = Frames(tmp_path, problem())
    silos.declared = KINDS
    options = {"epsilon": 30.0, "feature_bounds": KINDS, "max_categories": 3, "n_rounds": 1}
    fit_elsewhere(estimator(**options), silos, facts(KINDS))
    letters = [remote.unpack(letter) for name, letter in silos.letters if name == "east"]
    offer = next(letter for letter in letters if hasattr(letter, "facts"))
    sums = [each for each in letters if hasattr(each, "purpose") and each is not offer]
    assert sums[0].purpose == "vocabulary" and sums[0].columns is None
    asked = next(each for each in letters if getattr(each, "columns", None))
    age, *rest = asked.columns
    wrong = [
        (replace(age, kind="category", levels=(1,), range=None, width=1), *rest),
        (replace(age, range=(0.0, float("inf"))), *rest),
        tuple(rest),
        (age, replace(rest[0], levels=("a", "b", "c", "d")), *rest[1:]),
        (*asked.columns[:-1], replace(asked.columns[-1], levels=(3.0, 7, 11))),
    ]
    records = silos.records("east")
    for columns in wrong:
        with pytest.raises(remote.Refused, match="columns differ from those of the agreed fit"):
            records.columns_of(replace(asked, columns=columns), offer.facts)
    with pytest.raises(remote.Refused, match="does not say how frames are encoded"):
        records.columns_of(replace(asked, columns=None, purpose="round"), offer.facts)
    facts_of = offer.facts
    for columns in (*wrong[:2], facts_of.columns[:-1], facts_of.columns[:1] * 5, ()):
        with pytest.raises(remote.Refused, match=r"fit's (columns|features) are"):
            replace(facts_of, columns=columns).check()
    huge = replace(facts_of.columns[1], width=10**9)
    with pytest.raises(remote.Refused, match="are inconsistent"):
        replace(facts_of, columns=(facts_of.columns[0], huge, *facts_of.columns[2:])).check()
    assert remote.pack(offer) == remote.pack(remote.unpack(remote.pack(offer)))


def test_no_letter_with_other_levels_tells_whether_a_level_occurs(tmp_path):
    """Dealt batches are of one table, which a level that nobody has would leave as it is."""
    silos = Frames(tmp_path, problem())
    silos.declared = KINDS
    options = {"epsilon": 8.0, "feature_bounds": KINDS, "max_categories": 5, "scaling": None}
    options |= {"sampling": "disjoint", "calibrate": False, "model": "linear", "n_rounds": 2}
    fit_elsewhere(estimator(**options), silos, facts(KINDS))
    letters = [remote.unpack(letter) for name, letter in silos.letters if name == "east"]
    *before, first, second = letters
    age, ward, *rest = first.columns

    def by(letter, *levels):
        return replace(letter, columns=(age, replace(ward, levels=levels), *rest))

    said = set()
    for level in ("skin", "zz"):
        silos.folder = tmp_path / level
        silos.folder.mkdir()
        for letter in (*before, by(first, 1)):
            answer = remote.unpack(silos.gate("east").answer(remote.pack(letter)))
        assert answer.values.size
        said.add(silos.gate("east").answer(remote.pack(by(second, 1, level))))
        said.add(silos.gate("east").answer(remote.pack(by(second, True))))  # which is 1
        assert remote.unpack(silos.gate("east").answer(remote.pack(by(second, 1)))).values.size
    (said,) = said
    assert "must not change after the first letter" in remote.unpack(said).reason
    twice = replace(ward, levels=(1, "1"))
    found = twice.encode(np.array(["1", "heart", None], dtype=object))
    np.testing.assert_array_equal(found[:, [0, 1, -1]], [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
