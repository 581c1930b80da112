"""Levels and ranges of frames that are not declared are found within the one budget."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import skdpfl
from tests.estimators.fits import RECORD, make
from tests.estimators.test_frames import DECLARED, in_polars, raw

#: nothing is declared but the flag, whose gaps make objects of it
KINDS = {"smoker": "flag"}


def found(frame, y, silos, *, epsilon=8.0, **options):
    options = {"feature_bounds": KINDS, "max_categories": 5, "n_rounds": 3} | options
    model = skdpfl.ISRLDPClassifier(epsilon, random_state=0, **options)
    return model.fit(frame, y, silos=silos)


@pytest.mark.parametrize("trust", ["silo", "server", "secagg"])
def test_levels_and_ranges_are_found_in_one_budget(trust):
    frame, y, silos = raw(4000)
    frame["plan"] = frame.plan.astype(str)
    model = found(frame, y, silos, trust=trust)
    schema, spent = model.schema_, model.privacy_spent_
    assert spent.epsilon <= 8 and spent.epsilon > 7.9
    assert schema["ward"].levels == ("heart", "lung", "skin")
    assert schema["plan"].levels == ("11", "3", "7")
    names = [name for name in schema.names() if name.startswith("ward")]
    assert names == [
        f"ward_{part}" for part in ("heart", "lung", "skin", "unused3", "unused4", "missing")
    ]
    low, high = schema["age"].range
    assert -30 < low < 40 and 70 < high < 150
    first, last = schema["seen"].range
    assert first < 17_000 < last and last - first < 20_000
    same = type(model).from_dict(json.loads(json.dumps(model.to_dict())))
    np.testing.assert_array_equal(same.predict(frame), model.predict(frame))
    assert model.score(frame, y) > 0.55


def test_columns_without_a_level_have_coefficients_of_0():
    frame, y, silos = raw(4000)
    model = found(frame, y, silos, model="linear", max_categories=20)
    unused = np.array(["unused" in name for name in model.schema_.names()])
    assert unused.sum() == 17
    np.testing.assert_array_equal(model.coef_[0] == 0, unused)


@pytest.mark.parametrize("name", RECORD)
def test_every_family_pays_within_its_budget(name):
    frame, y, silos = raw(2000)
    model = make(name, epsilon=8.0, feature_bounds=KINDS, max_categories=4, n_rounds=2)
    model.set_params(random_state=0).fit(frame, y, silos=silos)
    assert model.privacy_spent_.epsilon <= 8
    columns = {column.name: column.kind for column in model.schema_.columns}
    plan = model.plan_for(silo_sizes=[500] * 4, columns=columns)
    assert (plan.noise_multiplier == model.plan_.noise_multiplier).all()
    free = make(name, epsilon=8.0, feature_bounds=DECLARED, n_rounds=2)
    free = free.plan_for(silo_sizes=[500] * 4, columns=columns)
    assert (free.noise_multiplier < plan.noise_multiplier).all()


def test_neither_order_nor_types_of_records_change_what_leaves():
    frame, y, silos = raw(2000)
    known = found(frame, y, silos).schema_
    order = np.random.default_rng(1).permutation(len(frame))
    assert found(frame.iloc[order], y[order], silos[order]).schema_ == known
    types = {"ward": "category", "plan": "float64", "age": "Float64"}
    assert found(frame.astype(types), y, silos).schema_ == known
    assert found(in_polars(frame), y, silos).schema_ == known


@pytest.mark.parametrize("delta", [{0: 1e-4, 1: 1e-9}, {0: 1e-9, 1: 1e-4}])
def test_a_server_counts_levels_with_the_noise_of_the_strictest_silo(delta):
    """One noise serves all silos: none may be priced for more, whichever comes first."""
    model = skdpfl.ISRLDPClassifier(8.0, delta=delta, trust="server")
    plan = model.plan_for(silo_sizes={0: 2000, 1: 2000}, columns={"ward": "category"})
    strictest = model.set_params(delta=1e-9)
    strictest = strictest.plan_for(silo_sizes={0: 2000, 1: 2000}, columns={"ward": "category"})
    assert [plan.setup_of(i)[0] for i in range(2)] == [strictest.setup_of(0)[0]] * 2


REFUSED = {
    "whole silos": ("DPFedEXPClassifier", 2000, {}, 'unit="silo" cannot find the levels'),
    "no level": ("ISRLDPClassifier", 200, {}, r"No level of \['ward'\] can be found: one needs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_found_is_refused_before_it_is_paid_for(case):
    name, n, options, words = REFUSED[case]
    frame, y, silos = raw(n)
    model = make(name, epsilon=0.5, **options)
    ledger = skdpfl.privacy.PrivacyLedger(9.0, delta=1e-4)
    with ledger, pytest.raises(ValueError, match=words):
        model.fit(frame[["ward"]], y, silos=silos)
    assert ledger.spent is None or ledger.spent.epsilon == 0


def test_levels_that_are_not_found_are_warned_of():
    frame, y, silos = raw(4000)
    frame["rare"] = [f"level {i // 2}" for i in range(len(frame))]
    with pytest.warns(UserWarning, match=r"No level of \['rare'\] was found: one needs a noisy"):
        model = found(frame, y, silos)
    assert model.schema_["rare"].levels == () and np.isfinite(model.predict(frame)).all()
    assert isinstance(model.predict(pd.DataFrame(frame)), np.ndarray)


@pytest.mark.parametrize("model", ["linear", "additive"])
def test_without_scales_only_curves_need_ranges(model):
    frame, y, silos = raw(4000)
    fitted = found(frame, y, silos, scaling=None, model=model)
    assert (fitted.schema_["age"].range is None) == (model == "linear")
    same = type(fitted).from_dict(json.loads(json.dumps(fitted.to_dict())))
    np.testing.assert_array_equal(same.predict(frame), fitted.predict(frame))


def test_the_cost_names_the_parts_of_levels_and_ranges():
    columns = {"ward": "category", "age": "number", "smoker": "flag"}
    model = skdpfl.ISRLDPClassifier(2.0, delta=1e-4)
    spent = model.plan_for(silo_sizes=[2000] * 3, columns=columns).spent()
    shares = dict(spent.shares)
    assert shares["levels"] == pytest.approx(0.1) and shares["ranges"] == pytest.approx(0.1)
    assert sum(shares.values()) == pytest.approx(1) and shares["rounds"] > 0.4
    again = type(spent).from_dict(json.loads(json.dumps(spent.to_dict())))
    assert again.shares == spent.shares and again == spent
    assert (spent + spent).shares == ()
    declared = {"ward": ["a", "b"], "age": (0, 9), "smoker": "flag"}
    model.set_params(feature_bounds=declared)
    free = model.plan_for(silo_sizes=[2000] * 3, columns=columns).spent()
    assert not {"levels", "ranges"} & set(dict(free.shares))
    frame, y, silos = raw(4000)
    model = found(frame, y, silos)
    with warnings.catch_warnings():  # of groups: a threshold may fail
        warnings.simplefilter("ignore", UserWarning)
        page = skdpfl.report(model).to_html()
    assert "levels 10.0%" in page and "ranges 10.0%" in page
