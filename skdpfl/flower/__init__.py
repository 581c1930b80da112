"""Silos elsewhere by Flower (``pip install skdpfl[flower]``): two apps, and the letters between.

The only package that imports flwr. What is said between server and silos, and the rules by which
a silo takes part, are :mod:`skdpfl.remote`'s; here is a courier.
"""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
