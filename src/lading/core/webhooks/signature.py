"""Signatures of deliveries, in the form of Standard Webhooks: three headers, HMAC-SHA256.

`webhook-id` names the event, and is the same each time that it is sent; `webhook-timestamp` is the
time of this attempt in seconds since 1970; `webhook-signature` is `v1,` and the base64 of the HMAC
over `ID.TIMESTAMP.BODY`. While a former secret is still valid, the header has a signature by each
secret, with a space between them. A secret is `whsec_` and the base64 of its key. Receivers have
libraries for it in most languages.
Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Final

from lading.core.records.schema import Record

_PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32
"""Bytes of the key of a new secret; Standard Webhooks asks for 24 to 64."""


def make_secret(entropy: bytes) -> str:
    """The secret with this key."""
    return _PREFIX + base64.b64encode(entropy).decode()


def valid_secrets(webhook: Record, *, now: str) -> tuple[str, ...]:
    """The secrets of a stored webhook that sign its deliveries: the present one first."""
    former, until = webhook.get("former_secret"), webhook.get("former_secret_until")
    found = str(webhook["secret"])
    return (found, str(former)) if former and until and now < until else (found,)


def sign(secrets: Sequence[str], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery at `timestamp`, in seconds since 1970, signed with each secret."""
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(secret, content) for secret in secrets),
    }


def _signature(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return f"v1,{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"
