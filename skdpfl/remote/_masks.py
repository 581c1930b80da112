r"""Masks that cancel in a sum, so that the server sees only the sum of a round's messages.

::

    q_i  = rint(w_i m_i / step)                            m_i: the noised message, w_i its weight
    c_i  = q_i + sum_{j > i} P_ij - sum_{j < i} P_ij       modulo 2^64: what silo i sends
    k_ij = HKDF-SHA256(X25519 of i and j; a label, offer, both public keys)         once a fit
    P_ij = SHAKE-256(label, k_ij, H(what)), if it is short     else AES-256 under its first 32 bytes
    what = all that the silos were offered, the fit's task, every field of the question, the length

    sum_i c_i = sum_i q_i                                  modulo 2^64

**What it gives.** What silos send is uniformly distributed given the sum of all in ``what`` (as far
as X25519 and AES are secure), and reveals nothing while one of them is missing. Silos that were
given another plan, task, broadcast, grid or other silos of the sum have other masks, which do not
cancel: ``what`` is the whole question, so there is no field that a server could vary. A silo
answers each ``what`` once (:class:`skdpfl.remote.Gate`), so no mask is used for two messages.

**How long.** A fit's secrets are in a file of their own, which is deleted once the fit is done: who
takes the disk later has the silos' messages only if somebody kept them and a copy of that file.

**Whose keys.** Keys pass through the server. If operators know each other's long-term keys
(the roster, below), silos accept only keys signed with these. Otherwise a server that
distributes its own keys can remove the masks, so the price does not rely on them: each silo adds
noise as without masks, and rounding to the grid is post-processing.

**The roster.** The silos' identities: keys that operators exchange without the server.

::

    roster      name -> Ed25519 key                 in each operator's file, not from the server
    agreed      all that silos are offered alike    one digest: study, task, facts, whole plan
    signature   of (name, key of the fit, agreed)   by the name's key on the roster
    secrets     with each of the others             once all their signatures were checked
    requester   signs each silo's whole offer       whose key the operator lists, if any

**Formal guarantee.** A silo sends nothing that depends on its records before it has checked a
signature of every silo of the fit. Assume that all silos that do not collude with the server keep
their keys secret, and that Ed25519 is unforgeable. Then any two of them share a secret that nobody
else knows, and all of them were offered the same under this fit's name: a server that distributes
its own keys, invents silos, or offers them different things, lacks a signature and gets no message.

A key on the roster may have a last day, ``KEY until 2027-11-30``. A new roster replaces or revokes
keys: what an old one signed is worth nothing to those who have the new roster.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from skdpfl.remote._declared import pack
from skdpfl.remote._letters import Offer, Part
from skdpfl.remote._terms import Refused, valid_key

#: the error where a message leaves the grid's range: it is noised, so this tells of no record
TOO_LARGE = "A message is too large for a masked sum on this grid."
#: a sum of fewer messages hides little
FEWEST_SILOS = 3
#: the grid's step over the clip norm: far finer than the noise
FINENESS = 2.0**-36
#: numbers on the grid lie within this, over the number of silos
_RANGE = 2.0**62
#: shorter pads are hashed, longer ones are a cipher's: starting one takes longer than a hash
_SHORT_PAD = 512
#: words of a pad that are added at once: they stay in the processor's cache
_PAD_WORDS = 1 << 15
_ZEROS = bytes(8 * _PAD_WORDS)
#: no key or pad of one kind, or of another version, equals one of another
_PAIR, _PAD, _CIPHER = b"skdpfl pair of silos 2", b"skdpfl short pad 2", b"skdpfl cipher key 2"


def new_key() -> str:
    """Return a private key, for one fit, as text."""
    return from_extra("asymmetric.x25519").X25519PrivateKey.generate().private_bytes_raw().hex()


def public_of(private: str) -> str:
    """Return the public key of a private one."""
    return _private(private).public_key().public_bytes_raw().hex()


def pair_secrets(private: str, own: int, keys: Sequence[str], offered: bytes) -> np.ndarray:
    """Return the secrets that silo ``own`` shares with each other silo, uint8 (n_silos, 32).

    ``keys`` has all silos' public keys in their order, ``offered`` is the digest of the offer.
    """
    mine, secrets = _private(private), np.zeros((len(keys), 32), np.uint8)
    for other, key in enumerate(keys):
        if other != own:
            pair = "".join(keys[i] for i in sorted((own, other)))
            label = _PAIR + offered + pair.encode()
            secrets[other] = np.frombuffer(_derived(_met(mine, key), label), np.uint8)
    return secrets


def mask(secrets: np.ndarray, own: int, among: Sequence[int], what: bytes, size: int) -> np.ndarray:
    """Return a silo's mask, uint64 (size,), in the sum of the messages of ``among``."""
    total, words = np.zeros(size, np.uint64), hashlib.sha256(what + b" %d" % size).digest()
    pads, each = _short_pads if size <= _SHORT_PAD else _long_pads, secrets.tobytes()
    higher, lower = (i for i in among if i > own), (i for i in among if i < own)
    for at, pad in pads([each[32 * i : 32 * i + 32] + words for i in higher], size):
        total[at] += pad
    for at, pad in pads([each[32 * i : 32 * i + 32] + words for i in lower], size):
        total[at] -= pad  # modulo 2^64
    return total


