"""When and where a benchmark ran."""

from __future__ import annotations

import os
import platform
from datetime import date

import numpy as np
import scipy
import sklearn

import skdpfl


def header() -> str:
    """Date, versions and the size of the machine, in a line of Markdown."""
    return (
        f"{date.today()}, skdpfl {skdpfl.__version__}, scikit-learn {sklearn.__version__}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, "
        f"one thread on a machine of {os.cpu_count()} cores."
    )
