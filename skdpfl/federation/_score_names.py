"""Private scores by name, the same wherever one is given."""

from __future__ import annotations

import math
from collections.abc import Callable

from skdpfl.federation import _measures
from skdpfl.federation._ranks import AveragePrecision, CalibrationError, Concordance, RocAuc

#: probabilities below it count as it, unless a bound is given
LEAST_PROBABILITY = 0.01
OF_TWO_LABELS: dict[str, Callable[[], _measures.Measure]] = {
    "roc_auc": RocAuc,
    "average_precision": AveragePrecision,
}
OF_CLASSES = (
    *("accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score"),
    *("calibration_error", *OF_TWO_LABELS),
)
OF_TARGETS = ("r2", "neg_mean_absolute_error", "d2_poisson")
OF_SURVIVAL = ("concordance",)
_BOUNDED = ("neg_log_loss", "neg_mean_absolute_error")


def measure_of(
    name: object,
    *,
    n_classes: int | None,
    bound: float | None = None,
    targets: tuple[float, float] | None = None,
    survival: bool = False,
) -> _measures.Measure:
    """Return the measure of a given name; a ValueError lists the valid names.

    A record's loss or error is clipped at ``bound``; ``targets`` are public bounds of the targets,
    of survival the horizon.
    """
    names = OF_SURVIVAL if survival else OF_TARGETS if n_classes is None else OF_CLASSES
    if not isinstance(name, str) or name not in names:
        what = "A function of all records has no bounded cost. " if callable(name) else ""
        raise ValueError(
            f"{what}The private score must be one of {', '.join(names)}; got {name!r}."
        )
    if bound is not None:
        if name not in _BOUNDED:
            raise ValueError(
                f"bound is for scores with a loss or error per record; {name} has none."
            )
        if not 0 < bound < math.inf:
            raise ValueError(f"bound must be positive and finite; got {bound!r}.")
    if n_classes is not None:
        return _of_classes(name, n_classes, bound)
    return _of_targets(name, bound, targets)


def _of_classes(name: str, n_classes: int, bound: float | None) -> _measures.Measure:
    if name == "accuracy":
        return _measures.Accuracy()
    if name == "balanced_accuracy":
        return _measures.BalancedAccuracy(n_classes)
    if name == "neg_log_loss":
        most = -math.log(LEAST_PROBABILITY) if bound is None else float(bound)
        return _measures.Closeness("log_loss", most, most)
    if name == "neg_brier_score":  # of two labels scikit-learn counts one of them
        return _measures.Closeness("brier", 2.0, 1.0 if n_classes == 2 else 2.0)
    if name == "calibration_error":
        return CalibrationError()
    if n_classes != 2:
        raise ValueError(
            f"{name} needs two labels; got {n_classes}. Use balanced_accuracy or neg_log_loss."
        )
    return OF_TWO_LABELS[name]()


def _of_targets(
    name: str, bound: float | None, targets: tuple[float, float] | None
) -> _measures.Measure:
    if targets is None and name == "neg_mean_absolute_error" and bound is None:
        raise ValueError(
            "neg_mean_absolute_error needs public bounds of the targets (target_bounds), or of the "
            "error (bound): larger errors of a record are clipped. Give bound or target_bounds."
        )
    if targets is None and name != "neg_mean_absolute_error":
        raise ValueError(
            f"{name} needs public bounds of the targets: give target_bounds=(low, high)."
        )
    low, high = (0.0, 0.0) if targets is None else (float(targets[0]), float(targets[1]))
    if targets is not None and not -math.inf < low < high < math.inf:
        raise ValueError(f"target_bounds must be finite, and increase; got {targets!r}.")
    if name == "neg_mean_absolute_error":
        most = (high - low) / 2 if bound is None else float(bound)
        return _measures.Closeness("absolute_error", most, most)
    if name == "r2":
        return _measures.R2(low, high)
    if low < 0:
        raise ValueError(f"{name} needs target_bounds from 0 on; got {targets!r}.")
    return Concordance(horizon=high) if name == "concordance" else _measures.D2Poisson(low, high)
