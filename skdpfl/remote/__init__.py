"""Silos elsewhere: what crosses between machines, and the rules by which a silo takes part.

_wire        values as bytes, without code; ``_declared``: which classes are sent
_letters     what server and silos say to each other
_row         what one silo is told of a plan
_gate        a silo's rules: it prices, pays, writes down, answers once (``_store``: on disk)
_federation  the server's side; a ``Courier`` takes the letters

Nothing here knows a network: :mod:`skdpfl.flower` is one courier.
"""

from skdpfl.remote._declared import declare, pack, unpack
from skdpfl.remote._federation import Courier, RemoteFederation, SilosMissing
from skdpfl.remote._gate import Gate, Terms
from skdpfl.remote._letters import Hello, Introduction
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._row import Refused
from skdpfl.remote._wire import WireError

__all__ = [
    "Courier",
    "Gate",
    "Hello",
    "Introduction",
    "Refused",
    "RemoteFederation",
    "SiloRecords",
    "SilosMissing",
    "Terms",
    "WireError",
    "declare",
    "pack",
    "unpack",
]
