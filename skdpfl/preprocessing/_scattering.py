r"""Scattering transform of images, in NumPy.

::

    S0 = x * phi,   S1[j, l] = |x * psi_jl| * phi
    S2[j, l, j', l'] = ||x * psi_jl| * psi_j'l'| * phi,   j < j'

x is reflected at its border; * is circular convolution; every S is taken at each 2^J-th point
inside the border. A modulus after psi_j is kept at every 2^j-th point. That makes 1 + J L +
L^2 J (J - 1) / 2 images of 1 / 4^J of the size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.fft import fft2, ifft2

from skdpfl.preprocessing._wavelets import Array, Wavelets, wavelets


class Scattering:
    """The transform of images of one shape."""

    def __init__(self, shape: tuple[int, int], J: int, L: int) -> None:
        period = 1 << J
        self.J, self.shape = J, shape
        self.padded = tuple(((n + period) // period + 1) * period for n in shape)
        self.filters: Wavelets = wavelets((self.padded[0], self.padded[1]), J, L)
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
        psi = self.filters.psi
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
        return np.matmul(self.filters.rows[r], np.matmul(U, self.filters.columns[r].T))


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
