"""Pages of long lists: each begins after the last row of the page before it, so that rows made
meanwhile neither hide nor repeat others, and a far page is as quick as the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lading.client.api import ApiClient, Record

_ORDER: Final = ("created_at desc", "uuid desc")


def key_of(record: Record) -> str:
    """The place of a record in the order of lists, for the page after it."""
    return f"{record['created_at']}~{record['uuid']}"


def has_part(attribute: str, text: str) -> list[Any]:
    """The filter for a text inside an attribute, whatever its case."""
    pattern = "".join(f"\\{one}" if one in "\\%_" else one for one in text)
    return [attribute, "ilike", f"%{pattern}%"]


async def page_after(
    api: ApiClient,
    plural: str,
    *,
    filters: Sequence[Any],
    select: Sequence[str],
    after: str,
    most: int,
    **more: Any,
) -> list[Record]:
    """At most `most` records after the key `after`, the newest first. Raises as the API does.

    Two calls, as filters know no "or": first those of the same moment.
    """

    async def listed(conditions: list[Any], limit: int) -> list[Record]:
        return await api.list(
            plural,
            filters=[*filters, *conditions],
            order=_ORDER,
            select=select,
            limit=limit,
            **more,
        )

    moment, _, uuid = after.partition("~")
    if not after:
        return await listed([], most)
    found = await listed([["created_at", "=", moment], ["uuid", "<", uuid]], most)
    if len(found) < most:
        found += await listed([["created_at", "<", moment]], most - len(found))
    return found
