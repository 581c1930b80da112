"""Memory that steps free and ask for again is not cleared by the system each time."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
from skdpfl.federation._data import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        arrays = [np.ones(2**19) for _ in range(4)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
first = faults()
keep_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_steps_use_freed_memory_again():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=kept
    )
    before, after = map(int, done.stdout.split())
    assert before > 1000
    assert after < before / 20
