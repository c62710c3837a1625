"""Signatures of deliveries, in the form of Standard Webhooks: three headers, HMAC-SHA256.

`webhook-id` names the event, and is the same each time that it is sent; `webhook-timestamp` is the
time of this attempt in seconds since 1970; `webhook-signature` is `v1,` and the base64 of the HMAC
over `ID.TIMESTAMP.BODY`. A secret is `whsec_` and the base64 of its key. Receivers have libraries
for it in most languages.
Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final

_PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32
"""Bytes of the key of a new secret; Standard Webhooks asks for 24 to 64."""


def make_secret(entropy: bytes) -> str:
    """The secret with this key."""
    return _PREFIX + base64.b64encode(entropy).decode()


def sign(secret: str, *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery at `timestamp`, in seconds since 1970."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    digest = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{digest}",
    }
