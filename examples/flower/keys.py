"""Certificates and keys for one SuperLink and its SuperNodes.

    python examples/flower/keys.py FOLDER ADDRESS NAME ...

writes ``ca.crt``, which every SuperNode gets; ``server.pem`` and ``server.key`` for the SuperLink
at ADDRESS, a name or an IP address; a pair of keys for each SuperNode, ``NAME`` and ``NAME.pub``.
In earnest each hospital makes its own pair and sends ``NAME.pub``, and the CA is the institution's.
"""

import argparse
import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM, _SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
_OPEN = serialization.NoEncryption()
DAYS = 365


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("address")
    parser.add_argument("names", nargs="+")
    asked = parser.parse_args()
    write(asked.folder, asked.address, asked.names)


def write(folder, address, names):
    """Write all certificates and keys."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key, key = new_key(), new_key()
    ca = signed("skdpfl demo CA", ca_key, ca_key, "skdpfl demo CA", authority=True)
    server = signed(address, key, ca_key, "skdpfl demo CA", authority=False)
    keep(folder / "ca.crt", ca.public_bytes(_PEM))
    keep(folder / "server.pem", server.public_bytes(_PEM))
    keep(folder / "server.key", private(key, _PEM, serialization.PrivateFormat.PKCS8))
    for name in names:
        own = new_key()
        keep(folder / name, private(own, _PEM, serialization.PrivateFormat.OpenSSH))
        public = own.public_key().public_bytes(_SSH, serialization.PublicFormat.OpenSSH)
        keep(folder / f"{name}.pub", public)


def new_key():
    """Return a key on the curve that Flower asks for."""
    return ec.generate_private_key(ec.SECP384R1())


def signed(name, key, by, issuer, *, authority):
    """Return a certificate of a key, signed by another one."""
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False)
        .add_extension(usage(authority), critical=True)
    )
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName([host(name)]), critical=False)
    return builder.sign(by, hashes.SHA384())


def usage(authority):
    """Return what a certificate's key may sign."""
    rest = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **rest
    )


def named(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def host(address):
    """Return an address as certificates know it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def private(key, encoding, form):
    return key.private_bytes(encoding, form, _OPEN)


def keep(path, data):
    """Write a file that only its owner can read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(file, "wb") as opened:
        opened.write(data)


if __name__ == "__main__":
    main()
