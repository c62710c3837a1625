"""Self-signed certificates (X.509): creation, keys derived from a secret, loading from memory.

A certificate serves two processes that a third party or a shared secret introduces to each other,
or a first start without a certificate authority.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEAR = timedelta(days=366)
DECADE = timedelta(days=3650)
# The certificate is good from so long ago on: clocks differ.
_SKEW = timedelta(days=1)
# Order of the group of P-256: private keys are the numbers from 1 to one less than it.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def make_certificate(
    name: str,
    *,
    now: datetime,
    life: timedelta = YEAR,
    hosts: Iterable[str] | None = None,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> tuple[str, str]:
    """Make a self-signed certificate for servers and clients; it and its key, as PEM texts.

    `hosts`: host names and IP addresses that it is valid for; None: `name` alone. `key`: the
    private key (P-256); None makes a new one. It is valid for `life` from `now` on.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [_general_name(host) for host in dict.fromkeys([name] if hosts is None else hosts)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def derive_key(seed: bytes) -> ec.EllipticCurvePrivateKey:
    """The private key that follows from at least 64 secret bytes: two ends with the same secret
    have the same key.
    """
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, ec.SECP256R1())


def is_key_of(certificate: bytes, seed: bytes) -> bool:
    """Whether a certificate (DER) is for the key that follows from `seed`."""
    try:
        shown = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return False
    return isinstance(shown, ec.EllipticCurvePublicKey) and shown == derive_key(seed).public_key()


def load_identity(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have a context show this certificate (PEM texts). Raises ssl.SSLError, OSError."""
    # `load_cert_chain` reads files only; this one is in memory, and in this process alone.
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, f"{certificate}\n{key}".encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
