"""More of tests/estimators/test_ends.py: what only private names show."""

import errno

import numpy as np
import pytest

from skdpfl import Checkpoint
from skdpfl.estimators import _checkpoint
from tests.estimators.test_ends import X, clf, y


def test_a_disk_that_is_full_says_so_and_keeps_the_last_state(tmp_path, monkeypatch):
    path, real, calls = tmp_path / "checkpoint", _checkpoint.replace_file, []

    def full(*given):
        calls.append(given)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*given)

    model = clf(n_rounds=6, random_state=0)
    whole = clf(n_rounds=6, random_state=0).fit(X, y)
    monkeypatch.setattr(_checkpoint, "replace_file", full)
    with (
        pytest.raises(OSError, match=r"cannot be written .No space left.*free disk space"),
        Checkpoint(path),
    ):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    with Checkpoint(path):
        assert np.array_equal(model.fit(X, y).coef_, whole.coef_)
