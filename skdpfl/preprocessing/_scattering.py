"""``ScatteringTransformer``: fixed features of images, by Morlet wavelets in NumPy.

::

    g(x)     = exp(-x^T R D R^T x / (2 s^2)) / (2 pi s^2 / slant)    R: rotation by theta,
    psi(x)   = g(x) (exp(i xi <x, e_theta>) - K)                     D = diag(1, slant^2)
    phi(x)   = g(x) with slant 1 and s = 0.8 2^(J - 1)

    s = 0.8 2^j,  xi = 3 pi / (4 2^j),  slant = 4 / L,  theta = (floor(L/2) - 1 - l) pi / L

for scales j = 0..J-1 and orientations l = 0..L-1; K makes the mean of psi zero. Filters are made
periodic on the padded image by summing over neighbouring periods. Their transforms are real, since
``psi(-x)`` is the conjugate of ``psi(x)``. At a coarser resolution a filter is its low frequencies.
This is the filter bank of Bruna and Mallat [1]_, with the constants of the public implementation
Kymatio [2]_.

The transform::

    S0 = x * phi,   S1[j, l] = |x * psi_jl| * phi
    S2[j, l, j', l'] = ||x * psi_jl| * psi_j'l'| * phi,   j < j'

x is reflected at its border; * is circular convolution; every S is taken at each 2^J-th point
inside the border. A modulus after psi_j is kept at every 2^j-th point. That makes 1 + J L +
L^2 J (J - 1) / 2 images of 1 / 4^J of the size.

References
----------
.. [1] J. Bruna and S. Mallat, "Invariant scattering convolution networks", IEEE TPAMI 35(8), 2013.
.. [2] M. Andreux et al., "Kymatio: scattering transforms in Python", JMLR 21(60), 2020.
"""

import math
import numbers
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.fft import fft2, ifft2
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpfl._arguments import check_count
from skdpfl._surface import DocLinks

Array = np.ndarray
#: periods on each side that are summed; a wavelet has faded to below 1e-7 beyond them
_PERIODS = range(-2, 3)
_SIGMA, _XI = 0.8, 3 * math.pi / 4


