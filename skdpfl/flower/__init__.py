"""Silos elsewhere by Flower (``pip install skdpfl[flower]``): two apps, and the letters between.

The only package that imports flwr. What is said between server and silos, and the rules by which
a silo takes part, are :mod:`skdpfl.remote`'s; here is a courier.
"""

from skdpfl._lazy import lazy

#: public name -> the module that has it; a silo's process loads as little as it can
_WHERE = {
    "FlowerCourier": "_courier",
    "client_app": "_client",
    "gate_app": "_client",
    "server_app": "_server",
}
__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
