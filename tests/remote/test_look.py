"""Looks at silos elsewhere: what one process sees, paid once by each silo, noised there."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.inspection import correlation, describe, histogram, quantile, value_counts
from skdpfl.remote import RemoteFederation, SiloRecords, Terms
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


def test_silos_elsewhere_need_facts(tmp_path):
    data = problem()
    facts = schema(data)
    federation = RemoteFederation(Here(tmp_path, data), facts)
    for how in ({}, {"facts": facts, "silos": [1]}, {"facts": facts, "silo_column": "a"}):
        with pytest.raises(ValueError, match="Remote silos need facts"):
            describe(federation, **how)
