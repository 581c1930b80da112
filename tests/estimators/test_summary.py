"""``summary``: the coefficients and what each silo paid."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from tests.estimators.fits import ALL, data, make

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
