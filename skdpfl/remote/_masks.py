r"""Masks that cancel in a sum: of a round's messages the server sees the sum only.

::

    q_i  = rint(w_i m_i / step)                            m_i: the noised message, w_i its weight
    c_i  = q_i + sum_{j > i} P_ij - sum_{j < i} P_ij       modulo 2^64: what silo i sends
    P_ij = SHAKE-256(k_ij, fit, round)                     k_ij: X25519 of i and j, new in each fit

    sum_i c_i = sum_i q_i                                  modulo 2^64

**What it gives.** A server that follows the protocol, and whoever reads its memory or disk, sees
numbers that are uniform but for their sum (as far as X25519 and SHAKE-256 hold), and so learns no
silo's message by itself.

**What it does not give.** Keys pass through the server and carry no signature: a server that hands
out keys of its own can take the masks off. So nothing is priced by it. Messages are noised by each
silo as without masks, and rounding them to the grid is post-processing: each silo's epsilon holds
for any server, masks or no masks. The noise is not smaller. If one silo of a round does not answer,
the masks do not cancel, and the round fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skdpfl.remote._terms import Refused

#: what is said where a message leaves the grid's range: it is noised, so this tells of no record
TOO_LARGE = "A message is too large for a masked sum on this grid."
#: a sum of fewer messages hides little
FEWEST = 3
#: the grid's step over the clip norm: far finer than the noise
FINENESS = 2.0**-36
#: numbers on the grid lie within this, over the number of silos
_RANGE = 2.0**62


def new_key() -> str:
    """Return a private key, for one fit, as text."""
    return _x25519().X25519PrivateKey.generate().private_bytes_raw().hex()


def public_of(private: str) -> str:
    """Return the public key of a private one."""
    return _private(private).public_key().public_bytes_raw().hex()


def mask(
    private: str, name: str, keys: Mapping[str, str], fit: str, round: int, size: int
) -> np.ndarray:
    """Return a silo's mask in a round, uint64 (size,); ``keys`` are those of all others in it."""
    total, own = np.zeros(size, np.uint64), _private(private)
    for other, key in keys.items():
        secret = own.exchange(_x25519().X25519PublicKey.from_public_bytes(bytes.fromhex(key)))
        words = f"skdpfl masks 1 {round} {fit}".encode()
        stream = hashlib.shake_256(secret + words).digest(8 * size)
        pair = np.frombuffer(stream, "<u8").astype(np.uint64)
        total += pair if name < other else ~pair + np.uint64(1)  # minus, modulo 2^64
    return total


def on_grid(values: np.ndarray, weight: float, step: float, n_silos: int) -> np.ndarray:
    """Return weighted values as whole steps, int64; they must leave room for the sum."""
    steps = np.rint(values.astype(np.float64) * (weight / step))
    if not (np.abs(steps) < _RANGE / n_silos).all():
        raise Refused(TOO_LARGE)
    return steps.astype(np.int64)


def masked(steps: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return what a silo sends, int64."""
    return (steps.view(np.uint64) + mask).view(np.int64)


def total_of(sent: Sequence[np.ndarray], step: float) -> np.ndarray:
    """Return the weighted sum of all messages, from what all silos of a round sent."""
    total = np.zeros(sent[0].shape, np.uint64)
    for each in sent:
        total += each.view(np.uint64)
    return total.view(np.int64) * step


def _private(key: str) -> Any:
    return _x25519().X25519PrivateKey.from_private_bytes(bytes.fromhex(key))


def _x25519() -> Any:
    """Return the module of keys; an error in words where it is not installed."""
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError as error:
        raise Refused(
            'Masked sums need the extra "secure" (pip install skdpfl[secure]), at every silo.'
        ) from error
    return x25519
