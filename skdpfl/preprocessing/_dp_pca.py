"""``DPPCA``: principal components from noisy second moments."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.validation import check_array, check_is_fitted

from skdpfl._arguments import check_count, check_flags, check_number
from skdpfl._compat import as_frame
from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.preprocessing import _paying
from skdpfl.scaling import Array, SecondMoments, cut
from skdpfl.silos import without_column


@_paying.shared_docs
@dataclass(eq=False, repr=False)
class DPPCA(_paying.PayingTransformer):
    """Principal component analysis from noisy second moments, within a privacy budget.

    Rows are clipped to a norm; each silo, or the server, adds Gaussian noise once to the sum of
    their outer products and, if the mean is learnt, to the sum of the rows. There is also
    ``unit="silo"``, which protects all records of a silo together.

    Parameters
    ----------
    n_components : int, default=None
        The number of components to keep; None: all.
    epsilon : float, default=1.0
        The privacy budget; ``inf`` computes exact moments, without privacy.
    delta : "auto" or float, default="auto"
        "auto" is the largest power of ten that is at most 1 / (10 n), for n records (for
        ``unit="silo"``, which hides ``n_samples_seen_``: silos).
    row_norm : float, default=1.0
        The norm to which longer rows are clipped, also in ``transform``.
        It must not be computed from the data. Noise grows with its square, so rows should not be
        much shorter. If all rows are longer, only their directions matter.
    center : bool, default=True
        Whether the mean of the rows is learnt within the budget and subtracted.
    [running]

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions of largest variance, by decreasing variance.
    explained_variance_ : ndarray of shape (n_components,)
        The noisy variances of clipped rows along them; at least zero.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their shares of the variance of all directions.
    mean_ : ndarray of shape (n_features,)
        The vector subtracted from rows: the noisy mean, or zeros.
    n_components_ : int
        The number of components.
    noise_scale_ : float
        The standard deviation of the noise in an off-diagonal entry of the second moments.
    [cost]
    [fitted]

    See Also
    --------
    DPStandardScaler : Centers and scales features.
    ScatteringTransformer : Features of images at no privacy cost.

    Notes
    -----
    **Formal guarantee.** What leaves a silo (``trust="server"``: the server) is one Gaussian
    mechanism, priced exactly; everything else is computed from it. The proof of its sensitivity is
    in :mod:`skdpfl.scaling._centre_sums`.

    Components are meaningful if their variance exceeds the noise's largest eigenvalue, about ``2
    noise_scale_ sqrt(n_features)``; the others are noise. A warning appears if, by public numbers,
    not all components can be meaningful.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPPCA
    >>> rng = np.random.default_rng(0)
    >>> X = 0.1 * rng.normal(size=(20_000, 10)) * ([3, 2] + 8 * [0.5])
    >>> pca = DPPCA(2, random_state=0).fit(X)
    >>> pca.privacy_spent_
    PrivacySpent(ε=1.00, δ=1e-06, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> abs(pca.components_[:, :2]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    _units = ("record", "person", "silo")

    n_components: int | None = None
    epsilon: float = 1.0
    _: KW_ONLY
    row_norm: float = 1.0
    center: bool = True
    neighbours: str = "auto"
    keep_silo_column: bool = True

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map projections back to (clipped) rows, up to the dropped components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = as_frame(X)
        for column in self._owners:
            X = without_column(X, column)
        X = check_array(X)
        return X @ self.components_ + self.mean_

    def _check(self) -> None:
        super()._check()
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        check_number("row_norm", self.row_norm, low=0, high=1e100, open_low=True)
        check_flags(center=self.center)

    def _read(self, features: Any, *, reset: bool, **how: Any) -> Array:
        return super()._read(features, reset=reset, dtype=_paying.FLOATS, ensure_all_finite=True)

    def _plan(self, budgets: SiloBudgets, delta: float) -> _paying.Learning:
        n_features = self.n_features_in_
        k = n_features if self.n_components is None else int(self.n_components)
        if k > n_features:
            raise ValueError(
                f"n_components={k} must be at most the number of features, {n_features}."
            )
        zeros = np.zeros(n_features)
        what = SecondMoments(zeros, float(self.row_norm), bool(self.center), budgets.n_silos)
        plan = SumPlan(budgets, "second moments", (budgets.spends,))
        self._question = plan.question(0, what)
        self.n_components_ = k
        self.noise_scale_ = plan.noise(0, what) / float(np.sqrt(2))
        return _paying.Learning((plan,), what, _advice(what, self.noise_scale_, k))

    def _learn(self, source: _paying.SiloSource) -> str:
        question = self._question
        del self._question  # silos' sizes
        moments = question.mean(source.federation, source.streams)
        assert isinstance(question.what, SecondMoments)
        self._set(*question.what.unpacked(moments))
        return ""

    def _set(self, mean: Array, second: Array) -> None:
        """Set the fitted attributes: eigenvectors of the noisy covariance."""
        covariance = second - np.outer(mean, mean)
        d, k = len(covariance), self.n_components_
        values, vectors = eigh(covariance, subset_by_index=[d - k, d - 1])
        vectors = vectors.T[::-1]
        largest = np.abs(vectors).argmax(axis=1)
        self.components_ = vectors * np.sign(vectors[np.arange(k), largest])[:, None]
        self.explained_variance_ = np.maximum(values[::-1], 0.0)
        whole = max(np.trace(covariance), self.explained_variance_.sum())
        self.explained_variance_ratio_ = self.explained_variance_ / (whole or 1.0)
        self.mean_ = mean

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        return np.array([f"dppca{i}" for i in range(self.n_components_)], dtype=object)

    def _place(self, position: int) -> int:
        return min(position, self.n_components_)

    def _map(self, X: Array, inverse: bool) -> Array:
        rows = cut(X, np.zeros_like(self.mean_), float(self.row_norm))
        rows -= self.mean_
        return (rows @ self.components_.T).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _advice(what: SecondMoments, noise_scale: float, k: int) -> str:
    """Return a warning if, by public numbers, not all k components can exceed the noise."""
    noise = 2 * noise_scale * np.sqrt(len(what.center))
    most = what.length**2 / k
    if noise <= most:
        return ""
    return (
        f"Noise alone makes components of variance {noise:.2g}, and not all of {k} can have more "
        f"than {most:.2g} (row_norm^2 / n_components): the last ones are noise."
    )
