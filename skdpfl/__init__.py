"""Differentially private federated learning as scikit-learn estimators.

Names are imported on first use; ``__init__.pyi`` says what they are and where.
"""

from skdpfl._lazy import lazy

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
__all__ += ["__version__"]
