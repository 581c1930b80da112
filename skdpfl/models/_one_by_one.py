"""User-defined models, which see one record at a time."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpfl._apart import anew, attempted, is_stackable
from skdpfl._surface import forwarded
from skdpfl._warnings import warnings_off
from skdpfl.losses import Loss
from skdpfl.models._base import Model
from skdpfl.models._clipping import clipped_sums

#: overridable by a model from outside without losing trusted status: no record reaches these
_UNREAD = frozenset((
    "n_features", "n_outputs", "size", "is_linear", "init", "started", "penalty_mask",
    "output_mask", "intercept_mask", "rules", "architecture", "numbers_per_record",
    "work_per_record", "fitted_attributes",
))  # fmt: skip


def one_by_one(model: Model, *, raises: bool = False) -> Model:
    """Return a model that cannot mix records: itself if known, else wrapped record by record.

    ``raises``: whether errors are passed on, as in trials.
    """
    return model if is_stackable(model, _UNREAD) else OneByOne(model, raises)


def fitted_one_by_one(model: Model) -> Model:
    """Return a model whose `raw_of_fitted` mixes no records."""
    return one_by_one(model) if model.fitted_by_rows else OneByOne(model)


@dataclass(frozen=True, eq=False)
class OneByOne(Model):
    """A wrapper of a user-defined model, which then sees one record at a time.

    Notes
    -----
    **Formal guarantee.** That of `Model.clipped_gradient_sum`, for any model code. *Proof.* Each
    gradient, and each prediction of a fitted model, comes from a call with one record, on fresh
    copies of the model and its attributes, so it is a function of that record and the parameters.
    It is clipped here (`clipped_sums`). Where the code raises, or returns another shape, the
    record counts as zero. (Only a trial on made-up records ``raises``.)
    """

    model: Model
    raises: bool = False

    n_features = forwarded("model.n_features")
    n_outputs = forwarded("model.n_outputs")
    size = forwarded("model.size")
    rules = forwarded("model.rules")
    numbers_per_record = forwarded("model.numbers_per_record")
    work_per_record = forwarded("model.work_per_record")
    init = forwarded("model.init")
    penalty_mask = forwarded("model.penalty_mask")
    output_mask = forwarded("model.output_mask")
    intercept_mask = forwarded("model.intercept_mask")
    rescaled = forwarded("model.rescaled")
    fitted_attributes = forwarded("model.fitted_attributes")

    def raw_of_fitted(self, attributes: Mapping[str, Any], X: NDArray) -> NDArray:
        new, fitted = anew(self.model), anew(dict(attributes), attributes)
        rows = [new().raw_of_fitted(fitted(), X[[j]]) for j in range(len(X))]
        return np.concatenate([np.zeros((0, self.n_outputs), X.dtype), *rows])

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        shape = np.broadcast_shapes(params.shape[:-1], X.shape[:-2])
        params = np.broadcast_to(params, (*shape, self.size))
        X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
        out, new = np.empty((*X.shape[:-1], self.n_outputs), params.dtype), anew(self.model)
        for i in np.ndindex(X.shape[:-1]):
            out[i] = self._of(out[i], new().raw, params[i[:-1]], X[i][None].copy())
        return out

    def squared_row_norms(self, X: NDArray) -> NDArray:
        out, new = np.empty(X.shape[:-1], X.dtype), anew(self.model)
        for i in np.ndindex(out.shape):
            out[i] = self._of(out[i], new().squared_row_norms, X[i][None].copy())
        return out

    def _of(self, like: NDArray, of: Callable[..., Any], *record: NDArray) -> NDArray:
        """Return the result of the model for one record; NaN if it raises an error."""
        fixed = np.full(np.shape(like), np.nan, like.dtype)
        with nullcontext() if self.raises else warnings_off():
            return attempted(lambda: of(*record)[0], fixed, raises=self.raises)

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
        """See `Model.clipped_gradient_sum`."""
        kind = type(self.model)
        sums = kind.clipped_gradient_sum, kind.clipped_gradient_sums
        formed = sums == (Model.clipped_gradient_sum, Model.clipped_gradient_sums)
        new = anew(self.model)

        def of_record(params: NDArray, *record: NDArray) -> NDArray:
            x, target, norm = record
            if formed:
                return new().record_gradients(params, x, target, loss, norm)
            return new().gradient_sum(params, x, target, loss, squared_norms=norm)[None]

        def gradients(params: NDArray, X: NDArray, y: NDArray, norms: NDArray) -> NDArray:
            out = np.empty((len(X), self.size), params.dtype)
            for j in range(len(X)):
                out[j] = self._of(out[j], of_record, params, X[[j]], y[[j]], norms[[j]])
            return out

        if squared_norms is None:
            squared_norms = self.squared_row_norms(X)
        return clipped_sums(
            gradients,
            params,
            X,
            np.asarray(y),
            squared_norms,
            clip_norm=clip_norm,
            weights=weights,
            chunk=chunk,
        )
