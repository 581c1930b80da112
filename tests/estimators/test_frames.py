"""Frames with text, gaps, dates and levels are encoded by what is declared of their columns."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import skdpfl
from skdpfl import encoding
from skdpfl.encoding import Encoding
from tests.estimators.fits import ALL, CLASSIFIERS, make

DECLARED = {
    "age": (18, 100),
    "ward": ["lung", "heart", "skin"],
    "smoker": "flag",
    "seen": ("2015-01-01", "2020-12-31"),
    "plan": {3, 7, 11},
}


def raw(n=400, seed=0):
    """Records as a hospital has them, with gaps in four columns, and targets in 0..1."""
    rng = np.random.default_rng(seed)
    ward, smoker = rng.choice(["heart", "lung", "skin"], n).astype(object), rng.random(n) < 0.3
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "ward": ward,
            "smoker": smoker.astype(object),
            "seen": pd.Timestamp("2015-01-05") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
            "plan": rng.choice([3, 7, 11], n),
        }
    )
    y = ((ward == "heart") * 1.0 + smoker - (frame.age - 50) / 40 > rng.normal(0.3, 1, n)) * 1.0
    for name, step in {"age": 7, "ward": 9, "smoker": 5, "seen": 11}.items():
        frame.loc[::step, name] = None
    return frame, y.to_numpy(), np.arange(n) % 4


def by_hand(frame):
    """The same columns, encoded by a user of pandas: numbers, and flags of dtype bool."""
    columns = {"age": frame.age.fillna(59.0), "age_missing": frame.age.isna()}
    columns |= {f"ward_{level}": frame.ward == level for level in ("heart", "lung", "skin")}
    columns |= {"ward_missing": frame.ward.isna(), "smoker": frame.smoker == True}  # noqa: E712
    columns["smoker_missing"] = frame.smoker.isna()
    days = (frame.seen - pd.Timestamp("2015-01-01")).dt.days
    columns["seen_days"] = days.fillna(2191 / 2)
    columns |= {f"seen_weekday_{k}": frame.seen.dt.day_of_week + 1 == k for k in range(1, 8)}
    columns |= {f"seen_month_{k}": frame.seen.dt.month == k for k in range(1, 13)}
    columns["seen_missing"] = frame.seen.isna()
    columns |= {f"plan_{level}": frame.plan == level for level in (3, 7, 11)}
    return pd.DataFrame(columns | {"plan_missing": frame.plan.isna()})


@pytest.mark.filterwarnings("ignore:The coefficients do not surely")
@pytest.mark.parametrize("name", ALL)
def test_a_declared_frame_is_the_frame_encoded_by_hand(name):
    """Declarations cost nothing: the model is the same, bit for bit."""
    frame, y, silos = raw()
    frame["smoker"] = frame.smoker.eq(True)
    hand, options = by_hand(frame), {"n_rounds": 5, "random_state": 0, "target_bounds": (0, 1)}
    model = make(name, feature_bounds=DECLARED, **options).fit(frame, y, silos=silos)
    ranges = {"age": (18, 100), "seen_days": (0, 2191)}
    same = make(name, feature_bounds=ranges, **options).fit(hand, y, silos=silos)
    assert model.get_feature_names_out().tolist() == list(hand)
    assert model.feature_names_in_.tolist() == list(frame) and model.n_features_in_ == 5
    np.testing.assert_array_equal(model.coef_, same.coef_)
    np.testing.assert_allclose(model.predict(frame), same.predict(hand), rtol=1e-12)
    assert model.privacy_spent_.epsilon == same.privacy_spent_.epsilon
    plan = make(name, feature_bounds=DECLARED, **options)
    plan = plan.plan_for(silo_sizes=[100] * 4, columns={c: "category" for c in frame})
    assert (plan.noise_multiplier == model.plan_.noise_multiplier).all()


WAYS = {
    "curves": {"model": skdpfl.models.Additive(knots=6, interactions=False)},
    "curves and products": {
        "model": skdpfl.models.Additive(knots=4, interactions=[(0, 8), (0, 2)]),
        "unit": "person",
    },
    "products alone": {"model": skdpfl.models.Additive(interactions=[(0, 8), (2, 5)])},
    "persons": {"unit": "person", "contribution": "sum"},
    "batches": {"sampling_rate": 0.3, "clip_norm": 0.5},
    "four levels of the target": {"loss": "ordinal", "classes": [0, 1, 2, 3]},
    "a network": {"model": skdpfl.models.MLP((3,))},
    "no privacy": {"epsilon": np.inf},
    "unscaled": {"scaling": None},
    "scales within the budget": {"scaling": "private"},
}


@pytest.mark.parametrize("how", WAYS)
def test_levels_are_trained_as_columns_of_0_and_1(how):
    """Of which no table is made: the bits are those of a frame that has them."""
    (frame, y, silos), options = raw(), {"n_rounds": 4, "random_state": 0, **WAYS[how]}
    frame["smoker"] = frame.smoker.eq(True)
    if "loss" in options:
        y = y + 2 * (np.arange(len(y)) % 2)
    who = {"persons": np.arange(400) // 2} if "unit" in options else {}
    hand, both = by_hand(frame), []
    for table, ranges in ((frame, DECLARED), (hand, {"age": (18, 100), "seen_days": (0, 2191)})):
        model = skdpfl.ISRLDPClassifier(**{"epsilon": 8.0, "feature_bounds": ranges, **options})
        both.append(model.fit(table, y, silos=np.sort(silos) if who else silos, **who))
    shown = [each.predict_proba(table) for each, table in zip(both, (frame, hand), strict=True)]
    np.testing.assert_allclose(*shown, rtol=1e-12)
    if how != "a network":
        np.testing.assert_array_equal(both[0].coef_, both[1].coef_)
        np.testing.assert_array_equal(both[0].intercept_, both[1].intercept_)
    assert both[0].privacy_spent_.epsilon == both[1].privacy_spent_.epsilon


@pytest.mark.parametrize("n_levels", [254, 255, 600])
def test_levels_of_more_than_a_byte(n_levels):
    codes = np.random.default_rng(0).integers(0, n_levels + 2, 900)
    names = [f"{k:03}" for k in range(n_levels + 1)]
    frame = pd.DataFrame({"x": np.arange(900) / 900, "code": np.array([*names, None])[codes]})
    columns = {"x": frame.x, "x_missing": frame.x.isna()}
    columns |= {f"code_{name}": frame.code == name for name in names[:-1]}  # one is not declared
    hand = pd.DataFrame(columns | {"code_missing": frame.code.isna()})
    options = {"n_rounds": 3, "random_state": 0, "model": "linear"}
    both = [
        make("ISRLDPClassifier", **options, feature_bounds=each).fit(table, codes % 2)
        for table, each in ((frame, {"x": (0, 1), "code": names[:-1]}), (hand, {"x": (0, 1)}))
    ]
    np.testing.assert_array_equal(both[0].schema_.encode(frame), hand.astype(float))
    np.testing.assert_array_equal(both[0].coef_, both[1].coef_)


@pytest.mark.parametrize("name", CLASSIFIERS[:1])
@pytest.mark.parametrize("kind", ["linear", "additive"])
def test_one_file_predicts_raw_frames(name, kind):
    frame, y, silos = raw()
    model = make(name, epsilon=20, model=kind, feature_bounds=DECLARED, random_state=0)
    plain = json.loads(json.dumps(model.fit(frame, y, silos=silos).to_dict()))
    same = type(model).from_dict(plain)
    np.testing.assert_array_equal(same.decision_function(frame), model.decision_function(frame))
    assert plain["version"] == 2 and same.schema_ == model.schema_
    assert list(model.summary().index[:2]) == ["age", "age_missing"]
    words = {"kind": "colour", "width": 0, "levels": [None], "start": "x", "range": [0, 10**400]}
    fine = plain["encoding"][1]
    for field, value in [*words.items(), ("start", 10**400)]:
        plain["encoding"][1] = fine | {field: value}
        with pytest.raises(ValueError, match="levels" if field == "width" else field):
            type(model).from_dict(plain)


def test_names_of_several_parts_are_saved():
    frame, y, silos = raw()
    frame = frame[["age", "smoker"]]
    frame.columns = pd.MultiIndex.from_product([["patient"], frame.columns])
    model = make(CLASSIFIERS[0], epsilon=20, random_state=0)
    plain = json.loads(json.dumps(model.fit(frame, y, silos=silos).to_dict()))
    same = type(model).from_dict(plain)
    np.testing.assert_array_equal(same.decision_function(frame), model.decision_function(frame))


def test_a_row_is_read_by_itself():
    """Other rows change no bit of it: values that fit no kind are gaps, not errors."""
    frame, y, silos = raw()
    model = skdpfl.ISRLDPClassifier(feature_bounds=DECLARED, random_state=0)
    model.set_params(epsilon=20).fit(frame, y, silos=silos)
    strange = pd.DataFrame(
        {
            "age": ["40", "old", np.inf, 10**400, None, True],
            "ward": ["lung", "moon", 3, ("lung",), None, "heart"],
            "smoker": ["yes", "maybe", 1, 7, None, True],
            "seen": ["2019-03-04", "04/03/2019", pd.NaT, 10**30, None, pd.Timestamp(0, tz="UTC")],
            "plan": ["7", "x", 7.0, 12, None, 3],
        },
        dtype=object,
    )
    whole = model.schema_.encode(pd.concat([frame.astype(object), strange]))[len(frame) :]
    alone = [model.schema_.encode(strange[i : i + 1])[0] for i in range(len(strange))]
    np.testing.assert_array_equal(whole, alone)
    assert np.isfinite(model.decision_function(strange)).all()
    found = pd.DataFrame(whole, columns=model.schema_.names())
    assert found.age.tolist() == [40, 59, 59, 59, 59, 1]
    assert found.ward_missing.tolist() == [0, 0, 0, 1, 1, 0]
    assert found.smoker.tolist() == [1, 0.5, 1, 0.5, 0.5, 1]
    assert found.seen_missing.tolist() == [0, 1, 1, 1, 1, 0] and found.seen_month_3[0] == 1
    assert found.plan_7.tolist() == [1, 0, 1, 0, 0, 0]


def in_polars(frame):
    own = {name: frame[name].tolist() for name in ("age", "ward", "smoker", "plan")}
    own = {name: [None if v != v else v for v in values] for name, values in own.items()}
    own["seen"] = frame.seen.to_numpy().astype("datetime64[us]")
    return pl.DataFrame(own).select(frame.columns.tolist())


#: the same records with other types
TYPES = {
    "category": {"ward": "category", "plan": "category"},
    "nullable": {"age": "Float64", "ward": "string", "smoker": "boolean", "plan": "Int64"},
    "text": {"plan": str, "age": object},
    "zone": {"seen": "datetime64[ns, UTC]"},
    "categories of dates": {"seen": "category"},
    "polars": None,
}


@pytest.mark.parametrize("types", TYPES)
def test_types_of_columns_change_no_bit(types):
    frame, y, silos = raw()
    given = frame.convert_dtypes() if types == "nullable" else frame
    if types == "zone":
        given = frame.assign(seen=frame.seen.dt.tz_localize("UTC"))
    elif types == "polars":
        given = in_polars(frame)
    else:
        given = frame.astype(TYPES[types])
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=DECLARED, random_state=0)
    known = model.fit(frame, y, silos=silos).decision_function(frame)
    np.testing.assert_array_equal(model.fit(given, y, silos=silos).decision_function(given), known)


def test_decimals_of_a_database_are_numbers():
    frame, y, silos = raw()
    ages = [None if age != age else Decimal(repr(age)) for age in frame.age.tolist()]
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=DECLARED, random_state=0)
    known = model.fit(frame, y, silos=silos).decision_function(frame)
    given = frame.assign(age=ages)
    np.testing.assert_array_equal(model.fit(given, y, silos=silos).decision_function(given), known)
    np.testing.assert_array_equal(
        encoding.canonical(np.array([Decimal("sNaN"), Decimal("1e999"), Decimal(2)]), "number"),
        [np.nan, np.inf, 2.0],
    )


def test_objects_of_dates_durations_and_decimals_have_levels():
    day, span = date(2020, 1, 31), timedelta(days=2)
    values = [day, datetime(2020, 1, 31, 8), time(8), span, Decimal("2.0"), Decimal("0.1"), pd.NaT]
    words = ["2020-01-31", "2020-01-31 08:00:00", "08:00:00", "2 days, 0:00:00", "2", "0.1", None]
    assert encoding.canonical(np.array(values, object), "category").tolist() == words
    given = pd.DataFrame({"seen": [day, day + span] * 50}, dtype=object)
    model = skdpfl.ISRLDPClassifier(20, random_state=0).fit(given, [0, 1] * 50)
    assert model.schema_["seen"].levels == ("2020-01-31", "2020-02-02")
    frame = raw()[0]
    typed = encoding.typed(frame.assign(seen=frame.seen.astype("category")))
    assert typed.seen.equals(frame.seen)


@pytest.mark.parametrize("kind", ["timedelta64[ns]", "complex128", "period[D]"])
def test_columns_without_a_kind_are_refused_by_name(kind):
    """Numbers alone beside them change nothing."""
    frame = pd.DataFrame({"age": np.arange(60.0), "odd": np.arange(60)})
    days = pd.Series(pd.period_range("2020", periods=60, freq="D"))
    frame["odd"] = days if kind[0] == "p" else frame["odd"].astype(kind)
    for given in (frame, frame.assign(odd=frame["odd"].astype("category"))):
        with pytest.raises(ValueError, match=r"column 'odd' has dtype .*convert it"):
            skdpfl.ISRLDPClassifier(20).fit(given, np.arange(60) % 2)


def test_new_records_without_a_kind_are_refused_by_name():
    """They were gaps, in silence."""
    frame, y, silos = raw(60)
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=DECLARED, random_state=0)
    model.fit(frame, y, silos=silos)
    spans = pd.Series(pd.to_timedelta(np.arange(60), unit="D"))
    for seen in (spans, spans.astype("category"), pd.cut(frame.age.fillna(50), [0, 50, 100])):
        with pytest.raises(ValueError, match=r"column 'seen' has dtype .*convert it"):
            model.predict(frame.assign(seen=seen))


def test_categories_that_are_intervals_are_refused_by_name():
    frame, y, silos = raw(60)
    given = frame.assign(age=pd.cut(frame.age, [0, 50, 100]))
    declared = DECLARED | {"age": ["(0, 50]", "(50, 100]"]}
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=declared, random_state=0)
    with pytest.raises(ValueError, match=r"'age' has dtype category of interval\[.*convert it"):
        model.fit(given, y, silos=silos)
    given["age"] = given["age"].astype(str)
    assert model.fit(given, y, silos=silos).schema_["age"].levels == ("(0, 50]", "(50, 100]")


@pytest.mark.parametrize("how", ["each", "reversed", "unused", "missing"])
def test_categories_are_read_once(how, monkeypatch):
    """A Categorical's values are those of its records as objects, whatever its categories are."""
    frame, y, silos = raw(60)
    odd = pd.DataFrame({"ward": [("a",), 3.0], "seen": ["2019-03-04", "x"], "plan": ["7", 1e9]})
    many = pd.concat([frame.astype(object), odd.astype(object)] * 9, ignore_index=True)
    coded = many.astype("category")
    if how == "reversed":
        turned = {name: own.cat.categories[::-1] for name, own in coded.items()}
        coded = pd.DataFrame({c: own.cat.set_categories(turned[c]) for c, own in coded.items()})
    elif how == "unused":
        coded = coded[: len(many) // 2]
    elif how == "missing":
        coded["ward"] = coded["ward"].cat.remove_categories(list(coded["ward"].cat.categories))
    many, read = coded.astype(object), []
    frame["smoker"] = frame.smoker.eq(True)
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=DECLARED, n_rounds=2, random_state=0)
    schema = model.fit(frame, y, silos=silos).schema_
    want, typed = schema.encode(many), schema.typed(many)
    original = encoding.canonical
    monkeypatch.setattr(
        encoding,
        "canonical",
        lambda values, kind: read.append(len(values)) or original(values, kind),
    )
    found = schema.parts(coded)
    np.testing.assert_array_equal(schema.encode(coded), want)
    np.testing.assert_array_equal(np.hstack([part.dense() for part in found]), want)
    assert pd.DataFrame(schema.typed(coded)).equals(pd.DataFrame(typed))
    assert max(read) <= 1 + max(len(own.cat.categories) for _, own in coded.items()) < len(coded)


