"""Fits of modules are replayed on neighbouring data: a record tells what was priced."""

import pytest

pytest.importorskip("torch")

from benchmarks.replay import data_of, judged, modules

CASES = {case.name: case for case in modules()}


@pytest.mark.parametrize("name", [name for name in CASES if "mixing" not in name])
def test_a_record_tells_what_was_priced(name):
    assert judged(CASES[name], data_of(CASES[name], 0)) == []


@pytest.mark.parametrize("name", [name for name in CASES if "mixing" in name])
def test_a_module_that_looks_at_other_records_is_refused(name):
    with pytest.raises(ValueError, match="mixes records"):
        judged(CASES[name], data_of(CASES[name], 0))
