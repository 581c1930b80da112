"""The form of every result: when and where it was measured, and tables in Markdown."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info


def header(*packages: str) -> str:
    """Say when, with what and on what."""
    versions = []
    for name in ("skdpfl", "numpy", "scikit-learn", "scipy", "cryptography", *packages):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"no {name}")
    blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    kernels = ", ".join(f"{b['internal_api']} {b['version']} ({b['architecture']})" for b in blas)
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {', '.join(versions)}, "
        f"{kernels}, {processor()}, {os.cpu_count()} cores, one BLAS thread, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def processor() -> str:
    """Return the processor's name where Linux tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]] = ()) -> str:
    """Return a table; without rows, its head, to which rows may be printed as they come."""
    lines = [row(head), "|" + "---|" * len(head), *map(row, rows)]
    return "\n".join(lines)


def row(cells: Iterable[object]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def spread(values: Sequence[float] | np.ndarray) -> str:
    """Return the mean and the standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
