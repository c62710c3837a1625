"""Pages of long lists. Each begins after the last row of the page before it. So rows made
meanwhile neither hide nor repeat others, and a far page is as quick as the first one.

Conditions that few records meet would have the server look through all of them. A search looks at
the newest records first, then further and further back, and stops when it takes long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.core.quantities import format_time, parse_time

PATIENCE: Final = 0.05
"""Seconds for which a search looks while a reader waits for a list."""
LONG_PATIENCE: Final = 15.0
"""Seconds for which a search looks that a reader has asked to look further."""
_ORDER: Final = ("created_at desc", "uuid desc")
_FIRST: Final = timedelta(days=1)
_GROWTH: Final = 4
"""Each span that is looked at is so much longer than the one before."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Records found by a search, the newest first; `reached`: the moment down to which it has
    looked, "" if it need not look further.
    """

    records: list[Record]
    reached: str = ""


def key_of(record: Record) -> str:
    """The place of a record in the order of lists, for the page after it."""
    return f"{record['created_at']}~{record['uuid']}"


def has_part(attribute: str, fragment: str) -> list[Any]:
    """The filter for a text inside an attribute, whatever its case."""
    pattern = "".join(
        f"\\{character}" if character in "\\%_" else character for character in fragment
    )
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


async def search_after(
    api: ApiClient,
    plural: str,
    *,
    filters: Sequence[Any],
    select: Sequence[str],
    after: str,
    most: int,
    common_filters: Sequence[Any] = (),
    patience: float = PATIENCE,
    **more: Any,
) -> SearchPage:
    """As `page_after`, for conditions that may be met by few; begins nothing that may last longer
    than `patience` seconds.

    `common_filters`: those of `filters` that many meet, such as the owner. Raises as the API does.
    """
    began = time.perf_counter()
    moment, _, uuid = after.partition("~")
    asked: dict[str, Any] = {"order": _ORDER, "select": select, **more}
    rows: list[Record] = []
    if uuid:
        same = [["created_at", "=", moment], ["uuid", "<", uuid]]
        rows = await api.list(plural, filters=[*filters, *same], limit=most, **asked)
    end, span = moment, _FIRST
    while len(rows) < most:
        turn = time.perf_counter()
        before = [["created_at", "<", end]] if end else []
        # From the newest record of all on: a span before which nothing was made tells nothing about
        # how long the next one takes.
        last = await api.list(
            plural,
            filters=[*common_filters, *before],
            limit=1,
            **{**asked, "select": ("created_at",)},
        )
        if not last:
            return SearchPage(rows)
        start = format_time(parse_time(last[0]["created_at"]) - span)
        condition = [["created_at", ">=", start], *before]
        rows += await api.list(
            plural, filters=[*filters, *condition], limit=most - len(rows), **asked
        )
        end, span = start, span * _GROWTH
        spent = time.perf_counter()
        # The next span may take as much longer as it is longer.
        if len(rows) < most and (spent - turn) * _GROWTH > began + patience - spent:
            return SearchPage(rows, end)
    return SearchPage(rows)
