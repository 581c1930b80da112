"""What an algorithm is: its two ends. It gets a callable for gradients, never a record.

One round::

    server   shared           = broadcast(state)
    silo i   message_i        = local(shared, memory_i, gradient)
             kept_i           = message_i as it counts (unit "silo": clipped), before any noise
             memory_i         = remember(shared, memory_i, kept_i)
    server   state            = aggregate(state, released)     (idle(state) if nobody took part)

Everything is a flat vector on the last axis; ``local`` and ``remember`` see one silo (``(size,)``)
or a stack of silos (``(n_silos, size)``) and must not care which. ``gradient(params)`` is private
by itself and counts its uses: a round must use exactly ``n_gradients(round)`` of them, or the fit
raises. The server end sees a :class:`Released`, never a message. So whoever writes an algorithm
can waste privacy but not break it, as long as the code keeps to these methods: Python holds nobody
off who goes looking for records in objects that are not handed over.

Formal guarantee
----------------
Where the server's noise hides records (trust "server", shufflers), and where others' noise is
counted (the outsider's view), a silo's message has to be one fresh gradient.
:func:`sends_one_gradient` tells so from the object that is about to run: an instance of
:class:`GradientMethod` on which every name that decides the message leads to the code of this
module, through whatever classes it inherits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

#: the average of a round's messages is all that most servers read
State = Any


class Gradient(Protocol):
    """A private gradient: ``gradient(params)`` at (..., size), ``n_steps`` uses a round.

    What it returns is the caller's to overwrite.
    """

    n_steps: int

    def __call__(self, params: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Released:
    """What leaves the aggregate in a round, already private.

    Attributes
    ----------
    mean : ndarray of shape (size,)
        An unbiased estimate of the weighted mean of all silos' messages: the cohort's weighted sum
        over ``sampled``.
    fraction : float
        The share of all silos' weight that the cohort (or the expected cohort, where who took part
        is secret) holds.
    sampled : float
        Its share of the silos by number; equal to ``fraction`` where weights are equal.
    squared_norm : float
        An estimate of the weighted mean squared norm of the messages before noise; NaN unless
        :attr:`Algorithm.reads_squared_norm` asks for it and the mechanism releases it.
    unclipped : float
        An estimate of the share of the messages within the clip norm; NaN unless that is learnt.
    """

    mean: np.ndarray
    fraction: float = 1.0
    sampled: float = 1.0
    squared_norm: float = float("nan")
    unclipped: float = float("nan")


@dataclass(frozen=True)
class Algorithm:
    """Base class: a frozen dataclass of hyper-parameters with explicit state.

    Subclasses must implement :meth:`init`, :meth:`local`, :meth:`aggregate` and :meth:`params`.
    """

    #: True where the server needs the messages' mean squared norm: whole silos only, where what
    #: leaves a silo is one clipped vector and the statistic is part of it.
    reads_squared_norm = False

    def n_gradients(self, round: int) -> int:
        """Return how many private gradients a silo takes in a round it takes part in."""
        return 1

    def memory_size(self, size: int) -> int:
        """Return the length of the vector a silo keeps between its rounds (0: none)."""
        return 0

    def init(self, params: np.ndarray) -> State:
        """Return the server's state before the first round."""
        raise NotImplementedError

    def broadcast(self, state: State) -> Any:
        """Return what the silos are told; by default the current parameters."""
        return self.params(state)

    def local(self, shared: Any, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        """Return a silo's message."""
        raise NotImplementedError

    def remember(self, shared: Any, memory: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return a silo's memory after a round; by default unchanged.

        ``kept`` is its message as it counts: under unit="silo" clipped, but without the noise,
        which is added on its way out. Memory stays inside the silo.
        """
        return memory

    def aggregate(self, state: State, released: Released) -> State:
        """Return the server's state after a round."""
        raise NotImplementedError

    def idle(self, state: State) -> State:
        """Return the server's state after a round without any silo; by default unchanged.

        Only Poisson cohorts can be empty. A state that counts rounds counts this one too.
        """
        return state

    def params(self, state: State) -> np.ndarray:
        """Return the current model."""
        raise NotImplementedError

    def output_weight(self, round: int, n_rounds: int) -> float:
        """Return the weight of the round's model in the average that is given out.

        By default the second half of the rounds, equally.
        """
        return float(round >= n_rounds // 2)


@dataclass(frozen=True)
class GradientMethod(Algorithm):
    """An algorithm whose message is one gradient at a point the server chose.

    ``local`` is final, so that a cohort's sum of messages is a sum of fresh clipped gradients and
    nothing else: the noise may then be added to that sum (trust="server"). So are ``remember``,
    ``memory_size`` and ``n_gradients``, wherever in the inheritance another one comes from.
    """

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        """Return the gradient at the broadcast point. Not to be overridden."""
        return gradient(shared)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        changed = _changed(cls)
        if changed:
            raise TypeError(
                f"{cls.__name__}: a GradientMethod sends one gradient and keeps nothing, but "
                f"{', '.join(changed)} is not its own; derive from Algorithm to write local steps."
            )


#: what decides a message, and how a silo finds it
_FINAL = {
    name: getattr(GradientMethod, name)
    for name in ("local", "remember", "memory_size", "n_gradients", "__getattribute__")
}


def _changed(kind: type) -> list[str]:
    """Return the names of the final methods that a class has others for."""
    return [name for name, method in _FINAL.items() if getattr(kind, name) is not method]


def sends_one_gradient(algorithm: Algorithm) -> bool:
    """Whether a silo's message is one fresh gradient: the final methods are GradientMethod's own.

    Classes can be changed after they were made, and objects too: this looks at what will run.
    """
    kind = type(algorithm)
    own = not _changed(kind) if issubclass(kind, GradientMethod) else False
    return own and _FINAL.keys().isdisjoint(vars(algorithm))


#: x -> the point of the feasible set nearest to x
Projection = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ball:
    """Projection onto the ball of a radius around the origin; ``inf`` is the whole space."""

    radius: float = float("inf")

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return x scaled down to the ball if it lies outside."""
        if self.radius == float("inf"):
            return x
        norm = np.linalg.norm(x, axis=-1, keepdims=True)
        return x * np.minimum(1.0, self.radius / np.maximum(norm, np.finfo(x.dtype).tiny))
