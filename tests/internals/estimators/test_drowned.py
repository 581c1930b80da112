"""More of tests/estimators/test_drowned.py: what only private names show."""

import re
import warnings

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier, ISRLDPRegressor


def advice(epsilon, n=870, d=39, n_silos=6, kind=ISRLDPClassifier, **kw):
    """What a fit of this shape is told before any record is read; "" if nothing."""
    X = np.random.default_rng(0).normal(size=(n, d))
    y = X[:, 0] > 0 if kind is ISRLDPClassifier else X[:, 0]
    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(kind, "_run", None)
        with pytest.raises(TypeError):
            kind(epsilon, delta=1e-5, **kw).fit(X, y, silos=np.arange(n) % n_silos)
    return "".join(str(each.message) for each in said if "will drown" in str(each.message))


def number(pattern, text):
    return float(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.parametrize("kind", [ISRLDPClassifier, ISRLDPRegressor])
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_who_follows_the_advice_is_warned_no_more(kind, epsilon):
    kw = {"kind": kind, "scaling": None}
    said = advice(epsilon, **kw)
    needed = number(r"an epsilon of about ([\d.,]+)", said)
    assert not advice(needed, **kw)
    assert advice(0.9 * needed, **kw)
    records = number(r"about ([\d,]+) records", said)
    assert not advice(epsilon, n=int(records), **kw)
    assert advice(epsilon, n=int(0.9 * records), **kw)
