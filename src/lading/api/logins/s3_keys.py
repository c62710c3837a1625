"""Keys of S3: tokens whose secrets the server can open, to verify what they have signed.

Source: docs/spec/s3, section Keys.
"""

from __future__ import annotations

from lading.api.services import ApiServices
from lading.core.records.record_types import TOKENS
from lading.store import records


async def find_s3_secret(services: ApiServices, token_uuid: str) -> str:
    """The secret of a key of S3 by the uuid of its token; "" for a token that is none, or has
    expired.
    """
    async with services.database.reading() as tx:
        token = await records.get(tx, TOKENS, token_uuid)
    if token is None or not token["is_s3_key"]:
        return ""
    expires_at = token["expires_at"]
    if expires_at is not None and expires_at <= services.clock.now():
        return ""
    return str(token["s3_secret"] or "")
