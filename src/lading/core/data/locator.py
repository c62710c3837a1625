"""Block locators and their permission signatures (docs/spec/api, section Manifests).

    locator  = hash "+" size *("+" hint)    hash: 32 hex digits of an MD5;
                                            hint: an upper case letter and a value
    +A<40 hex>@<8 hex>                      permission: HMAC-SHA1 of hash, token, expiry and life,
                                            and the expiry

A signature is bound to the token exactly as presented: the `v2` form and the bare secret of one
token give different signatures. The empty block needs no signature. Without a key or a token
nothing is signed.
"""

from __future__ import annotations

import hmac
import re

import msgspec

from lading.core.errors import Malformed, Unauthenticated

# 64 MiB, the block size of Keep.
MAX_BLOCK = 64 << 20
EMPTY_HASH = "d41d8cd98f00b204e9800998ecf8427e"
EMPTY_BLOCK = f"{EMPTY_HASH}+0"
# Hash, size and hints.
_LOCATOR = re.compile(r"([0-9a-f]{32})(?:\+([0-9]{1,18}))?((?:\+[A-Z][A-Za-z0-9@_-]*)*)")
# The hint with a signature and its expiry in hexadecimal seconds.
_PERMISSION = re.compile(r"A([0-9a-f]{40})@([0-9a-f]{8,})")
# Characters of a locator in a message.
_SHOWN = 100


class Locator(msgspec.Struct, frozen=True):
    """The address of one block: its hash, its size in bytes (None when absent) and its hints,
    without `+`.
    """

    hash: str
    size: int | None = None
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        size = () if self.size is None else (str(self.size),)
        return "+".join((self.hash, *size, *self.hints))

    @property
    def bare(self) -> str:
        """Hash and size alone, the form used in portable data hashes."""
        return self.hash if self.size is None else f"{self.hash}+{self.size}"


def parse(locator: str) -> Locator:
    """The locator in `locator`; the size may be absent. Raises Malformed."""
    match = _LOCATOR.fullmatch(locator)
    if match is None:
        raise Malformed(
            f"not a block locator: {locator[:_SHOWN]!r}; expected <md5>+<size> and hints"
        )
    size, hints = match[2], match[3]
    return Locator(
        match[1], None if size is None else int(size), tuple(hints[1:].split("+")) if hints else ()
    )


def expiry_of(locator: str) -> int:
    """Expiry (Unix seconds) of the signature of a locator; 0 without one. Raises Malformed."""
    signatures = [match for hint in parse(locator).hints if (match := _PERMISSION.fullmatch(hint))]
    return int(signatures[-1][2], 16) if signatures else 0


def sign(hash: str, *, token: str, expiry: int, ttl: int, key: str) -> str:
    """The hint `+A<signature>@<expiry>` that lets `token` read the block until `expiry` (Unix
    seconds).

    `ttl` is the configured life of signatures in seconds. Empty without a key or a token.
    """
    if not key or not token:
        return ""
    until = f"{expiry:08x}"
    return f"+A{_digest(hash, token=token, until=until, ttl=ttl, key=key)}@{until}"


def signed(locator: str, *, token: str, expiry: int, ttl: int, key: str) -> str:
    """The locator with a new signature at its end, replacing any other.

    The empty block is left bare. Raises Malformed for anything that is no locator.
    """
    found = parse(locator)
    bare = "+".join((found.bare, *(hint for hint in found.hints if hint[0] != "A")))
    return (
        bare
        if found.hash == EMPTY_HASH
        else bare + sign(found.hash, token=token, expiry=expiry, ttl=ttl, key=key)
    )


def verify(locator: str, *, token: str, ttl: int, key: str, now: int) -> None:
    """Return when `token` may read the block at `now` (Unix seconds).

    Raises Malformed when the signature is absent or forged, Unauthenticated when it has expired.
    """
    parsed = parse(locator)
    if parsed.hash == EMPTY_HASH:
        return
    permissions = [hint for hint in parsed.hints if hint[0] == "A"]
    # Several signatures are refused rather than tried.
    match = _PERMISSION.fullmatch(permissions[0]) if len(permissions) == 1 else None
    if match is None:
        raise Malformed(
            f"{parsed.bare}: the locator has no permission signature; read the collection again"
        )
    signature, until = match.groups()
    expected = _digest(parsed.hash, token=token, until=until, ttl=ttl, key=key)
    # In constant time: the duration must not reveal how much of a forged signature is right.
    if not hmac.compare_digest(signature, expected):
        raise Malformed(f"{parsed.bare}: the permission signature is not valid for this token")
    if int(until, 16) < now:
        raise Unauthenticated(
            f"{parsed.bare}: the permission signature has expired; read the collection again"
        )


def _digest(hash: str, *, token: str, until: str, ttl: int, key: str) -> str:
    # The message of Arvados' signatures; other services verify it.
    return hmac.digest(key.encode(), f"{hash}@{token}@{until}@{ttl:x}".encode(), "sha1").hex()