def _short_pads(seeds: list[bytes], size: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the sum of short pads, and the slice it is added to."""
    streams = b"".join([hashlib.shake_256(_PAD + seed).digest(8 * size) for seed in seeds])
    pads = np.frombuffer(streams, "<u8").reshape(len(seeds), size)
    yield slice(None), np.add.reduce(pads, axis=0, dtype=np.uint64)


def _long_pads(seeds: list[bytes], size: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield pieces of long pads, and the slice that each is added to.

    The ciphertext of zeros in Galois/counter mode equals that of counter mode, and OpenSSL computes
    it twice as fast. Each key is used once, so all may start from the same counter.
    """
    Cipher = from_extra("ciphers").Cipher
    AES, GCM = from_extra("ciphers.algorithms").AES, from_extra("ciphers.modes").GCM
    keys = [hashlib.shake_256(_CIPHER + seed).digest(32) for seed in seeds]
    streams = [Cipher(AES(key), GCM(bytes(12))).encryptor() for key in keys]
    piece = np.empty(_PAD_WORDS + 2, "<u8")  # update_into needs room for one more block
    room = memoryview(piece).cast("B")
    for start in range(0, size, _PAD_WORDS):
        n = min(_PAD_WORDS, size - start)
        zeros = _ZEROS if n == _PAD_WORDS else bytes(8 * n)
        for stream in streams:
            stream.update_into(zeros, room)
            yield slice(start, start + n), piece[:n]


def on_grid(values: np.ndarray, weight: float, step: float, n_silos: int) -> np.ndarray:
    """Return weighted values in integer steps, int64; raise if their sum could overflow."""
    steps = np.rint(values.astype(np.float64) * (weight / step))
    if not (np.abs(steps) < _RANGE / n_silos).all():
        raise Refused(TOO_LARGE)
    return steps.astype(np.int64)


def masked(steps: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return a silo's masked message, int64."""
    return (steps.view(np.uint64) + mask).view(np.int64)


def total_of(sent: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of all messages in steps, int64, from their masked messages."""
    total = np.zeros(sent[0].shape, np.uint64)
    for each in sent:
        total += each.view(np.uint64)
    return total.view(np.int64)


def _private(key: str) -> Any:
    return from_extra("asymmetric.x25519").X25519PrivateKey.from_private_bytes(bytes.fromhex(key))


def _met(private: Any, public: str) -> bytes:
    """Return the shared secret of a private and a public key."""
    try:
        key = from_extra("asymmetric.x25519").X25519PublicKey.from_public_bytes(
            bytes.fromhex(public)
        )
        secret: bytes = private.exchange(key)
    except ValueError as error:  # not 32 bytes, or a point that shares no secret
        raise Refused("A silo's key is invalid.") from error
    return secret


def _derived(secret: bytes, label: bytes) -> bytes:
    """Return 32 bytes by HKDF (RFC 5869) with SHA-256, no salt and this label."""
    key = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(key, label + b"\x01", "sha256")


def from_extra(module: str) -> Any:
    """Return a module of cryptography's primitives; raise an explaining error if there is none."""
    try:
        return import_module(f"cryptography.hazmat.primitives.{module}")
    except ImportError as error:
        raise Refused(
            "Masked sums need cryptography (pip install cryptography), at every silo."
        ) from error


# ---- the roster ---------------------------------------------------------------------------------


def new_silo_key() -> str:
    """Return a new private key for a silo, for all its fits: 64 hexadecimal digits.

    Returns
    -------
    str
        The argument of ``Gate(..., key=)``. Whoever has it can act as this silo.

    Examples
    --------
    >>> from skdpfl.remote import new_silo_key, public_key
    >>> len(public_key(new_silo_key()))
    64
    """
    return from_extra("asymmetric.ed25519").Ed25519PrivateKey.generate().private_bytes_raw().hex()


def public_key(private: str) -> str:
    """Return the key that other operators have on their rosters.

    Parameters
    ----------
    private : str
        A silo's private key.

    Returns
    -------
    str
        Its public key, which is not secret: 64 hexadecimal digits.
    """
    return _signer(private).public_key().public_bytes_raw().hex()


def sign_text(private: str, text: str) -> str:
    """Return the signature of a text by a private key, as hexadecimal digits."""
    signed: bytes = _signer(private).sign(text.encode())
    return signed.hex()


def signed_by(public: str, signature: str, text: str) -> bool:
    """Return whether a text was signed with the private key of a public one."""
    from cryptography.exceptions import InvalidSignature

    key = from_extra("asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    try:
        key.verify(bytes.fromhex(signature), text.encode())
    except InvalidSignature:
        return False
    return True


def line_text(challenge: str) -> str:
    """Return the text that a silo signs when it dials a server (:mod:`skdpfl.remote._lines`)."""
    return f"skdpfl line 1 {challenge}"


def signature(private: str, offer: Offer, key: str) -> str:
    """Return a silo's signature of its key for a fit."""
    return sign_text(private, _key_text(offer.agreed, offer.row.name, key))


def requested(private: str, offer: Offer) -> Offer:
    """Return an offer with its requester's signature."""
    return replace(offer, signature=sign_text(private, _request_text(offer)))


def check_requester(requesters: Mapping[str, str] | None, offer: Offer, data: bytes) -> None:
    """Raise unless a listed requester signed an offer, if any are listed.

    An offer that was signed has one form only, so nobody can make several of it.
    """
    if requesters is None:
        return
    signed = offer.signature
    plain = signed == signed.lower() and len(signed) == 128 and pack(offer) == data
    if not plain or not signed_by_silo(requesters, offer.requester, signed, _request_text(offer)):
        raise Refused(
            "Offers are taken only from requesters on a list: RemoteFederation(requester=, key=)."
        )


def signed_by_silo(roster: Mapping[str, str], name: str, signature: str, text: str) -> bool:
    """Whether a silo, or a requester, signed a text with its listed key, which is still valid."""
    try:
        return signed_by(valid_key(name, roster[name]), signature, text)
    except (KeyError, ValueError):
        return False


def secrets_of(roster: Any, offer: Offer, part: Part, public: str, own: Any) -> dict[str, Any]:
    """Return the secrets that a silo shares with each other in a fit, and a digest of the keys.

    Both are made from the keys of the first letter, and stored in the place of the private key.
    """
    row = offer.row
    listed = None if part.keys is None else pack((part.keys, part.signatures))
    digest = None if listed is None else hashlib.sha256(listed).hexdigest()
    if "secrets" in own:
        if digest not in (None, own["keys"]):
            raise Refused("The keys of a fit come with its first letter and must not change.")
        return dict(own)
    if "key" not in own:
        raise Refused("This fit is done at this silo: the secrets of its masks were deleted.")
    n = len(row.silos)
    if digest is None or part.keys is None or {len(part.keys), len(part.signatures)} != {n}:
        raise Refused("The first letter of a masked fit must contain the keys of all silos.")
    if part.keys[row.index] != public or len(set(part.keys)) != n:
        raise Refused("A masked sum needs the key of each of its silos, including this silo's own.")
    if roster is not None:
        for name, key, signed in zip(row.silos, part.keys, part.signatures, strict=True):
            if not signed_by_silo(roster, name, signed, _key_text(offer.agreed, name, key)):
                raise Refused(
                    "A silo's key for this fit, as it was offered here, was not signed with its "
                    "key on this silo's roster, so nothing is sent."
                )
    elif row.shares_noise:
        raise Refused("This silo shares noise only with silos on its roster, and it has no roster.")
    secrets = pair_secrets(own["key"], row.index, part.keys, offer.agreed)
    return {"secrets": secrets, "keys": digest}


def _key_text(offered: bytes, name: str, key: str) -> str:
    """Return what a silo signs of its key for a fit."""
    return "skdpfl key of a fit 3 " + json.dumps([offered.hex(), name, key])


def _request_text(offer: Offer) -> str:
    """Return what a requester signs of an offer."""
    whole = pack(replace(offer, signature=""))
    return f"skdpfl offer of a requester 1 {hashlib.sha256(whole).hexdigest()}"


def _signer(private: str) -> Any:
    try:
        return from_extra("asymmetric.ed25519").Ed25519PrivateKey.from_private_bytes(
            bytes.fromhex(private)
        )
    except ValueError as error:
        raise ValueError("A silo's key must have 64 hexadecimal digits.") from error
