"""Whatever holds of silos holds with compiled products and with NumPy's."""

import pytest


@pytest.fixture(autouse=True)
def either_products(products):
    """Run each test twice."""
