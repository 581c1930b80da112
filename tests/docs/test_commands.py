"""The commands and files that README, CONTRIBUTING and the pages name exist."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "papers").glob("*.md"))
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
MADE = ("docs/_build", "docs/generated", "docs/auto_examples")


def pages(pattern):
    """Return (page, match) for everything that looks like a command or a file."""
    return [
        (page.name, found)
        for page in PAGES
        for found in sorted(set(re.findall(pattern, page.read_text(), re.MULTILINE)))
    ]


def test_make_knows_the_targets():
    for page, target in pages(r"^(?:    )?make ([\w-]+)(?=$|  )|`make ([\w-]+)(?: OUT=\w+)?`"):
        assert next(filter(None, target)) in TARGETS, page


def test_the_files_exist():
    for page, path in pages(r"\b(?:benchmarks|examples|tests|docs|\.ci)/[\w./-]*\w"):
        assert path.startswith(MADE) or (ROOT / path).exists(), f"{page} names {path}"


def test_the_pages_do_name_commands():
    assert len(pages(r"python (benchmarks/\S+\.py)")) >= 5


def benchmarks():
    spec = importlib.util.spec_from_file_location("run", ROOT / "benchmarks" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_runner_knows_every_benchmark():
    here = ROOT / "benchmarks"
    scripts = [p for p in here.rglob("*.py") if '"__main__"' in p.read_text()]
    parts = [p.relative_to(here).as_posix() for p in scripts if "speed_parts" not in p.parts]
    known = {row.script.split()[0] for row in benchmarks().BENCHMARKS.values()}
    assert set(parts) - {"run.py"} == {s for s in known if not s.startswith("..")}


def test_a_benchmark_s_page_names_its_command():
    for row in benchmarks().BENCHMARKS.values():
        assert (ROOT / "benchmarks" / row.script.split()[0]).exists()
        assert not row.results or (ROOT / "benchmarks" / row.results).exists(), row
        words = ("make demo",) if row.script.endswith("demo.py") else (row.script, row.results)
        if row.page:
            text = (ROOT / row.page).read_text()
            assert any(word and word in text for word in words), row


def test_every_study_of_auto_has_its_part_of_the_results():
    """Which its runner writes, and pages include."""
    text = (ROOT / "benchmarks" / "auto" / "results.md").read_text()
    studies = [
        row.script.split()[-1]
        for row in benchmarks().BENCHMARKS.values()
        if row.results == "auto/results.md"
    ]
    assert len(studies) == 6
    for name in studies:
        assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1


#: run by `make papers-quick`; by test_examples; by the test below
ELSEWHERE = {"papers", "demo", "networks"}
SMALL = {name for name, row in benchmarks().BENCHMARKS.items() if row.quick is not None}


@pytest.mark.wide  # minutes each, together: lanes take turns
@pytest.mark.skipif("SKDPFL_DATA" not in os.environ, reason="some of them read real data")
@pytest.mark.parametrize("name", sorted(SMALL - ELSEWHERE))
def test_a_small_version_of_every_benchmark_runs(name):
    if name == "step":
        pytest.importorskip("torch")
    assert benchmarks().run(name, quick=True) == 0


def test_no_page_has_a_gap_left_to_fill():
    for page in PAGES:
        assert not re.search(r"@[A-Z]{3,}@|\b(TODO|FIXME|TBD)\b", page.read_text()), page


@pytest.mark.wide
def test_the_study_of_networks_in_quick_mode():
    command = [sys.executable, str(ROOT / "benchmarks" / "networks" / "study.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| digits | 3 |" in done.stdout
    assert "| average of the last half |" in done.stdout
