"""Tests of users' own parts: does one record, or silo, change the results of others?

Algorithms, losses and models from outside see one silo or record at a time. A class with
``stackable = True`` declares that it may see many at once. Here that is tested on made-up numbers:
ordinary ones, zeros, ties and extremes. What the code of any of them keeps (attributes, closures,
globals) is compared before and after. A fit runs these tests before it charges anything. No test
can prove independence: the author has to know of numbers that are treated differently.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpfl._apart import anew, differences, digest, shared_state
from skdpfl.algorithms import Algorithm, Gradient, Released, takes_stacks
from skdpfl.losses import LogLoss, Loss, SquaredError, record_by_record
from skdpfl.models import Activation, Architecture, Model, one_by_one
from skdpfl.privacy.randomness.streams import streams_for

#: packages whose classes are not from outside
_OURS = "skdpfl", "builtins", "abc", "typing", "typing_extensions"
#: silos and records of a trial; its rounds
_SILOS, _ROUNDS = 5, 2
#: how far results may lie apart by rounding, relative to the largest
_TOLERANCE = 1e-9
#: the largest number of a trial, and the least
_LARGEST_NUMBER, _LEAST_NUMBER = 1e6, 1e-6


def check_independent(part: Any, *, size: int = 7) -> None:
    """Raise if an algorithm, a loss, a model or an activation mixes silos or records.

    Use it in the tests of your own class. A class that passes may set ``stackable = True``, and is
    then given many silos or records at once, which is faster. Otherwise it sees one at a time.

    Parameters
    ----------
    part : Algorithm, Loss, Model, Architecture or Activation
        The object to test: with several silos or records at once, and with each alone.
    size : int, default=7
        The number of parameters to test an algorithm with, or of features for an architecture.

    Returns
    -------
    None
        If no difference was found.

    Raises
    ------
    ValueError
        If the results differ, so that silos or records are mixed; if a record's clipped gradient is
        longer than the clip norm; or if the trial changed an attribute, a class, a closure or a
        global that the code names.

    Notes
    -----
    Tests cannot prove independence. They find what shows on ordinary numbers, zeros, ties and
    numbers of very different size.

    See Also
    --------
    skdpfl.privacy.audit_epsilon : A lower bound of epsilon, by fits.

    Examples
    --------
    >>> from skdpfl.algorithms import FedAvg
    >>> from skdpfl.losses import Huber
    >>> from skdpfl.privacy import check_independent
    >>> check_independent(FedAvg(0.1, local_steps=2))
    >>> check_independent(Huber())
    """
    if isinstance(part, Architecture):
        part = part.build(size, 1)
    with _tried(part) as own:
        if isinstance(part, Algorithm):
            _try_algorithm(own, size)
        elif isinstance(part, Loss):
            for n_outputs in (1, 3) if part.is_classifier else (1,):
                _try_loss(own, n_outputs)
        elif isinstance(part, Model):
            _try_model(own)
        elif isinstance(part, Activation):
            _try_activation(own)
        else:
            raise TypeError(
                "check_independent takes an algorithm, a loss, a model, an architecture or an "
                f"activation; got {type(part).__name__}."
            )


def check_declared(algorithm: Algorithm, loss: Loss, model: Model) -> None:
    """Raise if a part of a fit from outside mixes silos or records in a test.

    A part that is declared stackable may mix them within a call. Others see one at a time, on fresh
    copies, but may keep something that no copy holds apart.
    """
    if _is_from_outside(algorithm):
        with _tried(algorithm) as own:
            _try_algorithm(own, model.size, stacks=takes_stacks(algorithm))
    if _is_from_outside(loss):
        with _tried(loss) as own:
            _try_loss(record_by_record(own, raises=True), model.n_outputs)
    activation = getattr(model, "activation", None)
    if _is_from_outside(model) or one_by_one(model) is not model:
        with _tried(model) as own:
            _try_model(one_by_one(own, raises=True))
    elif isinstance(activation, Activation) and _is_from_outside(activation):
        with _tried(activation) as own:
            _try_activation(own)


def _is_from_outside(part: Any) -> bool:
    """Whether a class is a user's."""
    return any(kind.__module__.split(".")[0] not in _OURS for kind in type(part).__mro__)


