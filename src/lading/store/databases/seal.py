"""Encryption of texts in the database with one key.

Sealed columns (`Seal`) are encrypted with a key that is not in the database. A sealed value is
`sealed1:` and the base64 of a nonce and the AES-GCM (256 bits) ciphertext, with the column as
associated data. The key is derived from the system root token. A value without the prefix is older
than the sealing of its column: it is read as clear text, and `schema.prepare` seals it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lading.core.errors import Corrupt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK: Final = "sealed1:"
# Bytes; the size that AES-GCM specifies (NIST SP 800-38D, 96 bits).
_NONCE: Final = 12


class Seal:
    """Seals and opens texts with one key. Calls without sealed values never load the cryptography
    library.
    """

    def __init__(self, secret: str, *, entropy: Callable[[int], bytes]) -> None:
        """The key is derived from `secret`; `entropy(n)` returns n random bytes."""
        # The prefix separates this key from other uses of the same secret.
        self._key = hashlib.sha256(b"sealed columns:" + secret.encode()).digest()
        self._entropy = entropy

    def seal(self, value: str, *, column: str) -> str:
        """Encrypt `value` with a fresh nonce."""
        nonce = self._entropy(_NONCE)
        return (
            MARK
            + base64.b64encode(
                nonce + self._cipher.encrypt(nonce, value.encode(), column.encode())
            ).decode()
        )

    def open(self, sealed: str, *, column: str) -> str:
        """Decrypt a value. Raises Corrupt when it was sealed with another key or for another
        column, or was changed.
        """
        # Older than the sealing of its column.
        if not sealed.startswith(MARK):
            return sealed
        from cryptography.exceptions import InvalidTag

        try:
            data = base64.b64decode(sealed[len(MARK) :], validate=True)
            return self._cipher.decrypt(data[:_NONCE], data[_NONCE:], column.encode()).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise Corrupt(
                f"{column}: cannot be unsealed: was secrets.json replaced?"
                " Restore the one that belongs to the database"
            ) from None

    @cached_property
    # Imported here: the library takes long to load, and most processes never open a sealed value.
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)
