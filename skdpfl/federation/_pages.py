"""Memory that a fit frees and asks for again in each step.

The C library of Linux gives large arrays back to the system as they are freed. The next step gets
new pages, which the system clears first: steps of networks take notably longer. Both of
the library's thresholds follow the largest array that was freed so far, up to 32 MiB (mallopt(3),
M_MMAP_THRESHOLD), so that freeing one such array, of which no page was ever used, keeps at most
64 MiB for the steps to come. Elsewhere, and where thresholds are set by the environment, it does
nothing.
"""

from __future__ import annotations

import numpy as np

#: just below the largest array that thresholds follow
_LARGEST = 2**25 - 2**16


def keep_freed_memory() -> None:
    """Let this process use again what it frees, up to 64 MiB."""
    np.empty(_LARGEST, np.uint8)
