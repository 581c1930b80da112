"""A linear model with one slope and several intercepts: one for each interval, or each level.

::

    params   (..., P)       P = d + k: the slope w, then the intercepts a
    raw      (..., n, k)    raw_c = x w + a_c
    g_j      = ((sum_c s_jc) x_j, s_j)        s_j the gradient of record j's loss in raw

With k outputs a linear model would have k slopes, and a record's noise k times as many numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skdpfl.losses import Loss
from skdpfl.models import _clipping
from skdpfl.models._base import Maps, Model
from skdpfl.models._products import Records, group_products, row_products
from skdpfl.privacy.randomness.streams import Stream


@dataclass(frozen=True)
class OneSlope(Model):
    """Raw predictions that differ by constants.

    Parameters
    ----------
    n_features : int
        Number d of features.
    n_outputs : int
        Number k of intercepts.

    Notes
    -----
    **Formal guarantee.** That of `Model.clipped_gradient_sum`: a record's gradient is formed as one
    vector of d + k numbers, and clipped as a whole.
    """

    is_linear: ClassVar[bool] = True
    n_features: int
    n_outputs: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.n_features + self.n_outputs

    def init(self, stream: Stream | None = None, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point: zeros, independent of the stream."""
        return np.zeros(self.size, dtype=dtype)

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
