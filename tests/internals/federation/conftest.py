"""Whatever holds of silos holds with compiled products and with NumPy's."""

from tests.federation.conftest import either_products

__all__ = ["either_products"]
