"""The runner of the papers' figures: tuning, tables, pages."""

import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from skdpfl.privacy import epsilon_of, noise_multiplier_for

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "benchmarks" / "papers"


@pytest.fixture(scope="module")
def papers():
    """Import from the scripts' folder, as the runner does."""
    sys.path.insert(0, str(PAPERS))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(PAPERS))


def figure(papers, measure, axes, **more):
    cells = papers("_common.cells")
    cell = cells.Cell("method", 1.0, measure, axes, "setting")
    return cells, cells.Figure("title", "score", lambda quick: [cell], **more), cell


def test_tuning_finds_the_best_point_of_the_lattice_and_says_it_lies_inside(papers):
    def measure(seed, step, clip):
        return -((step / 27 - 1) ** 2) - (clip - 0.25) ** 2

    axes = papers("_common.cells").Axis
    cells, fig, cell = figure(papers, measure, (axes("step", 1, 3), axes("clip", 1, 2)))
    chosen = cells.tune(fig, cell, quick=False)
    assert chosen.point == {"step": 27.0, "clip": 0.25}
    assert chosen.inside
    assert chosen.fits < 30


def test_reported_seeds_are_not_those_of_tuning(papers):
    seen = []

    def measure(seed, step):
        seen.append(seed)
        return -abs(step - 1)

    axis = papers("_common.cells").Axis("step", 1, 3)
    cells, fig, cell = figure(papers, measure, (axis,), tuning=(101, 102), seeds=(0, 1, 2))
    rows = list(cells.run_cell(fig, cell, quick=False))
    assert [row["seed"] for row in rows] == [0, 1, 2]
    tuned, reported = seen[:-3], seen[-3:]
    assert tuned == [101, 102] * (len(tuned) // 2) and reported == [0, 1, 2]


def test_a_run_goes_on_with_the_whole_number_of_rounds_that_was_chosen(papers, tmp_path):
    def measure(seed, step, n_rounds):
        assert isinstance(n_rounds, int)
        return -abs(step - 1) - abs(n_rounds - 8) - seed / 1000

    axis = papers("_common.cells").Axis
    axes = (axis("step", 0.3, 3), axis("n_rounds", 4, 2, whole=True))
    cells, fig, cell = figure(papers, measure, axes, seeds=(0, 1))
    store = papers("_common.table").Store(tmp_path, "a/b")
    store.append(list(cells.run_cell(fig, cell, quick=False, seeds=(0,))))
    chosen = store.tuned(cell.key)
    assert chosen.point == {"step": 0.9, "n_rounds": 8}
    (row,) = cells.run_cell(fig, cell, quick=False, seeds=(1,), chosen=chosen)
    assert row["value"] == measure(1, 0.9, 8)


def test_a_search_that_ended_at_an_edge_goes_on_from_there(papers, tmp_path):
    tried = []

    def measure(seed, step):
        tried.append(step)
        return -abs(step - 729)

    axis = papers("_common.cells").Axis("step", 1, 3)
    cells, fig, narrow = figure(papers, measure, (axis._replace(high=9.0),))
    store = papers("_common.table").Store(tmp_path, "a/b")
    store.append(list(cells.run_cell(fig, narrow, quick=False)))
    ended = store.tuned(narrow.key)
    assert (ended.point, ended.inside, store.seeds()) == ({"step": 9.0}, False, {})
    tried.clear()
    wide = figure(papers, measure, (axis,))[2]
    store.append(list(cells.run_cell(fig, wide, quick=False, seeds=(0,), chosen=ended)))
    assert sorted(tried) == [3.0, 9.0, 27.0, 81.0, 243.0, 729.0, 729.0, 2190.0]
    assert store.tuned(wide.key) == cells.Tuned({"step": 729.0}, True, ended.fits + 7)
    assert set(*store.seeds().values()) == {0}


@pytest.mark.parametrize(("slope", "step", "fits"), [(0.01, 9.0, 3), (3.0, 27.0, 4)])
def test_a_search_goes_on_for_more_than_a_standard_error(papers, slope, step, fits):
    def measure(seed, step):  # up to 27; two of eight seeds differ by 1 from step to step
        k = round(math.log(step, 3))
        return slope * min(k, 3) + (seed == 101 + k % 8) - (seed == 105 + k % 8)

    axis = papers("_common.cells").Axis("step", 1, 3)
    cells, fig, cell = figure(papers, measure, (axis,), tuning=tuple(range(101, 109)))
    ended = cells.Tuned({"step": 9.0}, False, 10)
    assert cells.tune(fig, cell, False, ended) == cells.Tuned({"step": step}, True, 10 + fits)


@pytest.mark.slow
def test_kept_tables_have_the_columns_of_now_and_seeds_of_their_own(papers):
    table = papers("_common.table")
    for name in papers("run").FIGURES:
        kept = table.Store(PAPERS, name)
        if kept.path.exists():
            found = kept.read()
            assert list(found.columns) == table.COLUMNS, name
            assert (found["figure"] == name).all()
            assert found["date"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
            assert found["version"].str.contains("skdpfl").all()
            cells = papers("_common.cells").figure_of(name).cells(False)
            wanted = {table.key(*cell.key) for cell in cells}
            assert kept.seeds().keys() <= wanted, f"{name}: rows of no cell"


@pytest.mark.slow
def test_the_pages_tables_are_those_of_the_kept_ones(papers):
    pages = papers("_common.pages")
    found = sorted(pages.DOCS.glob("*.md"))
    assert len(found) >= 5
    for page in found:
        text = page.read_text()
        assert text == pages.filled(text, PAPERS), f"{page}: run.py --pictures writes it anew"


@pytest.mark.slow
def test_every_item_of_the_papers_is_there_or_says_why_not(papers):
    """That files exist and rows are compared is the generator's work; see the page's own test."""
    rows = papers("coverage").items(PAPERS)
    assert len(rows) >= 115 and sum(row.state == "whole" for row in rows) >= 85
    assert len({(row.paper, row.item) for row in rows}) == len(rows)
    for row in rows:
        assert (row.state == "whole") == (not row.lacking), row
        assert all((ROOT / file).is_file() for file in row.files), row
        assert row.files or row.state == "missing", row


def test_numbers_in_the_pages_text_are_in_a_table_made_from_the_kept_ones(papers):
    """Decimals of two digits and more: what is measured; a snippet's settings are not."""
    made = re.compile(r"<!-- (?:table|paper|coverage) .*?<!-- end -->", re.DOTALL)
    code = re.compile(r"^```python\n.*?^```", re.DOTALL | re.MULTILINE)
    for page in papers("_common.pages").DOCS.glob("*.md"):
        text = code.sub("", page.read_text())
        rows = "\n".join(made.findall(text))
        prose = re.sub(r"(arXiv:|Python )[\d.]+", "", made.sub("", text))
        alone = [n for n in re.findall(r"(?<![\w.])\d*\.\d\d+", prose) if n not in rows]
        assert not alone, f"{page.name}: {alone} stand in no table; take them from one"


def test_a_page_compares_the_printed_the_claim_and_ours(papers, tmp_path, monkeypatch):
    pages, claims, cells = (papers(f"_common.{m}") for m in ("pages", "claims", "cells"))
    store = papers("_common.table").Store(tmp_path, "a/b")

    def ours(method, epsilon, setting="s"):
        return cells.Cell(method, epsilon, lambda seed: epsilon, (), setting, epsilon)

    def wanted(quick):
        found = [claims.claim(3.0, lambda: 0.5, "s"), claims.printed("ours", 3.0, 0.25, "s", 3.0)]
        found += [ours("ours", epsilon) for epsilon in (3.0, 1.0, float("inf"))]
        return [*found, ours("idle", 3.0), ours("ours", 7.0, "elsewhere")]

    fig = cells.Figure("title", "score", wanted)
    monkeypatch.setattr(pages, "figure_of", lambda name: fig)
    for cell in wanted(False)[:3]:
        store.append(list(cells.run_cell(fig, cell, quick=True)))
    text = pages.filled("<!-- paper a/b: 3 -->\nold\n<!-- end -->", tmp_path)
    assert "| s | published | the claim (ε 3), sound | ours, ε 3 |" in text
    assert "| ours | 0.25 | ε 0.5 | 3 | not run | not run |" in text
    assert "Not run: s (1 methods)." in text
    assert "elsewhere" not in text
    assert "old" not in text


@pytest.mark.wide
def test_the_price_of_a_person_takes_no_images_and_a_group_costs_more(papers):
    models, fits = papers("pfl.models"), papers("pfl.fits")
    copies = models.most_copies(models.tenths(60_000, 25, np.random.default_rng(0)))
    assert 5 < copies < 15
    known = {"sampling_rate": 64 / 6000, "delta": fits.DELTA, "neighbours": "add_remove"}
    sigma = noise_multiplier_for(epsilon=2.93, n_steps=20 * 94, **known)
    want = epsilon_of(noise_multiplier=sigma, n_steps=20 * 94 * copies, **known)
    found = fits.of_a_person(2.93, 25, False, 0)
    assert want <= found <= 1.02 * want
    assert fits.of_a_person(2.93, 25, True, 0) > 2 * found
