"""The linear model: raw = x W + b, with flat parameters on the last axis.

Shapes (leading axes, written ``...``, are silos; they broadcast)::

    params   (..., P)       P = (d + intercept) k: W in C order (d, k), then the intercept (k,)
    X        (..., n, d)    y (..., n)    weights (..., n)
    raw      (..., n, k)    = X W + b
    a_j      = (x_j, 1)     the features with the intercept's 1
    g_j      = a_j (dloss_j)^T, the gradient of record j; |g_j| = |a_j| |dloss_j|

Per-record gradients are never formed: clipping g_j to norm C is one factor on dloss_j, and the
sum over records is one matrix product.

:class:`Additive` describes a linear model of curves and products of columns.

**One slope and several intercepts**, one for each interval, or each level::

    params   (..., P)       P = d + k: the slope w, then the intercepts a
    raw      (..., n, k)    raw_c = x w + a_c
    g_j      = ((sum_c s_jc) x_j, s_j)        s_j the gradient of record j's loss in raw

With k outputs a linear model would have k slopes, and a record's noise k times as many numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from skdpfl._arguments import check_count, is_auto
from skdpfl.losses import LogLoss, Loss, SquaredError
from skdpfl.models import _clipping
from skdpfl.models._base import Architecture, Maps, Model
from skdpfl.models._products import (
    CompiledProducts,
    Descent,
    NumpyProducts,
    Records,
    group_products,
    products_within,
    row_products,
)
from skdpfl.privacy.randomness.streams import Stream


@dataclass(frozen=True)
class LinearModel(Model):
    """Linear raw predictions with an optional intercept.

    Parameters
    ----------
    n_features : int
        Number d of features.
    n_outputs : int
        Number k of raw predictions of a record.
    fit_intercept : bool, default=True
        Whether there is an intercept (a last row of parameters).
    start : float, default=0.0
        The intercept before the first round.
    """

    is_linear: ClassVar[bool] = True
    n_features: int
    n_outputs: int
    fit_intercept: bool = True
    start: float = 0.0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return (self.n_features + self.fit_intercept) * self.n_outputs

    @property
    def numbers_per_record(self) -> int:
        """Features and slopes; records' gradients are not computed."""
        return self.n_features + self.n_outputs

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point, independent of the stream: zeros but for the intercept."""
        params = np.zeros(self.size, dtype=dtype)
        params[self.n_features * self.n_outputs :] = self.start
        return params

    def split(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Return views: weights (..., d, k) and intercept (..., k), zeros without one."""
        n_weights = self.n_features * self.n_outputs
        shape = params.shape[:-1]
        weights = params[..., :n_weights].reshape(*shape, self.n_features, self.n_outputs)
        if self.fit_intercept:
            return weights, params[..., n_weights:]
        return weights, np.zeros((*shape, self.n_outputs), dtype=params.dtype)

    def unpack(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Return scikit-learn's ``coef_`` (..., k, d) and ``intercept_`` (..., k), as copies."""
        weights, intercept = self.split(params)
        return np.swapaxes(weights, -1, -2).copy(order="C"), intercept.copy()

    def pack(self, coef: ArrayLike, intercept: ArrayLike | None = None) -> NDArray:
        """Return the flat parameters of scikit-learn's ``coef_`` and ``intercept_``."""
        weights = np.swapaxes(np.asarray(coef), -1, -2)
        flat = weights.reshape(*weights.shape[:-2], self.n_features * self.n_outputs)
        if not self.fit_intercept:
            return np.array(flat)
        tail = np.asarray(0.0 if intercept is None else intercept, dtype=flat.dtype)
        tail = np.broadcast_to(tail, (*flat.shape[:-1], self.n_outputs))
        return np.concatenate([flat, tail], axis=-1)

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``coef_`` (k, d) and ``intercept_`` (k,); for regressors (d,) and a number."""
        coef, intercept = self.unpack(params.astype(np.float64))
        coef, intercept = maps.target.unscale(*maps.features.unscale(coef, intercept))
        coef, intercept = coef.astype(params.dtype), intercept.astype(params.dtype)
        if not is_classifier:
            coef, intercept = coef[0], intercept[0]
        return {"coef_": coef, "intercept_": intercept}

    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        """Return ``X @ coef_.T + intercept_``."""
        return X @ np.atleast_2d(attributes["coef_"]).T + attributes["intercept_"]

    def raw_within(
        self, attributes: Mapping[str, Any], X: NDArray, low: NDArray | None, high: NDArray | None
    ) -> NDArray | None:
        """Return `raw_of_fitted` of features cut to their limits, if that takes one pass."""
        if low is None or high is None:
            return None
        coef, intercept = np.atleast_2d(attributes["coef_"]), np.ravel(attributes["intercept_"])
        return products_within(X, coef, intercept, low, high)

    def penalty_mask(self) -> NDArray:
        """Return 1 for weights and 0 for the intercept, which is not penalised, flat."""
        mask = np.ones(self.size)
        mask[self.n_features * self.n_outputs :] = 0
        return mask

    def intercept_mask(self) -> NDArray | None:
        """Return 1 for the intercept and 0 for weights, flat."""
        return 1 - self.penalty_mask() if self.fit_intercept else None

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        weights, intercept = self.split(params)
        out = np.matmul(X, weights)
        if self.fit_intercept:
            out += intercept[..., None, :]
        return out

    def squared_row_norms(self, X: NDArray) -> NDArray:
        """Return ``|a_j|^2``, the intercept's 1 counted, shape (..., n); not finite if x_j is not.

        In the dtype of X, computed in float64, plus a bound of what underflow loses: never zero.
        """
        return _clipping.row_norms(X, float(self.fit_intercept))

    @np.errstate(all="ignore")
    def clip_limits(self, squared_norms: NDArray, clip_norm: float | NDArray) -> NDArray | None:
        """Return the largest norm of each slope, shape (..., n); None unless all are finite."""
        if not _clipping.all_finite(squared_norms):
            return None
        return _clipping.slope_limits(
            squared_norms, np.asarray(clip_norm)[..., None], self.n_outputs
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
        weights: NDArray | None = None,
        chunk: int | None = None,
        limits: NDArray | None = None,
    ) -> NDArray:
        """Return each silo's :meth:`clipped_gradient_sum` in few calls.

        Operations on single records are done for the records of all silos at once. ``limits`` are
        those of `clip_limits`.

        Notes
        -----
        **Formal guarantee.** That of `Model.clipped_gradient_sum`, for each silo: products are
        formed silo by silo, and all other operations act on single records. So a silo's sum does
        not depend on the other silos of the group, bit for bit. Compiled products add the terms in
        sequence, NumPy's in any order; the rounding bounds hold for every order.

        *Proof.* Row j of `raw` is a function of row j of X, bit for bit, however many rows there
        are (:mod:`skdpfl.models._products`), and `loss` of row j of `raw` and y.
        If record j is finite, c_j = a_j s_j^T with ``|s_j|`` scaled to at most ``C / |a_j|``, and
        ``|c_j| = |a_j| |s_j| <= C``: the threshold is lowered by more than the rounding errors of
        both norms, and underflow is compensated, so this holds for the numbers as stored. Slopes of
        one output may be multiplied by a factor from `largest_slope` before, which this bound does
        not depend on. If anything of record j is not finite (a feature, the target, the squared
        norm, the slope), c_j = 0. This is decided before clipping: min(1, C / NaN) would not clip.

        In floating point we assume that NumPy's operations on the numbers of row j do not depend on
        the values of other rows, nor on how many there are. Rounding in the sum over records comes
        on top: see `skdpfl.privacy.release`. A record of weight 0 does not change the
        result, bit for bit, even if it is not finite.
        """
        products = group_products(records, self.n_outputs, self.fit_intercept)
        link = self._compiled_link(products, loss)
        if link is not None and isinstance(products, CompiledProducts):
            if limits is None:
                limits = _limits(squared_norms, _of_each_record(clip_norm, records))
            return products.step(params, y, limits=limits, link=link, weights=weights, chunk=chunk)
        with np.errstate(all="ignore"):
            clip = _of_each_record(clip_norm, records)
            if len(y) < 2:  # NumPy would add the classes of a single record in another order
                y, squared_norms = np.resize(y, 2), np.resize(squared_norms, 2)
                clip, limits = np.resize(clip, 2) if clip.ndim else clip, None
            by_class = products.raw(params, len(y))
            slopes = by_class[: self.n_outputs].T
            loss.gradient(y, slopes, squared_norms=squared_norms, out=slopes)
            known = squared_norms if limits is None else None
            if not _clipping.surely_finite(by_class[: self.n_outputs], known, y):
                good, squared_norms = _clipping.without_bad_records(y, slopes, squared_norms)
                products.drop_unless(good)
                limits = None
            largest = loss.largest_slope(y, slopes)
            _clipping.clip_slopes(slopes, squared_norms, clip, limits, largest)
            if weights is not None:
                slopes *= weights[:, None]
            return products.sums(by_class, chunk)

    @np.errstate(all="ignore")
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
        """See `Model.person_gradient_sums`.

        Notes
        -----
        **Formal guarantee.** That of `Model.person_gradient_sums`.

        *Proof.* Raw predictions and slopes are those of :meth:`clipped_gradient_sums`, functions of
        single records bit for bit; records that are not finite have slope zero and are not read.
        v_p, the sum of person p's slopes times features, is one of the products' sums, with persons
        in the place of silos: a function of its own records, bit for bit. It is rounded in whatever
        way; then its own norm is computed and it is multiplied by a factor of at most C over that
        norm, lowered by more than the rounding errors of norm, factor and product
        (`_clipping.slope_limits`). So ``|c_p| <= C`` for any v_p, in particular for any number of
        records; v_p is set to zero if its norm is not finite. Where clipping is free of labels, the
        factor is also at most C over the sum (or mean) of ``|a_j| max |slope of j over labels|``,
        which bounds the norm for all labels; the guarantee does not need it.
        """
        products = group_products(records, self.n_outputs, self.fit_intercept)
        clips = np.broadcast_to(clip_norm, (len(records.edges) - 1,))
        link = self._compiled_link(products, loss)
        if link is not None and isinstance(products, CompiledProducts):
            return products.persons(
                params,
                y,
                limits=squared_norms * 0 + np.inf,  # or NaN: not finite
                link=link,
                edges=edges,
                norms=np.sqrt(squared_norms) if link == 2 else None,
                clip=clips,
                mean=mean,
                chunk=chunk,
            )
        by_class = products.raw(params, len(y))
        slopes = by_class[: self.n_outputs].T
        loss.gradient(y, slopes, squared_norms=squared_norms, out=slopes)
        good = np.ones(len(y), bool)
        if not _clipping.surely_finite(by_class[: self.n_outputs], squared_norms, y):
            good, squared_norms = _clipping.without_bad_records(y, slopes, squared_norms)
            products.drop_unless(good)
        bounds, largest = None, loss.largest_slope(y, slopes)
        if largest is not None:
            norms = np.where(good, np.sqrt(squared_norms) * largest, 0)
            bounds = np.add.reduceat(norms, edges[:-1])
        owner = np.searchsorted(records.edges, edges[:-1], side="right") - 1
        each = products.with_edges(edges).sums(by_class, None)
        counts = np.diff(edges) if mean else None
        _clipping.clip_persons(each, clips[owner], counts, bounds)
        ends = np.searchsorted(edges, records.edges)
        return _clipping.sums_of_rows(each, ends, chunk or len(each))

    @np.errstate(all="ignore")
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
        """Return how far steps lead, in one pass of compiled code; None if there is none.

        Notes
        -----
        **Formal guarantee.** A silo's result is a function of its own records and parameters, bit
        for bit: that of :meth:`clipped_gradient_sums` and of NumPy's operations on numbers of this
        silo. *Proof.* The silo's steps are taken one after the other before the next silo's, each
        with the operations of a single step, in their order.
        """
        if type(self) is not LinearModel:  # its sums may be others
            return None
        products = group_products(records, self.n_outputs, self.fit_intercept)
        link = self._compiled_link(products, loss)
        if link is None or not isinstance(products, CompiledProducts):
            return None
        if limits is None:
            limits = _limits(squared_norms, _of_each_record(clip_norm, records))
        return products.step(params, y, limits=limits, link=link, descent=steps)

    def _compiled_link(self, products: NumpyProducts | CompiledProducts, loss: Loss) -> int | None:
        """Return the ``link`` of products.pyi for a loss whose slopes are compiled."""
        if self.n_outputs > 1 or not isinstance(products, CompiledProducts):
            return None
        if type(loss) is LogLoss:
            return 2 if loss.label_free else 1
        return 0 if type(loss) is SquaredError else None


def _of_each_record(clip_norm: float | NDArray, records: Records) -> NDArray:
    """Return the clip norm of each record, of its silo's; one number stays one."""
    clip = np.asarray(clip_norm)
    return np.repeat(clip, records.lengths) if clip.ndim else clip


@np.errstate(all="ignore")
def _limits(squared_norms: NDArray, clip: NDArray) -> NDArray:
    """Return the largest norm of each slope; NaN for records that are not finite."""
    if clip.ndim == 0 and clip == np.inf:
        return squared_norms * 0 + clip.astype(squared_norms.dtype)  # inf, or NaN
    limits = _clipping.slope_limits(squared_norms, clip, 1)
    if not _clipping.all_finite(squared_norms):
        limits[~np.isfinite(squared_norms)] = np.nan
    return limits


#: the most pieces of a curve that can be asked for
MOST_KNOTS = 64


@dataclass(eq=False, repr=False)
class Additive(Architecture):
    """A sum of curves, one per feature, for the ``model`` of any estimator.

    A tenth of the budget (of mu squared) is spent on one noisy histogram of all columns with
    bounds. Each column is then expanded to its value, its rank and some bins, and pairs of columns
    get their products. The rest of the budget fits a linear model of all these. If the budget is
    too small for that, by public numbers, the plain linear model is fitted. Columns of dtype bool
    are indicators, which need no curve. All others need ``feature_bounds``, beyond which a curve is
    constant.

    With log loss or squared error and single gradient steps (``ISRLDP``'s default, ``DPFedAvg``
    with one local step), curves and products are shrunk towards straight lines by the error to
    expect of them, which follows from released numbers and costs nothing.

    Parameters
    ----------
    knots : "auto" or int, default="auto"
        The number of pieces of a curve; it has half as many bins. "auto" is 8 if the budget is
        large enough. A number gives curves with any budget.
    interactions : "auto", bool or list of pairs, default="auto"
        Whether products of all pairs of features are added, but those of two indicators, or with
        what says that a value is missing; or a list of pairs, by name or number. "auto" adds them
        to a regression if there are few for the budget.

    See Also
    --------
    skdpfl.inspection.ShapeDisplay : Draws the curves.
    skdpfl.preprocessing.DPSplineTransformer : The same columns as a step of a pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.models import Additive
    >>> X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    >>> y = np.abs(X[:, 0]) + X[:, 1]
    >>> bounds = {"feature_bounds": (-1, 1), "target_bounds": (-1, 2), "random_state": 0}
    >>> linear = ISRLDPRegressor(3.0, model="linear", **bounds).fit(X, y)
    >>> curved = ISRLDPRegressor(3.0, model=Additive(), **bounds).fit(X, y)
    >>> curved.score(X, y) > linear.score(X, y) + 0.1
    True
    >>> list(curved.shape_functions_)
    ['x0', 'x1']
    """

    knots: Any = "auto"
    interactions: Any = "auto"

    def check(self) -> None:
        """Raise a ValueError for invalid parameters."""
        if not is_auto(self.knots):
            check_count("knots", self.knots, low=2, words=' (or "auto")')
            if self.knots > MOST_KNOTS:
                raise ValueError(f"knots must be at most {MOST_KNOTS}; got {self.knots!r}.")
        named = self.interactions
        if isinstance(named, bool) or is_auto(named):
            return
        pairs = isinstance(named, Sequence) and not isinstance(named, str)
        if not pairs or any(isinstance(p, str) or len(p) != 2 or p[0] == p[1] for p in named):
            raise ValueError(
                'interactions must be "auto", True, False or a list of pairs of two features; got '
                f"{named!r}."
            )

    def build(self, n_features: int, n_outputs: int) -> Model:
        """Return the linear model for this number of columns."""
        self.check()
        return LinearModel(n_features, n_outputs)


@dataclass(frozen=True)
class OneSlope(Model):
    """Raw predictions that differ by constants.

    Parameters
    ----------
    n_features : int
        Number d of features.
    n_outputs : int
        Number k of intercepts.
    start : float, default=0.0
        The intercepts before the first round.

    Notes
    -----
    **Formal guarantee.** That of `Model.clipped_gradient_sum`: a record's gradient is formed as one
    vector of d + k numbers, and clipped as a whole.
    """

    is_linear: ClassVar[bool] = True
    n_features: int
    n_outputs: int
    start: float = 0.0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.n_features + self.n_outputs

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point, independent of the stream: zeros but for intercepts."""
        params = np.zeros(self.size, dtype=dtype)
        params[self.n_features :] = self.start
        return params

    def penalty_mask(self) -> NDArray:
        """Return 1 for the slope and 0 for intercepts."""
        return (np.arange(self.size) < self.n_features).astype(float)

    def intercept_mask(self) -> NDArray:
        """Return 1 for intercepts and 0 for the slope."""
        return 1 - self.penalty_mask()

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        slope, intercepts = params[..., : self.n_features], params[..., self.n_features :]
        return np.asarray(np.matmul(X, slope[..., None]) + intercepts[..., None, :])

    def record_gradients(
        self, params: NDArray, X: NDArray, y: NDArray, loss: Loss, squared_norms: NDArray
    ) -> NDArray:
        """Return each record's gradient (n, P), not clipped; row j depends on record j only."""
        raw = row_products(X, params[: self.n_features, None]) + params[self.n_features :]
        slopes = loss.gradient(y, raw, squared_norms=squared_norms, out=raw)
        out = np.empty((len(X), self.size), params.dtype)
        np.multiply(X, slopes.sum(axis=1, keepdims=True), out=out[:, : self.n_features])
        out[:, self.n_features :] = slopes
        return out

    def largest_norms(
        self, params: NDArray, X: NDArray, loss: Loss, squared_norms: NDArray
    ) -> NDArray | None:
        """Return a bound of each record's gradient over all labels, if the loss has one."""
        raw = row_products(X, params[: self.n_features, None]) + params[self.n_features :]
        return loss.largest_norm(raw, squared_norms)

    @np.errstate(all="ignore")
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
        """See `Model.person_gradient_sums`.

        Notes
        -----
        **Formal guarantee.** That of `Model.person_gradient_sums`.

        *Proof.* A record's raw predictions and slopes s_j follow from it and its silo's parameters
        alone, bit for bit; those of records that are not finite are set to zero, and the records
        are not read. A person's sum of ``((sum_c s_jc) x_j, s_j)`` adds the person's own terms
        only, with persons in the place of silos. It is one vector, which is then scaled by a factor
        that follows from it and, where clipping is free of labels, from the sum of its records'
        bounds; so its norm is at most C for any number of records (`_clipping.clip_persons`).
        """
        products = group_products(records, 1, False)
        count = len(records.lengths)
        params = np.broadcast_to(params, (count, self.size))
        slope, intercepts = np.split(params, [self.n_features], axis=1)
        total = products.raw(np.ascontiguousarray(slope), len(y))
        raw = total[0, :, None] + intercepts.repeat(records.lengths, axis=0)
        largest = loss.largest_norm(raw, squared_norms)
        slopes = loss.gradient(y, raw, squared_norms=squared_norms, out=raw)
        good, _ = _clipping.without_bad_records(y, slopes, squared_norms)
        if not good.all():
            products.drop_unless(good)
        total[0] = slopes.sum(axis=1)
        each = np.hstack(
            [
                products.with_edges(edges).sums(total, None),
                np.add.reduceat(slopes, edges[:-1], axis=0),
            ]
        )
        bounds = None
        if largest is not None:
            bounds = np.add.reduceat(np.where(good, largest, 0), edges[:-1])
        owner = np.searchsorted(records.edges, edges[:-1], side="right") - 1
        clips = np.broadcast_to(clip_norm, (count,))[owner]
        _clipping.clip_persons(each, clips, np.diff(edges) if mean else None, bounds)
        ends = np.searchsorted(edges, records.edges)
        return _clipping.sums_of_rows(each, ends, chunk or len(each))

    def fitted_attributes(
        self, params: NDArray, maps: Maps, *, is_classifier: bool
    ) -> dict[str, Any]:
        """Return ``coef_`` (1, d), for others than classifiers (d,), and ``intercept_`` (k,)."""
        coef, intercept = np.split(params.astype(np.float64), [self.n_features])
        both = maps.target.unscale(*maps.features.unscale(coef[None], intercept))
        coef, intercept = (each.astype(params.dtype) for each in both)
        return {"coef_": coef if is_classifier else coef[0], "intercept_": intercept}

    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        """Return ``X @ coef_ + intercept_``, (n, k)."""
        slope = np.atleast_2d(attributes["coef_"]).T
        return np.asarray(X @ slope + attributes["intercept_"])
