"""The credentials of a cluster of containers: a certificate, a key and an authorization for each
daemon, one ssh key for all.

They are new for each cluster, kept in memory and in the containers only, and useless when the
cluster has ended. Times are arguments, and secrets come from `secrets`. Source:
docs/spec/hpc-daemon, section Clusters.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lading.net.certificates import make_certificate


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
    certificate, key = make_certificate(name, now=now)
    return Identity(certificate, key, secrets.token_hex(16))


def make_ssh_keys() -> SshKeys:
    """A new key pair, as OpenSSH writes them."""
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return SshKeys(text.decode(), f"{public.decode()} cluster\n")
