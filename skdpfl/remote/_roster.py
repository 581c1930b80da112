"""The silos' identities: keys that operators exchange without the server.

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
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skdpfl.remote._declared import pack
from skdpfl.remote._letters import Offer, Part
from skdpfl.remote._masks import from_extra, pair_secrets
from skdpfl.remote._terms import Refused, valid_key


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
    return _ed25519().Ed25519PrivateKey.generate().private_bytes_raw().hex()


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

    key = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
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
            "This silo takes offers only from requesters that its operator listed, with their "
            "signatures: RemoteFederation(..., requester=, key=)."
        )


def signed_by_silo(roster: Mapping[str, str], name: str, signature: str, text: str) -> bool:
    """Whether a silo, or a requester, signed a text with its listed key, which is still valid."""
    try:
        return signed_by(valid_key(name, roster[name]), signature, text)
    except (KeyError, ValueError):
        return False


def secrets_of(
    roster: Mapping[str, str] | None, offer: Offer, part: Part, public: str, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the secrets that a silo shares with each other in a fit, and a digest of the keys.

    Both are made from the keys of the first letter, and stored in the place of the private key.
    """
    row = offer.row
    listed = None if part.keys is None else pack((part.keys, part.signatures))
    given = None if listed is None else hashlib.sha256(listed).hexdigest()
    if "secrets" in own:
        if given not in (None, own["keys"]):
            raise Refused("The keys of a fit come with its first letter and must not change.")
        return dict(own)
    if "key" not in own:
        raise Refused("This fit is done at this silo: the secrets of its masks were deleted.")
    n = len(row.silos)
    if given is None or part.keys is None or {len(part.keys), len(part.signatures)} != {n}:
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
    return {"secrets": secrets, "keys": given}


def _key_text(offered: bytes, name: str, key: str) -> str:
    """Return what a silo signs of its key for a fit."""
    return "skdpfl key of a fit 3 " + json.dumps([offered.hex(), name, key])


def _request_text(offer: Offer) -> str:
    """Return what a requester signs of an offer."""
    whole = pack(replace(offer, signature=""))
    return f"skdpfl offer of a requester 1 {hashlib.sha256(whole).hexdigest()}"


def _signer(private: str) -> Any:
    try:
        return _ed25519().Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    except ValueError as error:
        raise ValueError("A silo's key must have 64 hexadecimal digits.") from error


def _ed25519() -> Any:
    return from_extra("asymmetric.ed25519")
