"""The HTML picture has links where the pages are known."""

from pathlib import Path

import pytest

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler

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


@pytest.mark.parametrize("model", EACH, ids=lambda m: type(m).__name__)
def test_links_go_to_pages_that_are_built(model, monkeypatch):
    monkeypatch.setenv("SKDPFL_DOCS", "file:///pages/")
    link = model._get_doc_link()
    name = link.removeprefix("file:///pages/generated/").removesuffix(".html")
    listed = (Path(__file__).parents[2] / "docs" / "api.rst").read_text().split()
    assert name.removeprefix("skdpfl.") in listed or name in listed
    assert link in model._repr_html_()
