"""Base classes of algorithms: a silo's part and the server's part of a round.

One round::

    server   shared           = broadcast(state)
    silo i   message_i        = local(shared, memory_i, gradient)
             kept_i           = message_i (unit "silo": clipped), before any noise
             memory_i         = remember(shared, memory_i, kept_i)
    server   state            = aggregate(state, released)     (idle(state) if nobody took part)

Vectors are flat, on the last axis. ``gradient(params)`` is private and counts its uses: a round
must use exactly ``n_gradients(round)`` of them, or the fit raises. The server receives a
:class:`Released`, never a message. ``local`` and ``remember`` of a user-defined algorithm receive
one silo, ``(size,)``, on a separate copy of the algorithm that sees no other silo. If its class
sets ``stackable = True``, they receive stacks ``(n_silos, size)``, which is faster; so do those of
this package. So an algorithm can waste privacy but not break it, as long as its code uses only the
arguments of these methods: Python cannot stop code that searches other objects for records.

Formal guarantee
----------------
If noise is added after messages leave the silo (trust "server", shufflers), or if other silos'
noise counts (the outsider's view), a silo's message must be one fresh gradient.
:func:`sends_one_gradient` checks the object that is about to run: it must be an instance of
:class:`GradientMethod` whose methods that determine the message are those of this module, whatever
classes it inherits from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from skdpfl._apart import is_stackable
from skdpfl._arguments import check_number

#: the server's state, of any type
State = Any


class Gradient(Protocol):
    """A private gradient: ``gradient(params)`` at (..., size), used ``n_steps`` times per round.

    The caller may overwrite the result. :meth:`descent` is the loop over all steps; where these
    have no noise of their own it may be faster, with the same bits.
    """

    n_steps: int

    def __call__(self, params: np.ndarray) -> np.ndarray: ...

    def descent(
        self,
        params: np.ndarray,
        rate: float,
        *,
        correction: np.ndarray | None = None,
        momentum: float = 0.0,
    ) -> np.ndarray:
        """Return how far all steps of the round lead; this uses every gradient.

        ::

            v = momentum v + gradient(params + moved) + correction,   moved = moved - rate v

        Parameters
        ----------
        params : ndarray of shape (..., size)
            Where the steps begin.
        rate : float
            The step size.
        correction : ndarray of shape (..., size), optional
            Added to each gradient.
        momentum : float, default=0.0
            The share of v that is kept.

        Returns
        -------
        ndarray of shape (..., size)
            The sum of the steps.

        Examples
        --------
        >>> class OfASquare(Gradient):
        ...     n_steps = 2
        ...
        ...     def __call__(self, params):
        ...         return 2 * params
        >>> OfASquare().descent(np.array([1.0]), 0.25)
        array([-0.75])
        """
        moved: np.ndarray | float = 0.0
        velocity: np.ndarray | float = 0.0
        for _ in range(self.n_steps):
            step = self(params + moved)
            if correction is not None:
                step += correction
            if momentum:
                velocity = momentum * velocity + step
                step = velocity * -rate
            else:
                step *= -rate
            step += moved
            moved = step
        return np.asarray(moved)


@dataclass(frozen=True)
class Released:
    """The private result of a round, which the server receives.

    Attributes
    ----------
    mean : ndarray of shape (size,)
        An unbiased estimate of the weighted mean of all silos' messages: the cohort's weighted sum
        over ``sampled``.
    fraction : float
        The cohort's share of the total weight of all silos; if the cohort is secret, its expected
        share.
    sampled : float
        The cohort's share of the number of silos; equal to ``fraction`` for equal weights.
    squared_norm : float
        An estimate of the weighted mean squared norm of the messages before noise; NaN unless
        :attr:`Algorithm.reads_squared_norm` is set and the mechanism releases it.
    unclipped : float
        An estimate of the share of messages within the clip norm; NaN unless the clip norm is
        learnt.
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

    #: of a class from outside: its author declares that ``local`` and ``remember`` take stacks
    #: of silos, one a row, and that no row of their results depends on another
    #: (:func:`skdpfl.privacy.check_independent` tries that)
    stackable: ClassVar[bool]

    #: Whether the server needs the mean squared norm of messages. Only for unit="silo", where a
    #: silo sends one clipped vector of which the statistic is a part.
    reads_squared_norm = False
    #: the largest mean squared norm of a silo's rows (an intercept's 1 counted) for which local
    #: steps are short enough. Under unit="silo", where a silo's message may be any function of its
    #: records, silos with longer rows divide their gradients by the excess.
    squared_row = float("inf")

    def n_gradients(self, round: int) -> int:
        """Return the number of private gradients of a participating silo in a round."""
        return 1

    def memory_size(self, size: int) -> int:
        """Return the length of the vector a silo keeps between its rounds (0: none)."""
        return 0

    def init(self, params: np.ndarray) -> State:
        """Return the server's state before the first round."""
        raise NotImplementedError

    def broadcast(self, state: State) -> Any:
        """Return what the server sends to silos; by default the current parameters."""
        return self.params(state)

    def accepts(self, shared: Any, size: int) -> bool:
        """Whether this is a valid broadcast in a fit with ``size`` parameters.

        Remote silos check it before they pay. By default the broadcast is a parameter vector.
        """
        return is_vector(shared, size)

    def local(self, shared: Any, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        """Return a silo's message, (size,); of a stack of silos, (n_silos, size)."""
        raise NotImplementedError

    def remember(self, shared: Any, memory: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return a silo's memory after a round; by default unchanged.

        ``kept`` is its message before noise, clipped under unit="silo". Memory never leaves the
        silo.
        """
        return memory

    def aggregate(self, state: State, released: Released) -> State:
        """Return the server's state after a round."""
        raise NotImplementedError

    def heavy_ball(self) -> tuple[float, float] | None:
        """Return step and momentum if all rounds are ``v = m v + mean, params -= step v``.

        None otherwise. The effect of the noise of such rounds on the model can be computed.
        """
        return None

    def idle(self, state: State) -> State:
        """Return the server's state after a round without any silo; by default unchanged.

        Only Poisson cohorts can be empty. A state that counts rounds must count such a round.
        """
        return state

    def params(self, state: State) -> np.ndarray:
        """Return the current model."""
        raise NotImplementedError

    def moves(self, round: int) -> bool:
        """Return whether the model changes in a round; other rounds are left out of averages."""
        return True

    def start_weight(self, n_rounds: int) -> float:
        """Return the weight of the model before the first round in the final average."""
        return 0.0

    def output_weight(self, round: int, n_rounds: int) -> float:
        """Return the weight of the model after the round in the final average.

        By default the models of the second half of the rounds have equal weights.
        """
        return float(round >= n_rounds // 2)


def steps_in(local_steps: int | tuple[int, ...], round: int) -> int:
    """Return the steps of a round: one number, or one for each round."""
    return int(local_steps) if isinstance(local_steps, (int, np.integer)) else local_steps[round]


@dataclass(frozen=True)
class GradientMethod(Algorithm):
    """An algorithm whose message is one gradient at a point the server chose.

    ``local`` is final, so that the sum of a cohort's messages is a sum of fresh clipped gradients,
    to which noise may be added (trust="server"). ``remember``, ``memory_size`` and ``n_gradients``
    are final, too. No other base class may replace them either.

    Subclasses with a field ``local_steps`` (a number, or one for each round) also take K > 1 steps
    of ``local_learning_rate`` in each silo, where ``trust`` and ``unit`` allow it. A message is
    then the mean of these K gradients.
    """

    #: K, and the silos' step size if K > 1; subclasses may have fields of these names
    local_steps = 1
    local_learning_rate = 1.0

    def n_gradients(self, round: int) -> int:
        """Return K. Not to be overridden."""
        return steps_in(self.local_steps, round)

    def local(self, shared: np.ndarray, memory: np.ndarray, gradient: Gradient) -> np.ndarray:
        """Return the gradient at the broadcast point, or a mean of K. Not to be overridden."""
        if gradient.n_steps == 1:
            return gradient(shared)
        total: np.ndarray | float = 0.0
        for _ in range(gradient.n_steps):
            total = total + gradient(shared - self.local_learning_rate * total)
        return np.asarray(total) / gradient.n_steps

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        changed = _changed(cls)
        if changed:
            raise TypeError(
                f"{cls.__name__} must not override {', '.join(changed)}: a GradientMethod sends "
                "one gradient and keeps no state. Derive from Algorithm to write other local steps."
            )


#: the methods that decide a message
_FINAL = {
    name: getattr(GradientMethod, name)
    for name in ("local", "remember", "memory_size", "n_gradients", "__getattribute__")
}


def _changed(kind: type) -> list[str]:
    """Return the names of the final methods that a class replaces."""
    return [name for name, method in _FINAL.items() if getattr(kind, name) is not method]


def sends_one_gradient(algorithm: Algorithm) -> bool:
    """Return whether a silo's message is one fresh gradient, i.e. no final method is overridden.

    Classes and objects can be changed after their creation, so this checks the code that will run.
    """
    kind = type(algorithm)
    if not isinstance(algorithm, GradientMethod) or _changed(kind):
        return False
    steps = algorithm.local_steps
    single = steps == 1 if isinstance(steps, int) else np.all(np.asarray(steps) == 1)
    return bool(single) and _FINAL.keys().isdisjoint(vars(algorithm))


#: the server's methods, which see no message: an algorithm from outside may have its own
_SERVERS = frozenset((
    "reads_squared_norm", "n_gradients", "memory_size", "init", "broadcast", "accepts",
    "aggregate", "heavy_ball", "idle", "params", "moves", "start_weight", "output_weight",
))  # fmt: skip


def takes_stacks(algorithm: Algorithm) -> bool:
    """Whether the silos' part of an algorithm may be called with many silos at once."""
    return is_stackable(algorithm, _SERVERS)


def is_vector(values: Any, size: int) -> bool:
    """Whether these are ``size`` floating-point numbers."""
    is_array = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    return is_array and values.shape == (size,)


#: x -> the point of the feasible set nearest to x
Projection = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ball:
    """Projection onto a ball around the origin; the identity for radius ``inf``."""

    radius: float = float("inf")

    def __post_init__(self) -> None:
        check_number("radius", self.radius, low=0)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return x scaled down to the ball if it lies outside."""
        if self.radius == float("inf"):
            return x
        norm = np.sqrt(np.add.reduce(x * x, axis=-1, keepdims=True))
        return x * np.minimum(1.0, self.radius / np.maximum(norm, np.finfo(x.dtype).tiny))
