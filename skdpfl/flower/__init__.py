"""Remote silos by Flower (extra ``flower``): an app for the server, one for silos.

This is the only package that imports flwr. The letters between server and silos, and the rules by
which a silo takes part, are in :mod:`skdpfl.remote`; this package has a courier.
"""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
