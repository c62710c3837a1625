"""What a cluster of containers trusts: a certificate, a key and an authorization for each daemon, one ssh key for all.

Made anew for every cluster, held in memory and in the containers only, worth nothing when it is gone
(`hpc-daemon-contract.md` 1.12). Times and secrets are arguments' or `secrets`', so nothing here repeats.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

_LIFE = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Identity:
    """A daemon's own: PEM texts, and the word that every call to it carries."""

    certificate: str
    key: str = field(repr=False)
    authorization: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SshKeys:
    """The key pair that all containers of a cluster share."""

    private: str = field(repr=False)
    public: str


def make_identity(name: str, *, now: datetime) -> Identity:
    """A self-signed certificate for a daemon that is called `name`."""
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
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return Identity(text, key.decode(), secrets.token_hex(16))


def make_ssh_keys() -> SshKeys:
    """A new key pair, as OpenSSH writes them."""
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return SshKeys(text.decode(), f"{public.decode()} cluster\n")
