"""The HTML picture: quick, with fitted attributes, with links where the pages are known."""

from pathlib import Path

import numpy as np
import pytest

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler

rng = np.random.default_rng(0)
X, SILOS = rng.uniform(size=(600, 4)), np.arange(600) % 100
y = X[:, 0] > 0.5
BOUNDS = {"feature_bounds": (0, 1)}
EACH = [
    skdpfl.ISRLDPClassifier(n_rounds=3, **BOUNDS),
    skdpfl.DPScaffoldRegressor(n_rounds=3, target_bounds=(0, 1), **BOUNDS),
    skdpfl.DPFedEXPClassifier(n_rounds=3, epsilon=50.0, **BOUNDS),
    DPStandardScaler(**BOUNDS),
    DPMinMaxScaler(**BOUNDS),
    DPRandomizedSearchCV(
        skdpfl.ISRLDPClassifier(n_rounds=3, **BOUNDS), {"alpha": [0, 1]}, n_iter=2
    ),
]


def fitted(model):
    return model.fit(X, y if "Regressor" not in type(model).__name__ else X[:, 1], silos=SILOS)


@pytest.mark.parametrize("model", EACH, ids=lambda m: type(m).__name__)
def test_links_go_to_pages_that_are_built(model, monkeypatch):
    monkeypatch.setenv("SKDPFL_DOCS", "file:///pages/")
    link = model._get_doc_link()
    name = link.removeprefix("file:///pages/generated/").removesuffix(".html")
    listed = (Path(__file__).parents[2] / "docs" / "api.rst").read_text().split()
    assert name.removeprefix("skdpfl.") in listed or name in listed
    assert link in model._repr_html_()
