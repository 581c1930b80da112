"""Base class of models: flat parameters, raw predictions, clipped sums of gradients.

Shapes (leading axes, written ``...``, are silos; they broadcast)::

    params   (..., P)       all parameters, flat
    X        (..., n, d)    y (..., n)    weights (..., n)
    raw      (..., n, k)    raw predictions, which a loss compares with targets
    g_j      (..., P)       gradient of record j's loss in the parameters

A model does not depend on silos, privacy or the loss. No other code depends on the meaning of its
parameters. Estimators take an :class:`Architecture`, which makes a :class:`Model` for given numbers
of features and outputs.

:class:`Maps` of the data are undone by layers; a :class:`Start` has public initial weights in the
data's units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, starmap
from math import inf, prod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skdpfl._surface import Described
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.losses import Loss
from skdpfl.models._clipping import clipped_sums, row_norms
from skdpfl.models._products import Descent, Records
from skdpfl.models._rules import Rules
from skdpfl.privacy.randomness.streams import Stream


class Map(Protocol):
    """A transformation of the data before the fit, which a linear layer can undo."""

    def unscale(self, coef: NDArray, intercept: NDArray) -> tuple[NDArray, NDArray]:
        """Return a layer's coefficients (k, d) and intercepts (k,) in the original units."""

    def rescale(self, coef: NDArray, intercept: NDArray) -> tuple[NDArray, NDArray]:
        """Return coefficients and intercepts for mapped data, from those in the original units."""


class Maps(Protocol):
    """The maps of features and target."""

    @property
    def features(self) -> Map:
        """The map that the first layer undoes."""

    @property
    def target(self) -> Map:
        """The map that the last layer undoes."""


@dataclass(frozen=True, eq=False)
class Start:
    """Public weights: each layer's (h_l, h_{l+1}) and (h_{l+1},), in the units of X and y."""

    layers: tuple[tuple[NDArray, NDArray], ...]

    def __repr__(self) -> str:
        units = [len(w) for w, _ in self.layers] + [len(b) for _, b in self.layers[-1:]]
        return f"public({'-'.join(map(str, units))})"

    def check(self, units: tuple[int, ...]) -> None:
        """Raise unless the layers match a network with these numbers of units."""
        wanted = [(a, b) for a, b in pairwise(units)]
        shapes = [w.shape for w, _ in self.layers]
        if shapes != wanted or any(b.shape != w.shape[1:] for w, b in self.layers):
            raise ValueError(
                f"start has weights of shapes {shapes}; this network needs {wanted}, and one "
                "intercept per unit. Use the hidden_layer_sizes, features and classes of the "
                "network from which the weights come."
            )

    def scaled(self, maps: Maps) -> Start:
        """Return the weights for mapped features and targets."""
        layers = [(w.T, b) for w, b in self.layers]
        layers[0] = maps.features.rescale(*layers[0])
        layers[-1] = maps.target.rescale(*layers[-1])
        return Start(tuple((w.T, b) for w, b in layers))


def public(model: Any) -> Start:
    """Declare initial weights to be public: anyone may see them, at no privacy cost.

    Parameters
    ----------
    model : fitted estimator or (coefs, intercepts)
        An estimator with ``coefs_`` and ``intercepts_``, such as scikit-learn's ``MLPClassifier``
        fitted on public data; or these two lists of arrays.

    Returns
    -------
    object
        The argument of ``MLP(start=...)``. The weights are copied.

    Warns
    -----
    PrivacyLeakWarning
        If the model was trained privately: its ``privacy_spent_`` is not included in the cost of a
        fit that starts from it.

    See Also
    --------
    MLP : The network that starts from them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.models import MLP, public
    >>> weights = [np.ones((4, 3)), np.zeros((3, 1))]
    >>> MLP((3,), start=public((weights, [np.zeros(3), np.zeros(1)])))
    MLP(hidden_layer_sizes=(3,), start=public(4-3-1))
    """
    if isinstance(model, Start):
        return model
    if isinstance(model, (tuple, list)) and len(model) == 2:
        coefs, intercepts = model
    else:
        fitted = getattr(model, "__dict__", {})
        if "coefs_" not in fitted or "intercepts_" not in fitted:
            raise ValueError(
                "public needs a fitted network (with coefs_ and intercepts_) or the two lists "
                f"(coefs, intercepts); got {model!r}."
            )
        coefs, intercepts = fitted["coefs_"], fitted["intercepts_"]
        if "privacy_spent_" in fitted:
            _warn_of_cost(fitted["privacy_spent_"])
    if len(coefs) != len(intercepts) or not len(coefs):
        raise ValueError(
            f"coefs and intercepts must have one array for each layer; got {len(coefs)} and "
            f"{len(intercepts)}."
        )
    each = zip(coefs, intercepts, strict=True)
    layers = tuple((np.array(w, np.float64), np.array(b, np.float64)) for w, b in each)
    if not all(np.isfinite(part).all() for layer in layers for part in layer):
        raise ValueError("Weights to start from must be finite.")
    return Start(layers)


