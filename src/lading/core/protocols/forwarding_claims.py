"""Signed claims by which one server forwards a call to another, in place of the caller's token.

A claim names the caller, the container, the purpose, and the server that it is for. It is signed
with a key of the servers of one installation (HMAC-SHA256), and valid for a minute. It is accepted
with its own call only: it cannot be used at another server, for another container or purpose, or as
a token.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import astuple, dataclass
from enum import StrEnum

from lading.core.errors import Unauthenticated

HEADER = "x-lading-forward-proof"
LIFE = 60
"""Seconds of validity: longer than a connection takes, with some difference of clocks."""
_VERSION = "lading forward 1"
# Lines of a claim.
_FIELDS = 6


class Purpose(StrEnum):
    """Purpose of a forwarded call."""

    SHELL = "shell"
    PORT = "port"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingClaim:
    """A call of `user_uuid` ("" for an anonymous caller) from `address`; `audience` is the URL of
    the receiving server.

    `expires` is in seconds since 1970.
    """

    user_uuid: str
    container_uuid: str
    purpose: Purpose
    audience: str
    expires: int
    address: str = ""


def sign(key: bytes, claim: ForwardingClaim) -> str:
    """A claim as the text of a header."""
    # No field contains a line break: uuids, enumerations, URLs and addresses.
    payload = "\n".join(str(field) for field in astuple(claim)).encode()
    return f"{base64.urlsafe_b64encode(payload).decode()}.{_mac(key, payload)}"


def verify(
    key: bytes, header: str, *, purpose: Purpose, audience: str, now: float
) -> ForwardingClaim:
    """The claim in a header, checked for this purpose and server. Raises Unauthenticated."""
    encoded, _, mac = header.partition(".")
    try:
        payload = base64.b64decode(encoded, altchars=b"-_", validate=True)
    except ValueError:
        raise _refused() from None
    # Checked before the text is parsed, in constant time.
    if not hmac.compare_digest(mac.encode(), _mac(key, payload).encode()):
        raise _refused()
    user, container, kind, meant, expires, address = payload.decode().split("\n", _FIELDS - 1)
    if (kind, meant) != (purpose, audience) or int(expires) < now:
        raise _refused()
    return ForwardingClaim(
        user_uuid=user,
        container_uuid=container,
        purpose=purpose,
        audience=audience,
        expires=int(expires),
        address=address,
    )


def check_container(claim: ForwardingClaim, uuid: str) -> None:
    """Whether a claim is for this container. Raises Unauthenticated."""
    if claim.container_uuid != uuid:
        raise _refused()


def _refused() -> Unauthenticated:
    return Unauthenticated("Not logged in: the forwarded call is not proven; call again")


def _mac(key: bytes, payload: bytes) -> str:
    # The version separates these signatures from others with the same key.
    return hmac.digest(key, _VERSION.encode() + b"\0" + payload, "sha256").hex()
