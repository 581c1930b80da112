"""More of tests/preprocessing/test_scattering.py: what only private names show."""

import numpy as np

from skdpfl.preprocessing._scattering import Scattering


def image(height, width):
    i, k = np.mgrid[:height, :width]
    wave = ((7 * i + 13 * k) % 29) / 29
    return (wave + np.exp(-((i - 9) ** 2 + (k - 16) ** 2) / 20)).astype(np.float32)


#: channel: values at (0, 0), (2, 4), (6, 3), and the sum, as Kymatio 0.3.0 computes them
KYMATIO = {
    0: (0.488629, 1.24398, 0.499588, 27.61372),
    1: (0.0744203, 0.113646, 0.115103, 5.305981),
    5: (0.0442257, 0.0530373, 0.0507242, 2.38712),
    8: (0.071058, 0.0348146, 0.0314206, 1.751483),
    9: (0.0121104, 0.0512138, 0.0222602, 1.342855),
    14: (0.0188811, 0.0589794, 0.0136822, 1.02983),
    17: (0.00290205, 0.0026616, 0.00376739, 0.1740374),
    30: (0.00220659, 0.00367346, 0.00398273, 0.1545642),
    55: (0.00451375, 0.000669123, 0.00127725, 0.08761488),
    80: (0.00825313, 0.00746635, 0.00446147, 0.3104289),
}


#: an image of 20 x 17, J=3, L=5: all four values of a channel
ODD = {
    0: (0.494847, 0.538604, 0.482456, 0.626954),
    3: (0.057111, 0.0604522, 0.0562934, 0.060578),
    9: (0.0254359, 0.0308068, 0.0243803, 0.0373029),
    13: (0.00543844, 0.0273182, 0.0085085, 0.0522051),
    20: (0.00641315, 0.0103421, 0.00896671, 0.0131187),
    45: (0.00307362, 0.00158358, 0.00280135, 0.00142744),
    90: (0.00303714, 0.00355083, 0.00249772, 0.0041247),
}


def test_numbers_are_those_of_kymatio():
    got = Scattering((28, 28), 2, 8)(image(28, 28)[None])[0]
    assert got.shape == (81, 7, 7)
    for channel, values in KYMATIO.items():
        found = [*got[channel, [0, 2, 6], [0, 4, 3]], got[channel].sum()]
        np.testing.assert_allclose(found, values, rtol=2e-4)


def gaussian_wave(size, sigma, theta, xi, slant):
    """The window with a wave in it at offsets -size..size, straight from the definition."""
    out = np.empty((2 * size + 1, 2 * size + 1), complex)
    for a in range(-size, size + 1):
        for b in range(-size, size + 1):
            u, v = a * np.cos(theta) + b * np.sin(theta), b * np.cos(theta) - a * np.sin(theta)
            decay = np.exp(-(u**2 + (slant * v) ** 2) / (2 * sigma**2))
            out[a + size, b + size] = decay * np.exp(1j * xi * u)
    return out * slant / (2 * np.pi * sigma**2)


def convolved(x, kernel):
    """Circular convolution, as a sum over shifts."""
    size = len(kernel) // 2
    out = np.zeros(x.shape, complex)
    for a in range(-size, size + 1):
        for b in range(-size, size + 1):
            out += kernel[a + size, b + size] * np.roll(x, (a, b), (0, 1))
    return out


def coarse_average(size):
    """The average's low frequencies at every second point, from sums over frequencies."""
    points, half = np.arange(size), size // 2
    window = sum(np.exp(-((points + k * size) ** 2) / 5.12) for k in (-1, 0, 1))
    window /= np.sqrt(2 * np.pi) * 1.6
    low = np.zeros(half)
    for f in range(-(half - half // 2), half // 2):
        height = (window * np.cos(2 * np.pi * f * points / size)).sum()
        low += 2 * height / size * np.cos(2 * np.pi * f * 2 * points[:half] / size)
    return low


def test_it_is_the_cascade_of_direct_convolutions():
    J, L, size = 2, 2, 14
    x = np.pad(image(20, 20), 4, mode="reflect").astype(float)
    bank = []
    for j in range(J):
        for l in range(L):
            args = 0.8 * 2**j, (L // 2 - 1 - l) * np.pi / L
            wave, flat = (gaussian_wave(size, *args, f / 2**j, 4 / L) for f in (3 * np.pi / 4, 0))
            bank.append(wave - wave.sum() / flat.sum() * flat)
    phi, coarse = gaussian_wave(size, 1.6, 0, 0, 1).real, coarse_average(28)

    def averaged(u):
        return convolved(u, phi).real[4:-4:4, 4:-4:4]

    def sampled(u):
        shifts = [np.roll(coarse[::-1], k + 1)[:, None] for k in range(2, 12, 2)]
        rows = np.stack([(u[::2, ::2] * w).sum(0) for w in shifts])
        return np.stack([(rows * w.T).sum(1) for w in shifts], axis=1)

    first = [np.abs(convolved(x, psi)) for psi in bank]
    second = [np.abs(convolved(u, psi)) for u in first[:L] for psi in bank[L:]]
    want = [averaged(u) for u in (x, *first[:L])] + [sampled(u) for u in (*first[L:], *second)]
    got = Scattering((20, 20), J, L)(image(20, 20)[None])[0]
    np.testing.assert_allclose(got, np.stack(want), rtol=1e-4, atol=1e-5)
