"""More of tests/estimators/test_html.py: what only private names show."""

import time

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from skdpfl import _surface
from skdpfl._arguments import at_most
from tests.estimators.test_html import EACH, fitted


@pytest.mark.parametrize("model", EACH, ids=lambda m: type(m).__name__)
def test_the_picture_is_quick_and_shows_what_was_fitted(model, monkeypatch):
    monkeypatch.delenv("SKDPFL_DOCS", raising=False)
    monkeypatch.setattr(_surface, "declared_home", lambda: "")
    model = fitted(sklearn.clone(model))
    start = time.perf_counter()
    html = model._repr_html_()
    assert time.perf_counter() - start < 2.0  # 0.1 s on an idle core
    assert len(html) < 120_000
    assert "href" not in html  # no dead links
    if parse_version(sklearn.__version__) >= parse_version("1.9"):
        assert "privacy_spent_" in html
        spent = model.privacy_spent_
        assert f"ε = {at_most(spent.epsilon)}, δ = {at_most(spent.delta, 2)}" in html
        for name in ("unit", "trust", "neighbours"):
            row = html.split(f"privacy_spent_.{name}")[-1].split("</tr>")[0]
            assert f"<td>{getattr(spent, name)}</td>" in row
        if hasattr(model, "silo_ids_"):
            assert "<td>100</td>" in html.split("len(silo_ids_)")[-1].split("</tr>")[0]
