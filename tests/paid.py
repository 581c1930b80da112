"""What pages and examples have fitted is paid for in full: no step learnt or mixed beside."""

import math
import runpy
import sys
from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget

#: what may hold steps beside a private estimator
WHOLE = (Pipeline, SharedBudget, DPRandomizedSearchCV)


def check_paid(names: Mapping[str, Any]) -> None:
    """Raise if a fitted pipeline or search that promises an epsilon is not paid for.

    The warnings that tell why are for the caller.
    """
    for name, model in names.items():
        last = model.steps[-1][1] if isinstance(model, Pipeline) else model
        if isinstance(model, WHOLE) and hasattr(last, "privacy_spent_") and last.epsilon < math.inf:
            assert math.isfinite(skdpfl.privacy_spent(model).epsilon), name


if __name__ == "__main__":  # examples, one after the other
    from matplotlib import pyplot as plt

    for path in sys.argv[1:]:
        print(path, file=sys.stderr)
        check_paid(runpy.run_path(path, run_name="__main__"))
        plt.close("all")
