"""Certificates that nobody signs but they themselves: for two ends that are told of each other by a
third.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = timedelta(days=366)
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256: private keys are the numbers from 1 to one less than it."""


def derive_key(seed: bytes) -> ec.EllipticCurvePrivateKey:
    """The private key that follows from at least 64 secret bytes: two ends that know them know the
    same key.
    """
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, ec.SECP256R1())


def is_key_of(certificate: bytes, seed: bytes) -> bool:
    """Whether a certificate (DER) is for the key that follows from these bytes."""
    try:
        shown = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return False
    return isinstance(shown, ec.EllipticCurvePublicKey) and shown == derive_key(seed).public_key()


def make_certificate(name: str, *, now: datetime) -> tuple[str, str]:
    """A certificate and its key, as PEM texts; it is good for a year, as either end, for a host of
    this name.
    """
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    key = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.decode()
