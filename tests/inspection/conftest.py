import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _close():
    """Close what a test drew."""
    yield
    plt.close("all")
