"""Remote silos by NVFlare (extra ``nvflare``): a controller, an executor.

This is the only package that imports nvflare. The letters between server and silos, and the rules
by which a silo takes part, are in :mod:`skdpfl.remote`; this package carries letters.
"""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
