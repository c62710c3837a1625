"""Signatures of crates, in the format of `ssh-keygen -Y sign`, with Ed25519 keys of OpenSSH.

`ssh-keygen -Y verify -n lading-crate` accepts them, and this module accepts signatures made by
`ssh-keygen -Y sign -n lading-crate`. Source: PROTOCOL.sshsig of OpenSSH. The package cryptography,
of the extra `export`, is imported where a signature is made or checked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lading.core.errors import Invalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAMESPACE: Final = "lading-crate"
LONGEST: Final = 10_000
"""Bytes of a signature that is read."""
_MAGIC: Final = b"SSHSIG"
_KIND: Final = b"ssh-ed25519"
_HASHES: Final = {b"sha512": hashlib.sha512, b"sha256": hashlib.sha256}
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
# ssh-keygen(1) breaks the lines of a signature at 70 characters.
_WIDTH: Final = 70


def load_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a file. Raises Invalid, naming the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"{path}: is no private key of OpenSSH without a passphrase") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid(f"{path}: is no Ed25519 key; make one with ssh-keygen -t ed25519")
    return key


def load_signers(path: Path) -> frozenset[bytes]:
    """The Ed25519 keys in a file of public keys, or of allowed signers. Raises Invalid."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: cannot be read") from error
    keys = set()
    for line in lines:
        words = line.split()
        if _KIND.decode() in words[:-1] and not line.lstrip().startswith("#"):
            keys.add(_key_of(_decoded(words[words.index(_KIND.decode()) + 1], f"{path}")))
    if not keys:
        raise Invalid(f"{path}: has no Ed25519 key")
    return frozenset(keys)


def sign(message: bytes, key: Ed25519PrivateKey) -> str:
    """The signature of a message as armoured text."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signed = key.sign(_signed(message, b"sha512"))
    blob = (
        _MAGIC
        + struct.pack(">I", 1)
        + _packed(_packed(_KIND) + _packed(public))
        + _packed(NAMESPACE.encode())
        + _packed(b"")
        + _packed(b"sha512")
        + _packed(_packed(_KIND) + _packed(signed))
    )
    text = base64.b64encode(blob).decode()
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return "\n".join((_BEGIN, *lines, _END, ""))


def verify(message: bytes, signature: str, signers: Iterable[bytes] = ()) -> str:
    """Check a signature; the fingerprint of its key. Raises Invalid if it is not good, or made by
    none of `signers`, if there are some.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    body = signature.strip()
    if len(signature) > LONGEST or not (body.startswith(_BEGIN) and body.endswith(_END)):
        raise Invalid("the signature is no SSH signature")
    raw, algorithm, signed = _read_signature(
        _decoded("".join(body[len(_BEGIN) : -len(_END)].split()), "the signature")
    )
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signed, _signed(message, algorithm))
    except (InvalidSignature, ValueError) as error:
        raise Invalid("the signature does not match: the crate was changed") from error
    wanted = frozenset(signers)
    name = fingerprint(raw)
    if wanted and raw not in wanted:
        raise Invalid(f"the crate is signed by {name}, which is none of the signers you trust")
    return name


def _read_signature(blob: bytes) -> tuple[bytes, bytes, bytes]:
    """The raw key, the hash algorithm and the signature proper of an SSH signature. Raises Invalid
    for one of another kind or purpose.
    """
    try:
        if not blob.startswith(_MAGIC) or struct.unpack_from(">I", blob, len(_MAGIC))[0] != 1:
            raise Invalid("the signature is of an unknown version")
        at = len(_MAGIC) + 4
        parts = []
        for _ in range(5):
            part, at = _unpacked(blob, at)
            parts.append(part)
        public, namespace, _, algorithm, inner = parts
        kind, where = _unpacked(inner, 0)
        signed, _ = _unpacked(inner, where)
    except struct.error as error:
        raise Invalid("the signature is cut off") from error
    raw = _key_of(public)
    # The namespace keeps a signature that was made for another purpose from counting here.
    if namespace != NAMESPACE.encode() or algorithm not in _HASHES or kind != _KIND:
        raise Invalid(f"the signature is not one for {NAMESPACE} with an Ed25519 key")
    return raw, algorithm, signed


def fingerprint(raw: bytes) -> str:
    """The fingerprint of a public key, as `ssh-keygen -l` shows it."""
    digest = hashlib.sha256(_packed(_KIND) + _packed(raw)).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _signed(message: bytes, algorithm: bytes) -> bytes:
    digest = _HASHES[algorithm](message).digest()
    parts = (NAMESPACE.encode(), b"", algorithm, digest)
    return _MAGIC + b"".join(_packed(field) for field in parts)


def _packed(field: bytes) -> bytes:
    return struct.pack(">I", len(field)) + field


def _unpacked(blob: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", blob, at)
    if at + 4 + length > len(blob):
        raise struct.error("cut off")
    return blob[at + 4 : at + 4 + length], at + 4 + length


def _key_of(blob: bytes) -> bytes:
    """The raw key in an encoded public key. Raises Invalid."""
    try:
        kind, at = _unpacked(blob, 0)
        raw, _ = _unpacked(blob, at)
    except struct.error as error:
        raise Invalid("the public key is cut off") from error
    if kind != _KIND or len(raw) != 32:
        raise Invalid("the public key is no Ed25519 key")
    return raw


def _decoded(encoded: str, subject: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{subject}: is not in base64") from error