def _warn_of_cost(spent: Any) -> None:
    warn(
        f"The weights were trained privately ({spent!r}). The cost of a fit that starts from them "
        "does not include that: for records used in both, the cost is the sum "
        "first.privacy_spent_ + second.privacy_spent_.",
        PrivacyLeakWarning,
    )


class Model(ABC):
    """Base class of all models: a function from flat parameters and features to raw predictions.

    A new model defines `n_features`, `n_outputs`, `size`, `init`, `raw`, `record_gradients`,
    `penalty_mask`, `fitted_attributes` and `raw_of_fitted`. It is frozen and can be pickled. The
    other methods have defaults, which a model may replace by faster ones; if it defines
    `clipped_gradient_sum`, `record_gradients` is not needed.

    A user-defined model processes one record at a time, which is slow but cannot mix records,
    unless its class sets ``stackable = True`` (:mod:`skdpfl._apart`).
    """

    #: of a class from outside: its author declares that records and silos may be given together
    stackable: ClassVar[bool]

    # ---- what every model defines --------------------------------------------------------------

    #: number d of features of a record
    n_features: int
    #: number k of raw predictions of a record
    n_outputs: int
    #: whether raw predictions are linear in the parameters: rows then bound the curvature
    is_linear: ClassVar[bool] = False

    @property
    @abstractmethod
    def size(self) -> int:
        """Number P of parameters."""

    @abstractmethod
    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point (P,), a function of the stream alone; public."""

    @abstractmethod
    def penalty_mask(self) -> NDArray:
        """Return 1 for parameters that are penalised and 0 for the others, shape (P,)."""

    @abstractmethod
    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""

    def record_gradients(
        self, params: NDArray, X: NDArray, y: NDArray, loss: Loss, squared_norms: NDArray
    ) -> NDArray:
        """Return the gradient of each record of one silo, (n, P), not clipped.

        Row j depends on `params` (P,) and on record j only: its rows of X (n, d), y (n,) and
        `squared_norms` (n,), which some losses use.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define record_gradients or clipped_gradient_sum."
        )

    def clipped_gradient_sum(
        self,
        params: NDArray,
        X: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray | None = None,
        weights: NDArray | None = None,
        chunk: int | None = None,
    ) -> NDArray:
        """Return the sum over records of ``weights_j * clip(g_j)``, clip to norm `clip_norm`.

        Parameters
        ----------
        params : ndarray of shape (..., P)
            Flat parameters; one vector for all silos, or one a silo.
        X : ndarray of shape (..., n, d)
            Features, in the dtype of `params`.
        y : ndarray of shape (..., n)
            Targets in the form that `loss` expects.
        loss : Loss
            A record's loss, a function of that record alone.
        clip_norm : float or ndarray of shape (...,)
            Largest norm C of a record's gradient, all parameters jointly; may differ between
            silos. ``inf``: no clipping.
        squared_norms : ndarray of shape (..., n), optional
            The result of `squared_row_norms` for these records; computed if None.
        weights : ndarray of shape (..., n), optional
            Public factors w_j >= 0 of the records, for instance a 0/1 mask of the sampled ones.
        chunk : int, optional
            Sum at most this many records at a time, then the chunks' sums, which reduces rounding
            errors.

        Returns
        -------
        ndarray of shape (..., P)
            In the dtype of `params`.

        Notes
        -----
        **Formal guarantee.** Every model must satisfy this. The result is the sum over j of w_j
        c_j, where c_j depends on record j, `params` and `clip_norm` only, never on another record,
        and ``|c_j| <= C`` for the numbers as stored. If any number of record j is not finite, c_j =
        0, decided before clipping. Rounding in the sum is additional:
        `skdpfl.privacy.release` bounds it, provided that products of records are summed
        in any order, at most `chunk` of them before chunks are summed.
        """
        if type(self).clipped_gradient_sums is not Model.clipped_gradient_sums:
            return of_stack(self, params, X, y, loss, clip_norm, squared_norms, weights, chunk)
        if squared_norms is None:
            squared_norms = self.squared_row_norms(X)

        def gradients(params: NDArray, X: NDArray, y: NDArray, squared_norms: NDArray) -> NDArray:
            return self.record_gradients(params, X, y, loss, squared_norms)

        def largest(params: NDArray, X: NDArray, squared_norms: NDArray) -> NDArray | None:
            return self.largest_norms(params, X, loss, squared_norms)

        return clipped_sums(
            gradients,
            params,
            X,
            np.asarray(y),
            squared_norms,
            clip_norm=clip_norm,
            weights=weights,
            chunk=chunk,
            largest=largest,
        )

    def largest_norms(
        self, params: NDArray, X: NDArray, loss: Loss, squared_norms: NDArray
    ) -> NDArray | None:
        """Return what would clip each record's gradient for any label (n,), before its own norm.

        By default None. Row j depends on `params` and the features of record j only.
        """
        return None

    @abstractmethod
    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return the fitted attributes of an estimator, by name, from the parameters (P,).

        Parameters
        ----------
        params : ndarray of shape (P,)
            The parameters of the fit.
        maps : Maps
            The transformations of features and target. Linear layers undo them.
        is_classifier : bool
            Whether the estimator is a classifier; shapes may depend on it, as in scikit-learn.
        """

    @abstractmethod
    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        """Return raw predictions (n, k), in units of the target, from `fitted_attributes`."""

    # ---- defaults, which a model may replace ---------------------------------------------------

    def started(self, maps: Maps) -> Model:
        """Return the model with its given starting point, if any, converted to scaled data."""
        return self

    def output_mask(self) -> NDArray | None:
        """Return 1 for parameters that are factors of the raw predictions, 0 for others, (P,).

        None if there are no such parameters, or they are not known.
        """
        return np.ones(self.size) if self.is_linear else None

    def intercept_mask(self) -> NDArray | None:
        """Return 1 for parameters that are added to raw predictions, 0 for others, (P,).

        None if there are no such parameters, or they are not known.
        """
        return None

    def rescaled(self, params: NDArray, factor: float) -> NDArray:
        """Return the parameters (P,) whose raw predictions are ``factor`` times as large."""
        mask = self.output_mask()
        if mask is None:
            raise NotImplementedError(f"{type(self).__name__} has no output_mask.")
        return params * np.where(mask > 0, params.dtype.type(factor), params.dtype.type(1))

    @property
    def rules(self) -> Rules:
        """The steps and clip norms that "auto" chooses; those of the linear model."""
        return Rules()

    @property
    def architecture(self) -> str:
        """A description for Checkpoints, if the estimator's parameters do not define the model."""
        return ""

    @property
    def fitted_by_rows(self) -> bool:
        """Whether :meth:`raw_of_fitted` does not mix records; a fitted module's own code may."""
        return True

    @property
    def numbers_per_record(self) -> int:
        """The number of values held in memory for each record of a batch."""
        return self.n_features + self.n_outputs + self.size

    @property
    def work_per_record(self) -> int:
        """Approximate number of multiplications for the gradient of a record."""
        return self.size

    def clip_limits(self, squared_norms: NDArray, clip_norm: float | NDArray) -> NDArray | None:
        """Return the ``limits`` for `clipped_gradient_sum`; by default None.

        It caches what depends only on norms and the clip norm, for records that are used in every
        round. If it is not None, `clipped_gradient_sum` must accept it.
        """
        return None

    def squared_row_norms(self, X: NDArray) -> NDArray:
        """Return ``|(x_j, 1)|^2``, shape (..., n); not finite if x_j is not.

        In the dtype of X, computed in float64, plus a bound of what underflow loses: never zero.
        """
        return row_norms(X, 1.0)

    def gradient_sum(
        self,
        params: NDArray,
        X: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        squared_norms: NDArray | None = None,
        weights: NDArray | None = None,
    ) -> NDArray:
        """Return the sum of the records' gradients, not clipped, shape (..., P)."""
        return self.clipped_gradient_sum(
            params, X, y, loss, clip_norm=inf, squared_norms=squared_norms, weights=weights
        )

    def clipped_gradient_sums(
        self,
        params: NDArray,
        records: Records,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray,
        chunk: int | None = None,
    ) -> NDArray:
        """Return each silo's :meth:`clipped_gradient_sum`, without weights, shape (S, P).

        Parameters
        ----------
        params : ndarray of shape (P,) or (S, P)
            Flat parameters; one vector for all silos, or one a silo.
        records : Records
            The silos' features, in the dtype of `params`.
        y : ndarray of shape (sum n_i,)
            The silos' targets, one silo after the other.
        loss : Loss
            A record's loss, a function of that record alone.
        clip_norm : float or ndarray of shape (S,)
            The silos' clip norms.
        squared_norms : ndarray of shape (sum n_i,)
            The result of `squared_row_norms` for the records.
        chunk : int, optional
            Add up at most this many records at a time.

        Notes
        -----
        **Formal guarantee.** That of :meth:`clipped_gradient_sum`, for each silo. A silo's sum
        does not depend on the other silos of the group, bit for bit: this default makes one call
        for each silo.
        """
        X, edges = records.gathered(), records.edges.tolist()
        count = len(edges) - 1
        params = np.broadcast_to(params, (count, self.size))
        clips = np.broadcast_to(clip_norm, (count,))
        out = np.empty((count, self.size), params.dtype)
        for i, own in enumerate(starmap(slice, pairwise(edges))):
            out[i] = self.clipped_gradient_sum(
                params[i],
                X[own],
                y[own],
                loss,
                clip_norm=float(clips[i]),
                squared_norms=squared_norms[own],
                chunk=chunk,
            )
        return out

    def person_gradient_sums(
        self,
        params: NDArray,
        records: Records,
        edges: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray,
        mean: bool,
        chunk: int | None = None,
    ) -> NDArray:
        """Return each silo's sum over persons of what their records give together, (S, P).

        Parameters
        ----------
        params, records, y, loss, clip_norm, squared_norms, chunk
            As for :meth:`clipped_gradient_sums`; ``chunk`` is a number of persons.
        edges : ndarray of shape (n_persons + 1,)
            Person p has the records from edges[p] to edges[p + 1], all of one silo.
        mean : bool
            Whether the mean of the records' gradients is clipped; if not, their sum.

        Notes
        -----
        **Formal guarantee.** The result is the sum of c_p over the persons of a silo, where c_p
        depends on person p's records, `params` and `clip_norm` only, and ``|c_p| <= C`` for the
        numbers as stored, whatever the records are and however many.
        """
        raise NotImplementedError(
            f'unit="person" is not available for {type(self).__name__}; use a linear or an '
            "additive model."
        )

    def descent(
        self,
        params: NDArray,
        records: Records,
        y: NDArray,
        loss: Loss,
        steps: Descent,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray,
        limits: NDArray | None = None,
    ) -> NDArray | None:
        """Return how far steps on :meth:`clipped_gradient_sums` lead, (S, P); None: one by one."""
        return None

    def mean_loss(self, params: NDArray, X: NDArray, y: NDArray, loss: Loss) -> NDArray:
        """Return the mean of records' losses, shape (...)."""
        norms, raw = self.squared_row_norms(X), self.raw(params, X)
        return np.asarray(loss.value(y, raw, squared_norms=norms).mean(axis=-1))


