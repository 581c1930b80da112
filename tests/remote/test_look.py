"""Looks at silos elsewhere: what one process sees, paid once by each silo, noised there."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.inspection import correlation, describe, histogram, kaplan_meier, quantile, value_counts
from skdpfl.remote import RemoteFederation, SiloRecords, SilosMissing, Terms, new_silo_key
from tests.remote.silos_here import NAMES, Here, problem, schema


class HereRaw(Here):
    """Silos with tables as they are, without targets."""

    def records(self, name):
        X, _, silos = self.problem
        return SiloRecords(name, X[silos == NAMES.index(name)], raw=X.dtype == object)


def mixed(X):
    table = X.astype(object)
    table[:, 3] = np.where(X[:, 3] > 0, "b", "a")
    table[::9, 1] = table[::7, 3] = None
    return table


LOOKS = {
    "numbers": (describe, {"by_silo": True}),
    "words": (describe, {"feature_bounds": {j: (-4, 4) for j in range(3)}}),
    "unknown": (describe, {"feature_bounds": {0: None, 1: (-4, 4), 2: (0, 0)}, "epsilon": 8.0}),
    "quantile": (quantile, {"q": [0.1, 0.9], "feature_bounds": (-4, 4)}),
    "histogram": (histogram, {"neighbours": "add_remove"}),
    "value_counts": (value_counts, {}),
    "declared": (value_counts, {"categories": ["b", "c"]}),
    "correlation": (correlation, {"feature_bounds": (-4, 4)}),
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks_elsewhere_see_what_one_process_sees(tmp_path, name):
    """Bit for bit; each silo pays once, by its own price."""
    look, how = LOOKS[name]
    X, y, silos = problem("Regressor", 1600)
    one = {"histogram": slice(0, 1), "value_counts": slice(3, 4), "declared": slice(3, 4)}
    words = name in ("words", "unknown", "value_counts", "declared")
    X = (mixed(X) if words else X)[:, one.get(name, slice(None))]
    data, how = (X, y, silos), {"epsilon": 4.0, "delta": 1e-4, "random_state": 0} | how
    terms = Terms(delta=1e-3, **{k: v for k, v in how.items() if k == "neighbours"})
    courier = HereRaw(tmp_path, data, terms=terms)
    facts = schema(data, **({"dtype": "object"} if words else {}))
    there = look(RemoteFederation(courier, facts, estimator="a look"), facts=facts, **how)
    here = look(X, silos=np.array(NAMES)[silos], **how)
    compare = pd.testing.assert_frame_equal
    if isinstance(here, pd.Series):
        compare = pd.testing.assert_series_equal
    compare(there, here, check_exact=True)
    spent = here.attrs["privacy_spent"]
    assert there.attrs["privacy_spent"].epsilon == spent.epsilon
    for silo in NAMES:
        (entry,) = courier.entries(silo)
        assert entry.spent.epsilon == pytest.approx(spent.epsilon, rel=1e-9)


CURVES = {
    "all": {},
    "words": {"by": 3, "groups": ["b", "c"], "neighbours": "add_remove"},
    "flags": {"by": 0, "groups": [0, 1]},
    "masks": {"trust": "secagg"},
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_elsewhere_are_those_of_one_process(tmp_path, name):
    """Bit for bit; each silo pays once, by its own price."""
    X, y, silos = problem("Survival", 1600)
    X[:, 0] = X[:, 0] > 0
    X = mixed(X) if name == "words" else X
    how = CURVES[name] | {"epsilon": 4.0, "delta": 1e-4, "target_bounds": (0, 2), "breaks": 4}
    terms = Terms(delta=1e-3, **{k: v for k, v in how.items() if k == "neighbours"})
    keys = {name: new_silo_key() for name in NAMES} if name == "masks" else None
    courier = HereTimes(tmp_path, (X, y, silos), terms=terms, keys=keys)
    facts = schema((X, y, silos))
    if name == "words":
        facts = schema((X, y, silos), dtype="object")
    federation = RemoteFederation(courier, facts, estimator="curves")
    there = kaplan_meier(federation, facts=facts, random_state=0, **how)
    if "by" in how:
        how["by"] = X[:, how["by"]]
    here = kaplan_meier(y, silos=np.array(NAMES)[silos], random_state=0, **how)
    pd.testing.assert_frame_equal(there, here, check_exact=True)
    assert there["survival"].notna().any()
    spent = here.attrs["privacy_spent"]
    assert there.attrs["privacy_spent"].epsilon == spent.epsilon
    for silo in NAMES:
        (entry,) = courier.entries(silo)
        assert entry.spent.epsilon == pytest.approx(spent.epsilon, rel=1e-9)


class HereTimes(Here):
    """Silos with events and times, and tables as they are."""

    def records(self, name):
        X, y, silos = self.problem
        mine = silos == NAMES.index(name)
        return SiloRecords(name, X[mine], y[mine], raw=X.dtype == object)


def test_curves_need_events_and_times(tmp_path):
    data = problem("Regressor")
    here, facts = Here(tmp_path, data), schema(data)
    with pytest.raises(SilosMissing, match="declared different events and times"):
        kaplan_meier(RemoteFederation(here, facts), facts=facts, target_bounds=(0, 2))
    with pytest.raises(ValueError, match="by=9 is not among"):
        kaplan_meier(
            RemoteFederation(here, facts), facts=facts, target_bounds=(0, 2), by=9, groups=[0]
        )
    assert not any(map(here.entries, NAMES))


def test_silos_elsewhere_need_facts(tmp_path):
    data = problem()
    facts = schema(data)
    federation = RemoteFederation(Here(tmp_path, data), facts)
    for how in ({}, {"facts": facts, "silos": [1]}, {"facts": facts, "silo_column": "a"}):
        with pytest.raises(ValueError, match="Remote silos need facts"):
            describe(federation, **how)
