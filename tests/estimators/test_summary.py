"""``summary``: the coefficients and what each silo paid."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from tests.estimators.fits import ALL, CLASSIFIERS, data, make

OPTIONS = {"n_rounds": 3, "scaling": None}


@pytest.mark.parametrize("name", ALL)
def test_a_summary_is_the_models_coefficients(name):
    X, y, silos = data(name)
    frame = pd.DataFrame(X, columns=["age", "weight", "height"])
    model = make(name, **OPTIONS)
    with pytest.raises(NotFittedError):
        model.summary()
    table = model.fit(frame, y, silos=silos).summary()
    assert table.index.tolist() == ["age", "weight", "height", "intercept"]
    assert table.columns.tolist() == ["coefficient"]
    expected = [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
    assert table["coefficient"].tolist() == expected
    epsilon, delta = model.privacy_spent_
    assert (table.attrs["epsilon"], table.attrs["delta"]) == (epsilon, delta)
    paid = model.privacy_spent_.per_silo
    assert table.attrs.get("epsilon_per_silo") == (None if paid is None else paid.to_dict())


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_classes_have_a_column_each(name):
    X, y, silos = data(name, n_classes=3)
    labels = np.array(["low", "middle", "high"])[y]
    model = make(name, **OPTIONS).fit(X, labels, silos=silos)
    table = model.summary()
    assert table.columns.tolist() == [f"coefficient of {c}" for c in model.classes_]
    assert table.index.tolist() == ["x0", "x1", "x2", "intercept"]
    assert np.array_equal(table.to_numpy()[:-1].T, model.coef_)
    assert np.array_equal(table.to_numpy()[-1], model.intercept_)
