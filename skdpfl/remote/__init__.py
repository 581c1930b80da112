"""Remote silos: the messages between machines, and the rules by which a silo takes part.

_declared    which classes are sent (:mod:`skdpfl._codec`: as bytes, without code)
_letters     what server and silos say to each other
_row         one silo's row of a plan
_gate        a silo's rules: it prices, pays, writes down, computes or refuses to, answers once
_memory      what it has agreed to, paid and answered, on disk; a log of it for auditors
_federation  the server's side: letters out, answers in; a journal, with which a server that was
             killed goes on
_masks       sums of which the server sees no summand; silos' keys, which operators exchanged
_score       how good a model is at each silo

_socket      couriers, which take the letters; doors, at which they are taken in
_lines       lines that silos open to a server, by gRPC

Couriers at hand: ``SocketCourier`` on one computer, ``LineCourier`` between computers, and those of
:mod:`skdpfl.flower` and :mod:`skdpfl.nvflare`.
"""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
