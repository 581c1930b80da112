"""The commands and files that README, CONTRIBUTING and the pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
MADE = ("docs/_build", "docs/generated", "docs/auto_examples")


def pages(pattern):
    """Return (page, match) for everything that looks like a command or a file."""
    return [
        pytest.param(found, id=f"{page.name}-{found}")
        for page in PAGES
        for found in sorted(set(re.findall(pattern, page.read_text(), re.MULTILINE)))
    ]


@pytest.mark.parametrize("target", pages(r"^(?:    )?make (\w+)(?=$|  )|`make (\w+)`"))
def test_make_knows_the_target(target):
    assert next(filter(None, target)) in TARGETS


@pytest.mark.parametrize("path", pages(r"\b(?:benchmarks|examples|tests|docs|\.ci)/[\w./-]*\w"))
def test_the_file_exists(path):
    assert path.startswith(MADE) or (ROOT / path).exists()


def test_the_pages_do_name_commands():
    assert len(pages(r"python (benchmarks/\S+\.py)")) >= 5
