"""The page on architecture names every package, in the picture and in the table."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(p.name for p in (ROOT / "skdpfl").iterdir() if (p / "__init__.py").exists())
PAGE = (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize("name", [n for n in PACKAGES if not n.startswith("_")])
def test_every_package_is_on_the_page_and_in_the_picture(name):
    assert f"`{name}`" in PAGE
    assert f">{name}<" in (ROOT / "docs/_static/architecture.svg").read_text()


def test_files_that_the_page_names_exist():
    for word in PAGE.replace("`", " ").split():
        if word.endswith((".py", "/")):
            assert (ROOT / word).exists() or (ROOT / "skdpfl" / word).exists(), word
