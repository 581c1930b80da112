"""Many distinct releases: merged on the safe side, priced close to the truth, and in time."""

import numpy as np
import pytest

from skdpfl.privacy.events import FixedSizeGaussian, PoissonGaussian
from skdpfl.privacy.pricing import price


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PoissonGaussian, FixedSizeGaussian])
def test_merged_prices_lie_little_above_the_whole_ones(kind, monkeypatch):
    z = np.linspace(1, 4, 300)
    parts = tuple((kind(float(a), 0.01), 7) for a in z)
    found = price.price_epsilon.__wrapped__(parts, 1e-5, "replace")
    for name, value in (("_MOST_DISTINCT", 1000), ("_ALL_POINTS", 2**22)):
        monkeypatch.setattr(price, name, value)
    whole = price.price_epsilon.__wrapped__(parts, 1e-5, "replace")
    assert whole <= found <= 1.015 * whole


def test_prices_do_not_depend_on_how_many_releases_are_distinct():
    """2,000 releases of z from 1 to 4: as 2,000 distinct ones, or as 50 that lie below or above."""
    z = np.linspace(1, 4, 2000).reshape(50, 40)
    parts = tuple((PoissonGaussian(float(a), 0.01), 1) for a in z.ravel())
    found = price.price_epsilon(parts, 1e-5, "replace")
    below, above = (
        price.price_epsilon(
            tuple((PoissonGaussian(float(a), 0.01), 40) for a in z[:, end]), 1e-5, "replace"
        )
        for end in (-1, 0)
    )
    assert below <= found <= above
    assert above < 1.07 * below
