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


def test_numbers_are_those_of_kymatio():
    got = Scattering((28, 28), 2, 8)(image(28, 28)[None])[0]
    assert got.shape == (81, 7, 7)
    for channel, values in KYMATIO.items():
        found = [*got[channel, [0, 2, 6], [0, 4, 3]], got[channel].sum()]
        np.testing.assert_allclose(found, values, rtol=2e-4)