REFUSED = {
    "a range or two levels": ({"age": [18, 100]}, r"\(18, 100\).*set for levels, \{18, 100\}"),
    "another name": ({"agee": (18, 100)}, r"names \['agee'\], which X does not have"),
    "a word": ({"age": "years"}, "must be one of 'number', 'flag', 'category', 'date'"),
    "three numbers": ({"age": (1, 2, 3)}, r"must be a range as a tuple \(low, high\)"),
    "turned": ({"age": (100, 18)}, "low <= high"),
    "no levels": ({"ward": []}, "levels are text, numbers, or True and False; got none"),
    "a level twice": ({"ward": ["a", 1, "1"]}, "has the level '1' twice"),
    "a gap as a level": ({"ward": ["a", None]}, "got None of type NoneType"),
    "days as numbers": ({"seen": (0, 9)}, "needs a tuple of two dates"),
    "days as levels": ({"seen": ["2015-01-01"]}, "needs a tuple of two dates"),
    "arrays": ((np.zeros(5), np.ones(5)), "must be a mapping from column"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_declarations_that_say_nothing_are_refused(case):
    declared, words = REFUSED[case]
    frame, y, silos = raw(40)
    model = skdpfl.ISRLDPClassifier(feature_bounds=declared)
    with pytest.raises(ValueError, match=words):
        model.fit(frame, y, silos=silos)
    assert not hasattr(model, "schema_")


def test_tables_of_numbers_are_not_encoded():
    """One gap must not decide the columns; the error says what to declare."""
    frame, y, silos = raw()
    numbers = frame[["age", "plan"]]
    ranges = {"age": (18, 100), "plan": (3, 11)}
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=ranges, model="linear")
    with pytest.raises(ValueError, match=r'NaN.*feature_bounds=\{\'age\': "number"\}'):
        model.fit(numbers, y, silos=silos)
    assert model.fit(numbers.fillna(50), y, silos=silos).schema_ is None
    assert model.get_feature_names_out().tolist() == ["age", "plan"]
    model.set_params(feature_bounds={"age": (18, 100), "plan": [3, 7, 11]})
    assert model.fit(numbers, y, silos=silos).schema_["plan"].kind == "category"
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        model.predict(numbers[["age"]])
    with pytest.raises(ValueError, match="several columns named 'age'"):
        model.fit(pd.concat([numbers, numbers.age], axis=1), y, silos=silos)
    with pytest.raises(ValueError, match="several columns named 'age'"):  # as it is: of numbers
        model.set_params(feature_bounds=None).fit(numbers[["age", "age"]].fillna(50), y)
    arrow = pytest.importorskip("pyarrow").table([np.arange(9.0)] * 2, names=["age", "age"])
    with pytest.raises(ValueError, match="several columns named 'age'"):
        model.fit(arrow, np.arange(9) % 2)


def test_one_value_of_a_list_does_not_decide_the_others():
    """NumPy makes text of all values where one is text, and objects where one is missing."""
    rows, y, declared = [[True, 1.0], [False, 2.0]] * 30, [0, 1] * 30, {0: ["1", "True"]}
    model = skdpfl.ISRLDPClassifier(20, feature_bounds=declared, n_rounds=2, random_state=0)
    for strange in ("z", None, 1.5):
        others = [[strange, 2.0], *rows[1:]]
        with pytest.raises(ValueError, match=r"a list, .* declare \[1\] in feature_bounds, too"):
            model.fit(others, y)
        fitted = skdpfl.ISRLDPClassifier(20, feature_bounds=declared | {1: (0, 9)}, n_rounds=2)
        schema = fitted.fit(others, y).schema_
        np.testing.assert_array_equal(schema.encode(others)[1:], schema.encode(rows)[1:])
        np.testing.assert_array_equal(schema.encode(rows)[0], [0, 1, 0, 1, 0])
    assert model.fit(np.array(rows), y).schema_[1].kind == "number"


def test_gaps_that_decide_the_label_are_seen():
    """Half of the rows have gaps: their coefficient has the right sign in 20 of 20 fits."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        gap, smokes = rng.random(1000) < 0.5, rng.random(1000) < 0.3
        frame = pd.DataFrame(
            {"smoker": np.where(gap, None, smokes), "age": rng.normal(50, 9, 1000)}
        )
        y = (rng.random(1000) < np.where(gap, 0.8, 0.3)).astype(int)
        declared = {"smoker": "flag", "age": (18, 100)}
        model = skdpfl.ISRLDPClassifier(1.0, feature_bounds=declared, random_state=seed)
        coefficients = model.fit(frame, y, silos=np.arange(1000) % 2).summary()["coefficient"]
        assert coefficients["smoker_missing"] > 0


def test_names_are_different():
    """A level may be called as the column of gaps is."""
    frame = pd.DataFrame({"a": ["missing", "b"]})
    schema = Encoding.from_dict(
        [{"name": "a", "kind": "category", "levels": ("b", "missing"), "width": 2}]
    )
    assert schema.names() == ["a_b", "a_missing", "a_missing_"]
    assert schema.encode(frame).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert schema.encode(frame.assign(z=1)[["z", "a"]]).tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['a'\]"):
        schema.encode(frame.rename(columns=str.upper))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("how", [{}, {"feature_bounds": DECLARED}])
def test_too_few_rows_are_refused_by_the_shape_of_the_frame(n, how):
    frame, y, silos = raw()
    with pytest.raises(ValueError, match=rf"{n} sample\(s\) \(shape=\({n}, 5\)\)"):
        make("ISRLDPClassifier", **how).fit(frame[:n], y[:n], silos=silos[:n])
