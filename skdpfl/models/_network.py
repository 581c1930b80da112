"""Fully connected networks with flat parameters, and the class that estimators take.

Shapes (leading axes, written ``...``, are silos; they broadcast)::

    h_0 = d, h_1, .., h_{L-1}, h_L = k       units
    params   (..., P)          W_0 (h_0, h_1) in C order, b_0 (h_1,), W_1, b_1, ...
    X = a_0  (..., n, d)       a_{l+1} = activation(a_l W_l + b_l),  raw = a_{L-1} W_{L-1} + b_{L-1}
    s_l      (..., n, h_{l+1}) gradient in a_l W_l + b_l: s_{L-1} = dloss / draw,
                               s_{l-1} = (s_l W_l^T) * activation'(..)

The gradient of record j in (W_l, b_l) is (a_l, 1) s_l^T. Its norm follows from those of a_l and s_l
(:mod:`skdpfl.models._clipping`), and the clipped sum is one matrix product for each layer.

Formal guarantee. Row j of every a_l and s_l depends on row j of the records and on the weights
only, bit for bit (:func:`_forward_rows`, :func:`backward`): neither the number of rows nor
a row's place changes it. *Proof.* Products are those of :mod:`skdpfl.models._products`; activations
and losses act on single numbers or sum over a row.

Activations of a network's hidden layers, whose derivatives follow from their values.

::

    relu               max(z, 0)
    tanh               tanh(z)
    tempered sigmoid   s / (1 + exp(-T z)) - o        (s, T, o) = (2, 2, 1) is tanh

Bounded activations keep gradients short under clipping: Papernot, Thakurta, Song, Chien and
Erlingsson (AAAI 2021).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import expit

from skdpfl._arguments import check_count, check_number, check_positive
from skdpfl.losses import Loss
from skdpfl.models._base import Architecture, Maps, Model, Start
from skdpfl.models._clipping import clip_factors, row_norms, zero_unless
from skdpfl.models._products import Records, row_products
from skdpfl.models._rules import NetworkRules
from skdpfl.privacy.randomness.streams import Stream


class Activation(ABC):
    """Base class: an elementwise function whose derivative is a function of its value.

    A new one is a frozen dataclass with :meth:`value` and :meth:`slope`. Networks with a
    user-defined activation process one record at a time, which is slow, unless its class sets
    ``stackable = True``, which declares that it acts elementwise.
    """

    stackable: ClassVar[bool]

    @property
    def gain(self) -> float:
        """Mean square of the function over that of its argument, for small arguments."""
        return 1.0

    @abstractmethod
    def value(self, z: NDArray) -> NDArray:
        """Return the function of ``z``, which may be overwritten.

        Parameters
        ----------
        z : ndarray
            Any shape, float32 or float64.

        Returns
        -------
        ndarray
            The same shape and dtype.
        """

    @abstractmethod
    def slope(self, value: NDArray) -> NDArray:
        """Return the derivative at the point where the function has this value.

        Parameters
        ----------
        value : ndarray
            A result of :meth:`value`.

        Returns
        -------
        ndarray
            The same shape and dtype; may be boolean.
        """


@dataclass(frozen=True)
class Relu(Activation):
    """max(z, 0)."""

    @property
    def gain(self) -> float:
        return 0.5

    def value(self, z: NDArray) -> NDArray:
        return np.maximum(z, 0, out=z)

    def slope(self, value: NDArray) -> NDArray:
        return value > 0


@dataclass(frozen=True)
class Tanh(Activation):
    """tanh(z)."""

    def value(self, z: NDArray) -> NDArray:
        return np.tanh(z, out=z)

    def slope(self, value: NDArray) -> NDArray:
        return 1 - value * value


@dataclass(frozen=True)
class TemperedSigmoid(Activation):
    """scale / (1 + exp(-inverse_temperature * z)) - offset.

    Parameters
    ----------
    scale : float, default=2.0
        Height s of the step.
    inverse_temperature : float, default=2.0
        T, the steepness.
    offset : float, default=1.0
        The constant o, which is subtracted.

    See Also
    --------
    MLP : The network that uses it.

    References
    ----------
    Papernot, Thakurta, Song, Chien and Erlingsson (2021). "Tempered sigmoid activations for deep
    learning with differential privacy." AAAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.models import TemperedSigmoid
    >>> z = np.array([-1.0, 0.0, 2.0])
    >>> bool(np.allclose(TemperedSigmoid().value(z.copy()), np.tanh(z)))
    True
    """

    scale: float = 2.0
    inverse_temperature: float = 2.0
    offset: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_positive("inverse_temperature", self.inverse_temperature)
        check_number("offset", self.offset)

    @property
    def gain(self) -> float:
        """The square of the slope at 0."""
        return (self.scale * self.inverse_temperature / 4) ** 2

    def value(self, z: NDArray) -> NDArray:
        z *= z.dtype.type(self.inverse_temperature)
        expit(z, out=z)
        z *= z.dtype.type(self.scale)
        z -= z.dtype.type(self.offset)
        return z

    def slope(self, value: NDArray) -> NDArray:
        kind = value.dtype.type
        above = value + kind(self.offset)
        return above * (kind(self.scale) - above) * kind(self.inverse_temperature / self.scale)


ACTIVATIONS: dict[str, Activation] = {"relu": Relu(), "tanh": Tanh()}


#: weights (..., h_l, h_{l+1}) and intercepts (..., h_{l+1}) of a layer
Layer = tuple[NDArray, NDArray]


#: standard deviation of a single output's first weights, over that of other weights
_SINGLE = 0.3
#: maximum parameter count
_MOST_PARAMETERS = 10**15


@dataclass(frozen=True, eq=False)
class Network(Model):
    """A fully connected network.

    Parameters
    ----------
    n_features : int
        Number d of features.
    n_outputs : int
        Number k of raw predictions of a record.
    hidden : tuple of int
        Units of the hidden layers.
    activation : Activation
        Of the hidden layers.
    start : Start, optional
        Public weights to start from; None: random ones.
    """

    n_features: int
    n_outputs: int
    hidden: tuple[int, ...]
    activation: Activation
    start: Start | None = None

    def __post_init__(self) -> None:
        if min(self.units) < 1:
            raise ValueError(f"Each layer needs at least one unit; got {self.units}.")
        if self.size > _MOST_PARAMETERS:
            raise ValueError(f"A network of {self.units} units has more than 1e15 parameters.")
        if self.start is not None:
            self.start.check(self.units)

    @property
    def units(self) -> tuple[int, ...]:
        """Numbers of units, the features first."""
        return (self.n_features, *self.hidden, self.n_outputs)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum((a + 1) * b for a, b in pairwise(self.units))

    @property
    def numbers_per_record(self) -> int:
        """Features, and the values and slopes of all units."""
        return self.n_features + 2 * sum(self.units[1:])

    @property
    def rules(self) -> NetworkRules:
        """Steps and clip norms of networks."""
        return NetworkRules()

    def split(self, params: NDArray) -> list[tuple[NDArray, NDArray]]:
        """Return views: each layer's weights (..., h_l, h_{l+1}) and intercepts (..., h_{l+1})."""
        layers, start = [], 0
        for a, b in pairwise(self.units):
            weights = params[..., start : start + a * b].reshape(*params.shape[:-1], a, b)
            layers.append((weights, params[..., start + a * b : start + (a + 1) * b]))
            start += (a + 1) * b
        return layers

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point: the given one, or random weights and zero intercepts.

        Weights are normal with variance 1 / (h_l gain), so that units of all layers have similar
        variance; those of a single output are smaller, which improves regression and does not
        change classification.
        """
        params = np.zeros(self.size, dtype)
        if self.start is not None:
            layers = zip(self.split(params), self.start.layers, strict=True)
            for (weights, intercept), (w, b) in layers:
                weights[:], intercept[:] = w, b
            return params
        if stream is None:
            raise ValueError("A network starts with random weights: give a stream.")
        gain = 1.0  # of what enters the first layer
        for weights, _ in self.split(params):
            std = 1 / np.sqrt(len(weights) * gain)
            weights[:] = std * stream.normal(weights.shape)
            gain = self.activation.gain
        if self.n_outputs == 1:
            self.split(params)[-1][0][:] *= _SINGLE
        return params

    def started(self, maps: Maps) -> Network:
        """Return the network with its start in the units of the scaled data."""
        if self.start is None:
            return self
        return replace(self, start=self.start.scaled(maps))

    def penalty_mask(self) -> NDArray:
        """Return 1 for weights and 0 for intercepts, which are not penalised, flat."""
        mask = np.ones(self.size)
        for _, intercept in self.split(mask):
            intercept[:] = 0
        return mask

    def output_mask(self) -> NDArray:
        """Return 1 for the last layer and 0 for the others, flat."""
        mask = np.zeros(self.size)
        for part in self.split(mask)[-1]:
            part[:] = 1
        return mask

    def intercept_mask(self) -> NDArray:
        """Return 1 for the last layer's intercepts and 0 for all else, flat."""
        mask = np.zeros(self.size)
        self.split(mask)[-1][1][:] = 1
        return mask

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        return self._forward(self.split(params), X)[1]

    def _forward(self, layers: list[Layer], X: NDArray) -> tuple[list[NDArray], NDArray]:
        """Return what enters each layer, and the raw predictions."""
        return forward(layers, self.activation, X)

    @np.errstate(all="ignore")
    def clipped_gradient_sums(
        self,
        params: NDArray,
        records: Records,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray,
        weights: NDArray | None = None,
        chunk: int | None = None,
    ) -> NDArray:
        """Return each silo's :meth:`clipped_gradient_sum`; records of all silos at once.

        Notes
        -----
        **Formal guarantee.** That of `Model.clipped_gradient_sum`. *Proof.* Row j of every a_l and
        s_l is a function of `params` and of row j of X and y, bit for bit
        (`skdpfl.models._network`). c_j consists of the outer products (a_l, 1) (f s_l)^T of stored
        numbers, of norm at most C by `skdpfl.models._clipping`. If any of a_l, s_l, their
        squared norms, or the target is not finite, all of the record's rows are set to 0, so
        c_j = 0; this is decided before clipping. Each coordinate of the sum is a sum over records
        of one product each, like the linear model's: at most `chunk` of them are added up, in some
        order, before chunks are: `skdpfl.privacy.release` counts that. Factors of
        weight 0 make f 0: such a record does not change the result.
        """
        lengths, layers = records.lengths, self.split(params)
        X = np.ascontiguousarray(records.gathered())
        entering, raw = _forward_rows(layers, self.activation, X, records.edges)
        last = loss.gradient(y, raw, squared_norms=squared_norms, out=raw)
        slopes = backward(layers, self.activation, entering, last, records.edges)
        ahead = [squared_norms, *(row_norms(a, 1.0) for a in entering[1:])]
        squared = [(A, row_norms(s, 0.0)) for A, s in zip(ahead, slopes, strict=True)]
        good = finite(squared, y)
        if not good.all():
            entering = [zero_unless(good, a) for a in entering]
            slopes = [zero_unless(good, s) for s in slopes]
            squared = [(np.where(good, A, 1), np.where(good, D, 1)) for A, D in squared]
        clip = np.repeat(clip_norm, lengths) if np.ndim(clip_norm) else clip_norm
        factors = clip_factors(squared, clip, max(self.units))
        if weights is not None:
            factors = weights if factors is None else factors * weights
        if factors is not None:
            slopes = [np.multiply(s, factors[:, None], out=s) for s in slopes]
        return self._sums(entering, slopes, records.edges, chunk)

    def _sums(
        self, entering: list[NDArray], slopes: list[NDArray], edges: NDArray, chunk: int | None
    ) -> NDArray:
        """Return each silo's flat sums of outer products, at most ``chunk`` records at a time."""
        lengths = np.diff(edges)
        out = np.empty((len(lengths), self.size), slopes[0].dtype)
        each: Iterable[tuple[Any, tuple[int, int]]] = enumerate(pairwise(edges.tolist()))
        if len(lengths) > 1 and (lengths == lengths[0]).all():  # the same in fewer calls
            n, most = len(lengths), int(lengths[0])
            stacked = ([v.reshape(n, most, v.shape[1]) for v in p] for p in (entering, slopes))
            (entering, slopes), each = stacked, [(slice(None), (0, most))]
        parts = list(zip(self.split(out), entering, slopes, strict=True))
        for i, (start, stop) in each:
            for rows in pieces(start, stop, chunk):
                for (w, b), a, s in parts:
                    some = a[..., rows, :], s[..., rows, :]
                    _add_outer(w[i], b[i], *some, add=rows.start > start)
        return out

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``coefs_`` and ``intercepts_``, lists of a layer's (h_l, h_{l+1}) and (h_{l+1},).

        The first layer undoes the map of the features, the last one that of the target.
        """
        layers = [(w.T, b) for w, b in self.split(params.astype(np.float64))]
        layers[0] = maps.features.unscale(*layers[0])
        layers[-1] = maps.target.unscale(*layers[-1])
        kind = params.dtype
        return {
            "coefs_": [np.ascontiguousarray(w.T, dtype=kind) for w, _ in layers],
            "intercepts_": [b.astype(kind) for _, b in layers],
        }

    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        """Return raw predictions by the fitted layers."""
        layers = list(zip(attributes["coefs_"], attributes["intercepts_"], strict=True))
        return self._forward(layers, X)[1]


@dataclass(eq=False, repr=False)
class MLP(Architecture):
    """A fully connected network, for the ``model`` of any estimator.

    Records' gradients are clipped by the norms of the layers' inputs and slopes, without computing
    any of them. Fitted estimators have ``coefs_`` and ``intercepts_``, lists with one array per
    layer, like scikit-learn's ``MLPClassifier``.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(100,)
        Units of the hidden layers.
    activation : {"relu", "tanh"} or TemperedSigmoid, default="relu"
        Of the hidden layers.
    start : public weights, default=None
        Initial weights, given as ``public(model)``: they are declared public, in the units of ``X``
        and ``y``. None draws them from ``random_state``, in a separate stream.

    See Also
    --------
    TemperedSigmoid : A bounded activation.
    public : Declares weights to start from.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdpfl import DPFedAvgClassifier
    >>> from skdpfl.models import MLP
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPFedAvgClassifier(
    ...     20.0, model=MLP((30,)), feature_bounds=(0, 16), local_steps=1, random_state=0
    ... )
    >>> clf.fit(X, y, silos=[i % 3 for i in range(len(y))]).score(X, y) > 0.8
    True
    >>> [w.shape for w in clf.coefs_]
    [(64, 30), (30, 10)]
    """

    hidden_layer_sizes: Any = (100,)
    activation: Any = "relu"
    start: Start | None = None

    def build(self, n_features: int, n_outputs: int) -> Network:
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) or np.ndim(sizes) > 1:
            raise ValueError(f"hidden_layer_sizes must be a sequence of integers; got {sizes!r}.")
        hidden = tuple(check_count("hidden_layer_sizes", h) for h in np.atleast_1d(sizes).tolist())
        if self.start is not None and not isinstance(self.start, Start):
            raise ValueError(
                "start must be None or public(model), which declares that the weights are public; "
                f"got {self.start!r}."
            )
        return Network(n_features, n_outputs, hidden, self._activation(), self.start)

    def _activation(self) -> Activation:
        activation = self.activation
        if isinstance(activation, Activation):
            return activation
        if isinstance(activation, str) and activation in ACTIVATIONS:
            return ACTIVATIONS[activation]
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(
            f"activation must be one of {names} or TemperedSigmoid(...); got {activation!r}."
        )


def forward(
    layers: Sequence[Layer], activation: Activation, X: NDArray
) -> tuple[list[NDArray], NDArray]:
    """Return what enters each layer, and the raw predictions."""
    entering, z = [], X
    for i, (weights, intercept) in enumerate(layers):
        entering.append(z if i == 0 else activation.value(z))
        z = np.matmul(entering[-1], weights)
        z += intercept[..., None, :]
    return entering, z


def _forward_rows(
    layers: Sequence[Layer], activation: Activation, X: NDArray, edges: NDArray
) -> tuple[list[NDArray], NDArray]:
    """Return the same of the records of several silos, exact."""
    entering, z = [], X
    for i, (weights, intercept) in enumerate(layers):
        entering.append(z if i == 0 else activation.value(z))
        z = row_products(entering[-1], weights, edges)
        z += intercept if intercept.ndim == 1 else np.repeat(intercept, np.diff(edges), axis=0)
    return entering, z


def backward(
    layers: Sequence[Layer],
    activation: Activation,
    entering: Sequence[NDArray],
    last: NDArray,
    edges: NDArray,
) -> list[NDArray]:
    """Return the slopes s_l of all layers, in their order, exact; ``last`` are those of raw."""
    slopes = [last]
    for (weights, _), a in zip(layers[:0:-1], entering[:0:-1], strict=True):
        slopes.append(row_products(slopes[-1], np.swapaxes(weights, -1, -2), edges))
        slopes[-1] *= activation.slope(a)
    return slopes[::-1]


def finite(squared: Sequence[tuple[NDArray, NDArray]], y: NDArray) -> NDArray:
    """Return which records have finite norms and targets throughout, (..., n)."""
    norms = [norm for pair in squared for norm in pair]
    good = np.isfinite(norms[0])
    for norm in norms[1:]:
        good = good & np.isfinite(norm)
    return good & np.isfinite(y) if y.dtype.kind == "f" else good


def _add_outer(weights: NDArray, intercept: NDArray, a: NDArray, s: NDArray, *, add: bool) -> None:
    """Write a layer's sum over records of (a, 1) s^T into ``weights`` and ``intercept``."""
    if add:
        weights += np.matmul(np.swapaxes(a, -1, -2), s)
        intercept += np.add.reduce(s, axis=-2)
    else:
        np.matmul(np.swapaxes(a, -1, -2), s, out=weights)
        np.add.reduce(s, axis=-2, out=intercept)


def pieces(start: int, stop: int, chunk: int | None) -> Iterator[slice]:
    """Yield slices of equal length, of at most ``chunk`` records."""
    n, count = stop - start, 1 if chunk is None else max(1, -(-(stop - start) // chunk))
    return (slice(a, b) for a, b in pairwise(start + n * i // count for i in range(count + 1)))
