"""What is not supported, refused in words that say what to do instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def refuse_arguments(name: str, unnamed: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Raise for arguments that ``fit`` does not take."""
    if unnamed:
        raise TypeError(
            f"{name}.fit takes the silos by name only: fit(X, y, silos=...), one id per row."
        )
    given = [name for name, value in arguments.items() if value is not None]
    if "sample_weight" in given:
        raise TypeError(
            "sample_weight is not supported: a record of weight w moves the gradients by w times "
            "the clipping norm, which the privacy accounting would have to know beforehand. Fit "
            "without it; silo_weights takes public weights of whole silos."
        )
    if arguments.keys() - {"sample_weight"}:
        names = ", ".join(map(repr, arguments))
        raise TypeError(f"{name}.fit takes X, y and silos; got {names}.")


def refusing_class_weight(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that says why there is no ``class_weight``; its signature stays."""

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        if "class_weight" in kwargs:
            raise TypeError(
                f"{type(self).__name__} has no class_weight (got {kwargs['class_weight']!r}): "
                '"balanced" would count labels, which is learnt from the data and not paid for. '
                "Fit without it and move the decision threshold, for instance with "
                "sklearn.model_selection.FixedThresholdClassifier."
            )
        init(self, *args, **kwargs)

    return constructor
