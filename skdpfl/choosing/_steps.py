"""How many rounds, and how many gradient steps a silo takes in each."""

from __future__ import annotations

import numpy as np

from skdpfl.choosing import _rules
from skdpfl.choosing._method import Method
from skdpfl.choosing._request import Request
from skdpfl.choosing._rules import Rows

#: steps of one pass over disjoint batches, whose noise grows with their number
_DISJOINT_STEPS = 25
#: local steps of silos that are protected as a whole
_SILO_STEPS = 5


def steps_of_rounds(request: Request, method: Method, rate: float, rows: Rows) -> tuple[int, ...]:
    """Return the number of gradient steps of each round.

    E epochs at sampling rate q are round(E / q) steps.
    """
    name, steps = "local_steps", request.local_steps
    if request.local_epochs is not None:
        name, epochs = "local_epochs", np.asarray(request.local_epochs, dtype=float)
        counted = np.maximum(1, np.round(epochs / rate)).astype(int)
        steps = tuple(counted.tolist()) if counted.ndim else int(counted)
    if steps is None:
        steps = _automatic_steps(request, method)
    if isinstance(steps, int):
        return (steps,) * _rounds(request, method, steps, rate, rows)
    n_rounds = len(steps) if request.n_rounds is None else request.n_rounds
    if len(steps) != n_rounds:
        raise ValueError(
            f"{name} as a sequence has one entry per round; got {len(steps)} entries for "
            f"n_rounds={n_rounds}."
        )
    return steps


def _automatic_steps(request: Request, method: Method) -> int:
    """Return K; one round is one step, so that it is what it looks like.

    Without privacy steps are not paid for, and several of them only drift to silos' own optima.
    """
    if request.guarantee.is_exact or request.n_rounds == 1:
        return 1
    own = method.local_steps(request)
    return max(own, _SILO_STEPS) if request.guarantee.hides_silos else own


def _rounds(request: Request, method: Method, steps: int, rate: float, rows: Rows) -> int:
    if request.n_rounds is not None:
        return request.n_rounds
    exact, plain = request.guarantee.is_exact, not method.has_momentum(request)
    per_message = 1 if request.guarantee.hides_silos else steps
    default = _rules.n_rounds(per_message, rate, rows, exact=exact, plain=plain)
    if request.sampling == "disjoint":
        most = min(_DISJOINT_STEPS, int(request.facts.silo_sizes.min()))
        default = max(1, min(default, most // steps))
    return method.n_rounds(request, default)
