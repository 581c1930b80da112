"""``ScatteringTransformer``: fixed features of images, which learn nothing."""

from __future__ import annotations

import math
import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_memory, validate_data

from skdpfl._arguments import check_count
from skdpfl._surface import DocLinks
from skdpfl.preprocessing._scattering import Array, Scattering

#: raised when the numbers change, so that results on disk are not taken for them
_VERSION = 1


@dataclass(eq=False, repr=False)
class ScatteringTransformer(
    DocLinks, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Scattering features of images: fixed wavelets, moduli and averages, nothing is learnt.

    A linear model or a small network on these features does better under differential privacy than
    a network that has to learn its filters through the noise [1]_. Each image becomes
    ``1 + J L + L^2 J (J - 1) / 2`` images (81) of ``1 / 2^J`` of the height and width: 3,969
    features of an image of 28 x 28 pixels.

    Parameters
    ----------
    J : int, default=2
        The number of scales: features are averages over 2^J pixels in each direction.
    L : int, default=8
        The number of orientations.
    image_shape : tuple of int, default=None
        (height, width), or (channels, height, width) where each channel is transformed by itself;
        the order of a record's features. None: one square image.
    batch_size : int, default=100
        How many images are transformed at once.
    memory : str or object with the joblib.Memory interface, default=None
        A folder where results are kept, found again by the content of X. They are as secret as the
        records.
    n_jobs : int, default=None
        Threads, which take a batch each.
    verbose : int, default=0
        1 or more shows how many batches are done, as joblib does.

    Attributes
    ----------
    image_shape_ : tuple of int
        (channels, height, width).
    output_shape_ : tuple of int
        (channels, 1 + J L + L^2 J (J - 1) / 2, height / 2^J, width / 2^J): the order of features
        in the output.
    n_features_in_ : int
        The number of features of a record.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X is a DataFrame.

    See Also
    --------
    DPPCA : A private projection to few features.

    Notes
    -----
    **Formal guarantee.** ``fit`` reads the number of features only, and a record's output is a
    function of the record, to the last bit: the transformer costs no privacy, and
    :func:`skdpfl.privacy_spent` of a pipeline counts it as free.

    Output is float32, of order 2 and not normalised. It agrees with Kymatio's ``Scattering2D``
    (relative difference 4e-5, as its filters are normalised by 3.1415 in place of pi).

    References
    ----------
    .. [1] F. Tramer and D. Boneh, "Differentially private learning needs better features (or much
       more data)", ICLR 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdpfl.preprocessing import ScatteringTransformer
    >>> X, y = load_digits(return_X_y=True)
    >>> scattering = ScatteringTransformer(image_shape=(8, 8)).fit(X)
    >>> scattering.output_shape_
    (1, 81, 2, 2)
    >>> scattering.transform(X).shape
    (1797, 324)
    """

    J: int = 2
    L: int = 8
    _: KW_ONLY
    image_shape: Any = None
    batch_size: int = 100
    memory: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Any:
        """Check the parameters; no value of X is used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One flattened image for each record.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        for name in ("J", "L", "batch_size"):
            check_count(name, getattr(self, name))
        X = validate_data(self, X, dtype="numeric")
        self.image_shape_ = _image_shape(self.image_shape, X.shape[1], self.J)
        channels, *plane = self.image_shape_
        size = tuple(n >> self.J for n in plane)
        n_maps = 1 + self.J * self.L + self.L**2 * self.J * (self.J - 1) // 2
        self.output_shape_ = (channels, n_maps, *size)
        self._n_features_out = math.prod(self.output_shape_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the images' features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One flattened image for each record.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), float32
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype="numeric")
        ignored = ["batch_size", "n_jobs", "verbose"]
        kept = check_memory(self.memory).cache(_transformed, ignore=ignored)
        return kept(
            X,
            self.image_shape_,
            self.J,
            self.L,
            _VERSION,
            batch_size=self.batch_size,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.requires_fit = True
        return tags


def _transformed(
    X: Array,
    image_shape: tuple[int, ...],
    J: int,
    L: int,
    version: int,
    *,
    batch_size: int,
    n_jobs: int | None,
    verbose: int,
) -> Array:
    """Return the features (n, n_features_out) of flattened images (n, n_features)."""
    channels, height, width = image_shape
    scattering = Scattering((height, width), J, L)
    out = np.empty((len(X), channels * scattering.n_features), np.float32)

    def transform(first: int) -> None:
        batch = slice(first, first + batch_size)
        with np.errstate(all="ignore"):  # a warning would tell of a single record
            images = X[batch].astype(np.float32).reshape(-1, height, width)
            out[batch] = scattering(images).reshape(-1, out.shape[1])

    starts = range(0, len(X), batch_size)
    Parallel(n_jobs, require="sharedmem", verbose=verbose)(delayed(transform)(i) for i in starts)
    return out


def _image_shape(given: Any, n_features: int, J: int) -> tuple[int, ...]:
    """Return (channels, height, width), or raise."""
    if given is None:
        side = math.isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"Records of {n_features} features are no square images; give image_shape=(height, "
                "width) or (channels, height, width)."
            )
        given = (side, side)
    ok = isinstance(given, tuple | list) and all(isinstance(n, numbers.Integral) for n in given)
    if not ok or len(given) not in (2, 3) or min(given) < 1:
        raise ValueError(
            "image_shape must be (height, width), (channels, height, width) or None; got "
            f"{given!r}."
        )
    shape = tuple(int(n) for n in given)
    if math.prod(shape) != n_features:
        raise ValueError(
            f"image_shape={given!r} has {math.prod(shape)} pixels, but X has {n_features} features."
        )
    if min(shape[-2:]) < 1 << J:
        raise ValueError(
            f"J={J} averages over {1 << J} pixels, more than images of {shape[-2:]} have: give a "
            "smaller J, or image_shape if the images are larger."
        )
    return shape if len(shape) == 3 else (1, *shape)