def _wavelets(shape: tuple[int, ...], J: int, L: int) -> list[list[Array]]:
    """Return transforms of the wavelets for padded images, whose sides are multiples of 2^J.

    ``psi[j][r]``, (L, height / 2^r, width / 2^r), is that of scale j at resolution r (the image is
    sampled at every 2^r-th point), for r below j, and r = 0.
    """
    psi = []
    for j in range(J):
        turned = [(max(L // 2 - 1, 0) - l) * math.pi / L for l in range(L)]
        fine = np.stack([_morlet(shape, _SIGMA * 2**j, t, _XI / 2**j, 4 / L) for t in turned])
        psi.append([_coarser(fine, r).astype(np.float32) for r in range(max(j, 1))])
    return psi


def _morlet(shape: tuple[int, ...], sigma: float, theta: float, xi: float, slant: float) -> Array:
    """Return the transform of one wavelet, (height, width)."""
    wave, envelope = (_gabor(shape, sigma, theta, f, slant) for f in (xi, 0.0))
    return fft2(wave - wave.sum() / envelope.sum() * envelope).real


def _gabor(shape: tuple[int, ...], sigma: float, theta: float, xi: float, slant: float) -> Array:
    """Return a wave in a Gaussian window, summed over periods."""
    total = np.zeros(shape, complex)
    c, s = math.cos(theta), math.sin(theta)
    for down in _PERIODS:
        for right in _PERIODS:
            x, y = np.ogrid[: shape[0], : shape[1]]
            x, y = x + down * shape[0], y + right * shape[1]
            along, across = c * x + s * y, c * y - s * x
            window = along**2 + (slant * across) ** 2
            total += np.exp(-window / (2 * sigma**2) + 1j * xi * along)
    return total * slant / (2 * math.pi * sigma**2)


def _coarser(filters: Array, r: int) -> Array:
    """Return transforms (..., height, width) at every 2^r-th point, of their low frequencies."""
    for axis in (-2, -1) if r else ():
        size = filters.shape[axis]
        coarse = size >> r
        low = np.moveaxis(filters, axis, -1).copy()
        low[..., coarse // 2 : size - (coarse - coarse // 2)] = 0
        filters = np.moveaxis(low.reshape(*low.shape[:-1], 1 << r, coarse).sum(-2), -1, axis)
    return filters


def _averaging(size: int, J: int, r: int) -> Array:
    """Return the matrix of phi in one direction, (size / 2^J - 2, size / 2^r).

    phi is a product of a function of x and one of y, at every resolution. It filters and samples a
    signal of ``size / 2^r`` points; the first and the last sample belong to the border.
    """
    sigma = _SIGMA * 2 ** (J - 1)
    x = np.arange(size)
    fine = sum(np.exp(-((x + k * size) ** 2) / (2 * sigma**2)) for k in _PERIODS)
    spectrum = np.fft.fft(fine).real / (math.sqrt(2 * math.pi) * sigma)
    coarse = size >> r
    if r:
        spectrum[coarse // 2 : size - (coarse - coarse // 2)] = 0
        spectrum = spectrum.reshape(1 << r, coarse).sum(0)
    kernel = np.fft.ifft(spectrum).real
    every = np.arange(1 << (J - r), coarse - (1 << (J - r)), 1 << (J - r))
    return kernel[(every[:, None] - np.arange(coarse)) % coarse].astype(np.float32)


class Scattering:
    """The transform of images of one shape."""

    def __init__(self, shape: tuple[int, int], J: int, L: int) -> None:
        period = 1 << J
        self.J, self.shape = J, shape
        self.padded = tuple(((n + period) // period + 1) * period for n in shape)
        self.psi = _wavelets(self.padded, J, L)
        self.rows, self.columns = ([_averaging(n, J, r) for r in range(J)] for n in self.padded)
        self.n_channels = 1 + J * L + L**2 * J * (J - 1) // 2
        self.size = (shape[0] // period, shape[1] // period)
        self.n_features = self.n_channels * self.size[0] * self.size[1]

    def __call__(self, images: Array) -> Array:
        """Return (n, n_channels, height / 2^J, width / 2^J) of float32 images (n, *shape)."""
        out = np.empty((len(images), self.n_channels, *self.size), np.float32)
        around = [
            ((p - n) // 2, p - n - (p - n) // 2)
            for p, n in zip(self.padded, self.shape, strict=True)
        ]
        x = np.pad(images, [(0, 0), *around], mode="reflect")
        at = 0
        for part in self._channels(x[:, None]):
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return out

    def _channels(self, x: Array) -> Iterator[Array]:
        """Yield averaged channels of images (n, 1, height, width) in their order."""
        psi = self.psi
        yield self._averaged(x, 0)
        spectrum = fft2(x)
        first = [_modulus(spectrum, psi[j][0], j) for j in range(self.J)]
        for j, U in enumerate(first):
            yield self._averaged(U, j)
        for j, U in enumerate(first[:-1]):
            for l in range(U.shape[1]):
                spectrum = fft2(U[:, l, None])
                for coarse in range(j + 1, self.J):
                    V = _modulus(spectrum, psi[coarse][j], coarse - j)
                    yield self._averaged(V, coarse)

    def _averaged(self, U: Array, r: int) -> Array:
        """Filter images at resolution r by phi, and sample them."""
        return np.matmul(self.rows[r], np.matmul(U, self.columns[r].T))


def _modulus(spectrum: Array, psi: Array, octaves: int) -> Array:
    """Filter (n, 1, height, width) by each psi, sample every 2^octaves-th point, take moduli."""
    filtered = spectrum * psi
    if octaves:
        # sampling in space is a mean of blocks in frequency
        *batch, height, width = filtered.shape
        k = 1 << octaves
        blocks = filtered.reshape(*batch, k, height // k, k, width // k)
        filtered = sum(blocks[..., a, :, b, :] for a in range(k) for b in range(k))
        filtered *= np.float32(1 / k**2)
    return np.abs(ifft2(filtered, overwrite_x=True))


#: images that are transformed at once
_BATCH = 100


@dataclass(eq=False, repr=False)
class ScatteringTransformer(
    DocLinks, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Scattering features of images: fixed wavelets, moduli and averages; nothing is learnt.

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
        (height, width), or (channels, height, width), in the order of a record's features; each
        channel is transformed separately. None: one square image.
    n_jobs : int, default=None
        The number of threads, each of which transforms a batch.

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
    n_jobs: int | None = None

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
        for name in ("J", "L"):
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
        channels, height, width = self.image_shape_
        scattering = Scattering((height, width), self.J, self.L)
        out = np.empty((len(X), channels * scattering.n_features), np.float32)

        def run(first: int) -> None:
            batch = slice(first, first + _BATCH)
            with np.errstate(all="ignore"):  # a warning would tell of a single record
                images = X[batch].astype(np.float32).reshape(-1, height, width)
                out[batch] = scattering(images).reshape(-1, out.shape[1])

        starts = range(0, len(X), _BATCH)
        Parallel(self.n_jobs, require="sharedmem")(delayed(run)(i) for i in starts)
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.requires_fit = True
        return tags


def _image_shape(asked: Any, n_features: int, J: int) -> tuple[int, ...]:
    """Return (channels, height, width), or raise."""
    if asked is None:
        side = math.isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"Records with {n_features} features are not square images; give "
                "image_shape=(height, width) or (channels, height, width)."
            )
        asked = (side, side)
    ok = isinstance(asked, tuple | list) and all(isinstance(n, numbers.Integral) for n in asked)
    if not ok or len(asked) not in (2, 3) or min(asked) < 1:
        raise ValueError(
            f"image_shape must be (height, width) or (channels, height, width); got {asked!r}."
        )
    shape = tuple(int(n) for n in asked)
    if math.prod(shape) != n_features:
        raise ValueError(
            f"image_shape={asked!r} has {math.prod(shape)} pixels, but X has {n_features} features."
        )
    if min(shape[-2:]) < 1 << J:
        raise ValueError(
            f"J={J} averages over {1 << J} pixels, more than images of {shape[-2:]} have."
        )
    return shape if len(shape) == 3 else (1, *shape)
