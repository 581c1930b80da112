"""Warnings that point at the user's line, however deep inside they arise."""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

#: this package, and what may stand between (pipelines, searches, callbacks); found without
#: importing it, for silos elsewhere do not need it
_BETWEEN = tuple(
    str(Path(spec.origin).parent)
    for spec in map(find_spec, ("skdpfl", "sklearn", "joblib"))
    if spec is not None and spec.origin is not None
)
PACKAGES = _BETWEEN[:2]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if from the first caller outside this package, scikit-learn and joblib."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
