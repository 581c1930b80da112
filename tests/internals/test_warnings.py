"""Warnings are kept back in a block without changing what other threads see."""

import pickle
import threading
import warnings

import numpy as np
import pytest

from skdpfl import _warnings
from skdpfl._warnings import foreign_steps, refusing_complex, warnings_off

BLOCKS = {"off": warnings_off, "complex": refusing_complex, "foreign": foreign_steps}
IMAGINARY = np.array([1j])


@pytest.mark.parametrize("first", BLOCKS)
@pytest.mark.parametrize("second", BLOCKS)
def test_blocks_that_overlap_in_two_threads_leave_the_filters_as_they_were(first, second):
    before, entered, left = list(warnings.filters), threading.Event(), threading.Event()

    def other():
        with BLOCKS[second]():
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=other)
    with BLOCKS[first]():
        thread.start()
        entered.wait(10)
    left.set()
    thread.join()
    assert list(warnings.filters) == before


def test_each_block_holds_where_it_should():
    with warnings_off():
        warnings.warn("not seen", stacklevel=1)
        IMAGINARY.astype(float)
        with refusing_complex(), pytest.raises(np.exceptions.ComplexWarning):
            IMAGINARY.astype(float)
    seen = []

    def other():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            IMAGINARY.astype(float)
        seen.extend(caught)

    with refusing_complex():  # which another thread does not notice
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with pytest.raises(np.exceptions.ComplexWarning):
            IMAGINARY.astype(float)
    assert [each.category for each in seen] == [np.exceptions.ComplexWarning]
    with pytest.warns(UserWarning, match="seen again"):
        warnings.warn("seen again", stacklevel=1)


def test_a_block_holds_in_worker_processes_that_it_starts():
    """scikit-learn sends the filters with each task."""
    with warnings_off():
        sent = pickle.loads(pickle.dumps(warnings.filters))
    assert ("ignore", None, Warning, None, 0) in map(tuple, sent)
    assert pickle.loads(pickle.dumps(_warnings._Any)) is _warnings._Any
