"""What the pages are built with: formulas, docstrings, and a guard against the network."""

import runpy
import sys
from pathlib import Path

import pytest

EXT = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def offline(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(EXT))
    import offline

    yield offline
    sys.modules.pop("offline")


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://a.b/c.js"></script>', ["https://a.b/c.js"]),
        ('<link rel="stylesheet" href="//a.b/c.css" />', ["//a.b/c.css"]),
        ("@import url('https://a.b/c.css');", ["https://a.b/c.css"]),
        ("background: url(https://a.b/c.png)", ["https://a.b/c.png"]),
        ('<img alt="" src="https://a.b/badge.svg">', ["https://a.b/badge.svg"]),
        ('<a href="https://a.b/paper">a link is not a load</a>', []),
        ('<script src="_static/x.js"></script><img src="x.png">', []),
    ],
)
def test_what_a_page_would_load(offline, text, loads):
    assert offline.remote_loads(text) == loads


def test_links_to_the_repository_are_written_where_it_is_known(monkeypatch):
    pytest.importorskip("sphinx")
    conf = EXT.parent / "conf.py"
    monkeypatch.setattr(sys, "path", list(sys.path))
    for url, linked in (("", False), ("https://code.invalid/us/skdpfl/", True)):
        monkeypatch.setenv("SKDPFL_REPOSITORY", url)
        monkeypatch.setenv("SKDPFL_DOCS", url)
        settings = runpy.run_path(str(conf))
        theme = settings["html_theme_options"]
        assert ("icon_links" in theme, "switcher" in theme) == (linked, linked)
        assert linked is ("edit-this-page" in theme["secondary_sidebar_items"].get("privacy", []))
    assert theme["switcher"]["json_url"] == "https://code.invalid/us/skdpfl/versions.json"
    edit = settings["html_context"]["edit_page_url_template"]
    assert edit == "https://code.invalid/us/skdpfl/edit/main/docs/{{ file_name }}"