@contextmanager
def _tried(part: Any) -> Iterator[Any]:
    """Give a copy for a trial; raise if it, or the code that it is made of, keeps something."""
    own, before, error = anew(part)(), shared_state(part), None
    attributes = digest(own)
    try:
        yield own
    except ValueError as raised:
        error = raised
    changes = differences(before, shared_state(part))
    if digest(own) != attributes:
        changes = ", ".join(filter(None, ["its attributes", changes]))
    if changes:
        raise ValueError(
            f"{type(part).__name__} keeps something of a call: {changes} changed. What it keeps of "
            "one record or silo reaches the next, which no cost covers. Return results only."
        ) from error
    if error is not None:
        raise error


def _mixes(part: Any, what: str, how: str) -> ValueError:
    return ValueError(
        f"{type(part).__name__} mixes {what}: {how}. The result for each may depend on that one "
        "only; the usual cause is an operation without axis=-1. Mend it, or leave out stackable = "
        f"True: it then sees one {what.removesuffix('s')} at a time."
    )


def _alike(a: Any, b: Any) -> bool:
    """Whether two results are equal up to rounding."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return False
    known = np.abs(b[np.isfinite(b)])
    close = _TOLERANCE * float(known.max(initial=0.0))
    return bool(
        np.isclose(a, b, rtol=_TOLERANCE, atol=min(close, _TOLERANCE), equal_nan=True).all()
    )


# ---- algorithms ----------------------------------------------------------------------------------


class _MadeUp(Gradient):
    """Gradients of made-up objectives: slopes times parameters, plus offsets; of some silos."""

    def __init__(self, slopes: NDArray, offsets: NDArray, n_steps: int) -> None:
        self.slopes, self.offsets, self.n_steps = slopes, offsets, n_steps

    def __call__(self, params: NDArray) -> NDArray:
        return self.slopes * np.asarray(params) + self.offsets


def _silos(size: int) -> Iterator[NDArray]:
    """Yield tables with a row for each silo: ordinary numbers, zeros, ties and extremes."""
    rows = np.random.default_rng(0).normal(size=(_SILOS, size))
    yield rows
    for row in (0.0, _LARGEST_NUMBER, _LEAST_NUMBER, -_LARGEST_NUMBER):
        odd = rows.copy()
        odd[1] = row * rows[1]
        yield odd
    yield np.repeat(rows[:1], _SILOS, axis=0)
    yield np.zeros((_SILOS, size))


def _try_algorithm(algorithm: Algorithm, size: int, *, stacks: bool = True) -> None:
    """Raise if messages or memories differ between a stack of silos and silos one by one.

    ``stacks``: whether silos are tried together at all.
    """
    new = (lambda: algorithm) if stacks else anew(algorithm)
    slopes = np.random.default_rng(1).uniform(0.1, 1.0, (_SILOS, size))
    for offsets in _silos(size):
        state = algorithm.init(np.random.default_rng(2).normal(size=size))
        memory = np.zeros((_SILOS, algorithm.memory_size(size)))
        for r in range(_ROUNDS):
            shared, n_steps = algorithm.broadcast(state), algorithm.n_gradients(r)
            local = partial(_local, shared, n_steps)
            sent = _by_silo(algorithm, new, local, (memory, slopes, offsets), stacks, "messages")
            remember = partial(_remember, shared)
            memory = _by_silo(algorithm, new, remember, (memory, sent), stacks, "memories")
            squared = float(np.square(sent).sum(axis=-1).mean())
            state = algorithm.aggregate(state, Released(sent.mean(axis=0), 1.0, 1.0, squared, 0.5))


def _local(
    shared: Any, n_steps: int, own: Algorithm, memory: NDArray, slopes: NDArray, offsets: NDArray
) -> NDArray:
    return own.local(shared, memory, _MadeUp(slopes, offsets, n_steps))


def _remember(shared: Any, own: Algorithm, memory: NDArray, sent: NDArray) -> NDArray:
    return own.remember(shared, memory, sent)


def _by_silo(
    algorithm: Algorithm,
    new: Callable[[], Algorithm],
    call: Callable[..., NDArray],
    rows: tuple[NDArray, ...],
    stacks: bool,
    what: str,
) -> NDArray:
    """Return the results of a call for each silo; raise if those of a stack of silos differ."""
    alone = [call(new(), *(part.copy() for part in each)) for each in zip(*rows, strict=True)]
    if stacks and not _alike(call(new(), *(part.copy() for part in rows)), alone):
        how = f"{what} of several silos together differ from those of each alone"
        raise _mixes(algorithm, "silos", how)
    return np.array(alone)


# ---- losses --------------------------------------------------------------------------------------


def _targets(loss: Loss, n: int, n_outputs: int) -> NDArray:
    """Return made-up targets."""
    rng = np.random.default_rng(3)
    if loss.is_classifier:
        return rng.integers(0, max(2, n_outputs), n)
    low, high = loss.target_range
    middle = rng.normal(size=n) if low == -np.inf else low + np.abs(rng.normal(size=n))
    middle[:2] = np.clip(0.0, low, high)
    return np.clip(middle, low, high)


def _raws(n: int, n_outputs: int) -> Iterator[NDArray]:
    """Yield made-up raw predictions: ordinary ones, zeros, ties and extremes."""
    rows = np.random.default_rng(4).normal(size=(n, n_outputs))
    yield rows
    for value in (0.0, 1e2, -1e2, _LARGEST_NUMBER):
        odd = rows.copy()
        odd[1] = value
        yield odd
    yield np.zeros((n, n_outputs))


def _try_loss(loss: Loss, n_outputs: int) -> None:
    """Raise if values or slopes differ between records together and one by one."""
    norms = np.random.default_rng(5).uniform(0.5, 2.0, _SILOS)
    y = _targets(loss, _SILOS, n_outputs)
    for raw in _raws(_SILOS, n_outputs):
        for name in ("value", "gradient"):
            of = getattr(loss, name)
            with np.errstate(all="ignore"):
                together = of(y, raw.copy(), squared_norms=norms)
                stack = of(y[None], raw[None].copy(), squared_norms=norms[None])
                alone = [of(y[[j]], raw[[j]], squared_norms=norms[[j]])[0] for j in range(_SILOS)]
            if not (_alike(together, alone) and _alike(stack[0], alone)):
                how = f"{name} of a batch differs from that of each record alone"
                raise _mixes(loss, "records", how)


# ---- models --------------------------------------------------------------------------------------


def _try_model(model: Model) -> None:
    """Raise if raw predictions or sums differ between records together and one by one."""
    loss = SquaredError() if model.n_outputs == 1 else LogLoss()
    params = model.init(streams_for(0).stream("trial"), np.dtype(float))
    params = params + 0.1 * np.random.default_rng(6).normal(size=params.shape)
    y = _targets(loss, _SILOS, model.n_outputs).astype(float if model.n_outputs == 1 else int)
    for X in _silos(model.n_features):
        alone = [model.raw(params, X[[j]])[0] for j in range(_SILOS)]
        if not _alike(model.raw(params, X), alone):
            how = "raw predictions of a batch differ from those of each record alone"
            raise _mixes(model, "records", how)
        _try_sums(model, params, X, y, loss)


def _try_sums(model: Model, params: NDArray, X: NDArray, y: NDArray, loss: Loss) -> None:
    clip = 0.5

    def of(rows: Any, some: NDArray) -> NDArray:
        with np.errstate(all="ignore"):
            return model.clipped_gradient_sum(some, X[rows], y[rows], loss, clip_norm=clip)

    alone = np.array([of([j], params) for j in range(_SILOS)])
    if (np.linalg.norm(alone, axis=-1) > clip * (1 + _TOLERANCE)).any():
        raise ValueError(
            f"{type(model).__name__}: one record's part of clipped_gradient_sum is longer than "
            "clip_norm, which the noise is calibrated for."
        )
    if not _alike(of(slice(None), params), alone.sum(axis=0)):
        raise _mixes(model, "records", "the sum of a batch differs from the sum over its records")
    pairs = np.arange(_SILOS - 1)[:, None] + np.arange(2)
    stack = of(pairs, np.broadcast_to(params, (len(pairs), model.size)))
    if not _alike(stack, alone[pairs].sum(axis=1)):
        how = "sums of several silos together differ from those of each alone"
        raise _mixes(model, "silos", how)


def _try_activation(activation: Activation) -> None:
    """Raise if one number changes the values for others."""
    for z in _silos(_SILOS):
        together = activation.value(z.copy())
        alone = [[activation.value(np.array([[v]]))[0, 0] for v in row] for row in z]
        slopes = [[activation.slope(np.array([[v]]))[0, 0] for v in row] for row in together]
        same = _alike(together, alone) and _alike(activation.slope(together.copy()), slopes)
        if not same:
            how = "values for several numbers together differ from those for each alone"
            raise _mixes(activation, "records", how)
