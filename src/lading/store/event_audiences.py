"""The users who may read some log rows: the condition `About` for many users with one query.

`store.query` writes the condition for one user and any rows; events have one row and many users.
A test holds both to the same answers.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from lading.core.records.record_types import TOKENS, USERS
from lading.core.records.service_records import WEBHOOKS
from lading.store.database import Dialect, Row, Transaction, Value

# CROSS JOIN keeps the order for the planner of SQLite: from the rows to their few readers.
_KIND: Final = "substr(l.object_uuid, 7, 5)"
_GRANTS: Final = "CROSS JOIN grants g CROSS JOIN memberships m"
_JOINED: Final = "m.subject_uuid = g.subject_uuid AND m.level >= 1 AND g.level >= 1"
_THEMSELVES: Final = (
    "SELECT l.id, l.object_owner_uuid FROM logs l WHERE {rows}"
    " UNION ALL SELECT l.id, l.owner_uuid FROM logs l WHERE {rows}"
    " UNION ALL SELECT l.id, l.object_uuid FROM logs l WHERE {rows}"
)
_OF_OWNER: Final = (
    f"SELECT l.id, m.user_uuid FROM logs l {_GRANTS} WHERE {{rows}} AND {{users}}"
    f" AND g.target_uuid = l.object_owner_uuid AND g.owning = 1 AND {_JOINED}"
    f" AND {_KIND} <> '{TOKENS.infix}'"
    f" AND ({_KIND} <> '{WEBHOOKS.infix}' OR (m.level >= 3 AND g.level >= 3))"
)
_SHARED: Final = (
    "SELECT l.id, m.user_uuid FROM logs l CROSS JOIN links k CROSS JOIN memberships m"
    " WHERE {rows} AND {users} AND k.head_uuid = l.object_uuid AND m.subject_uuid = k.tail_uuid"
    f" AND {_KIND} <> '{USERS.infix}'"
    " AND k.link_class = 'permission' AND k.created_at <= l.created_at"
)
_OF_CONTAINER: Final = (
    "r.container_uuid = l.object_uuid AND r.owner_uuid NOT IN"
    " (SELECT s.uuid FROM group_standing s WHERE s.trash_at <= ?)"
)
_REQUESTED: Final = (
    "SELECT l.id, r.owner_uuid FROM logs l CROSS JOIN container_requests r"
    f" WHERE {{rows}} AND {_OF_CONTAINER}"
    f" UNION ALL SELECT l.id, m.user_uuid FROM logs l CROSS JOIN container_requests r {_GRANTS}"
    f" WHERE {{rows}} AND {{users}} AND {_OF_CONTAINER} AND {_JOINED}"
    " AND ((g.target_uuid = r.owner_uuid AND g.owning = 1) OR g.target_uuid = r.uuid)"
)
_SQL: Final = " UNION ALL ".join((_THEMSELVES, _OF_OWNER, _SHARED, _REQUESTED))
# Readers of some rows that are read without naming the users who listen.
FEW: Final = 1000
_ALL: Final = 1 << 30


async def readers_of(
    tx: Transaction, dialect: Dialect, numbers: Sequence[int], users: Collection[str], *, now: str
) -> dict[int, set[str]]:
    """The users among these who may read each log row, by its number; `now` decides about the
    trash.
    """
    # Few can read most records. To name the users costs more than to leave out the others, unless
    # these are everybody.
    rows = await _fetch(tx, numbers, "1 = 1", (), now=now, most=FEW)
    if len(rows) == FEW:
        names = (msgspec.json.encode(sorted(users)).decode(),)
        among = dialect.among.format("m.user_uuid")
        rows = await _fetch(tx, numbers, among, names, now=now, most=_ALL)
    found: dict[int, set[str]] = defaultdict(set)
    for number, user in rows:
        if user in users:
            found[int(number or 0)].add(str(user))
    return found


async def _fetch(
    tx: Transaction,
    numbers: Sequence[int],
    condition: str,
    names: tuple[str, ...],
    *,
    now: str,
    most: int,
) -> Sequence[Row]:
    marks = f"l.id IN ({', '.join('?' for _ in numbers)})"
    ids: tuple[Value, ...] = tuple(numbers)
    # Three times for those that the rows name, then for the owner, and for shared records.
    owned = (*ids, *ids, *ids, *ids, *names, *ids, *names)
    requested = (*ids, now, *ids, *names, now)
    return await tx.fetch(
        f"{_SQL.format(rows=marks, users=condition)} LIMIT ?", (*owned, *requested, most)
    )
