"""More of tests/inspection/test_displays.py: what only private names show."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.inspection._utility import _same_records
from tests.inspection.test_displays import X, y


@pytest.mark.parametrize("frame", [True, False])
def test_some_of_the_training_records_are_training_records(frame):
    """Also where they are copies; few values that occur in both are no sign of that."""
    some = np.random.default_rng(0).permutation(len(y))[:100]
    table = pd.DataFrame(X).add_prefix("x").assign(word="a") if frame else X
    chosen = table.iloc[some].reset_index(drop=True) if frame else X[some]
    assert _same_records(table, chosen)
    assert not _same_records(table[100:], table[:100] if frame else X[:100].copy())
    few = (X[:, :2] > 0).astype(float)
    assert not _same_records(few[100:], few[:100].copy())