def of_stack(
    model: Any,
    params: NDArray,
    X: NDArray,
    y: NDArray,
    loss: Loss,
    clip_norm: float | NDArray,
    squared_norms: NDArray | None,
    weights: NDArray | None,
    chunk: int | None,
) -> NDArray:
    """Return `Model.clipped_gradient_sum` by one call of the model's `clipped_gradient_sums`."""
    if squared_norms is None:
        squared_norms = model.squared_row_norms(X)
    shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2], np.shape(clip_norm))
    count, n = prod(shape), X.shape[-2]

    def flat(values: NDArray) -> NDArray:
        return np.broadcast_to(values, (*shape, n)).reshape(count * n) if shape else values

    X, y = X.astype(params.dtype, copy=False), np.asarray(y)
    if shape:
        X = np.broadcast_to(X, (*shape, *X.shape[-2:])).reshape(count * n, X.shape[-1])
        clip_norm = np.broadcast_to(clip_norm, shape).reshape(count)
    if params.ndim > 1:
        params = np.broadcast_to(params, (*shape, model.size)).reshape(count, model.size)
    sums = model.clipped_gradient_sums(
        params,
        Records.in_turn(X, [n] * count),
        flat(y),
        loss,
        clip_norm=clip_norm,
        squared_norms=flat(squared_norms),
        chunk=chunk,
        **({} if weights is None else {"weights": flat(weights)}),
    )
    return sums.reshape(*shape, model.size)


class Architecture(Described, ABC):
    """Base class of objects for the parameter ``model``: the description of a model.

    It has no data and is never fitted, but can be cloned, searched over (``model__activation``) and
    pickled. A fit calls :meth:`build` for a :class:`Model` with its numbers of features and
    outputs. As in estimators, a subclass's constructor stores each argument under its own name;
    :meth:`build` checks them.
    """

    @abstractmethod
    def build(self, n_features: int, n_outputs: int) -> Model:
        """Return the model for given numbers of features and raw predictions.

        Parameters
        ----------
        n_features : int
            Number of features of a record.
        n_outputs : int
            Number of raw predictions of a record.

        Returns
        -------
        Model
            The model, which is frozen and can be pickled.
        """
