"""Queries on the permission tables, and their updates after changes of users, groups and links.

`permissions` maintains the tables; the queries give the level of a user on a record, and conditions
for lists of readable records.
"""

# ruff: noqa: S608 - names are those of tables, values go into placeholders

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from lading.core.records.expressions import Query
from lading.core.records.permissions import HEADS, Accessible
from lading.core.records.record_types import GROUPS, LINKS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permissions, records
from lading.store.database import Dialect, Row, Transaction
from lading.store.permissions import COMPUTED, JOINED, LESSER, reached
from lading.store.query import ConditionWriter, order_by

NAMED = 20
"""Most owners or shared records that a list condition names one by one."""
SPARSE = 2000
"""Most rows that are fetched by owner and then sorted."""
MANY = 5000
"""Most projects of which each is looked at for records; a run of a pipeline is one too."""
# Fields whose change alters the flags of groups below.
PERMISSION = "permission"
_STANDING = ("trash_at", "frozen_by_uuid")
SUBJECTS: Final = (USERS, GROUPS, LINKS)
"""The types of records whose insert changes permissions."""


async def level_on(tx: Transaction, user_uuid: str, target_uuid: str, owner_uuid: str) -> int:
    """The level of a user on a record, directly or through its owner. 0 is none."""
    rows = await tx.fetch(
        f"SELECT max({LESSER}) FROM {JOINED} WHERE m.user_uuid = ? AND g.target_uuid IN (?, ?)"
        # The record itself counts with any grant; its owner only if the grant includes owned
        # records.
        " AND (g.target_uuid = ? OR g.owning = 1)",
        (user_uuid, target_uuid, owner_uuid, target_uuid),
    )
    return int(rows[0][0] or 0)


async def level_in(tx: Transaction, user_uuid: str, owner_uuid: str) -> int:
    """The level of a user on the records of an owner."""
    rows = await tx.fetch(
        f"SELECT max({LESSER}) FROM {JOINED}"
        " WHERE m.user_uuid = ? AND g.target_uuid = ? AND g.owning = 1",
        (user_uuid, owner_uuid),
    )
    return int(rows[0][0] or 0)


async def levels_on(tx: Transaction, user_uuid: str, targets: Sequence[str]) -> dict[str, int]:
    """The levels of a user on users and groups; level 0 is left out."""
    if not targets:
        return {}
    rows = await tx.fetch(
        f"SELECT g.target_uuid, max({LESSER}) FROM {JOINED} WHERE m.user_uuid = ?"
        f" AND g.target_uuid IN ({_marks(targets)}) GROUP BY g.target_uuid",
        (user_uuid, *targets),
    )
    return {str(target): int(level or 0) for target, level in rows}


async def accessible(
    tx: Transaction, kind: RecordType, user_uuid: str, *, many: int = MANY
) -> Accessible:
    """The condition for readable records of a type, in the form that is fast for this user."""
    sql = _probe(kind.plural, kind.infix, NAMED, SPARSE, many)
    rows = await tx.fetch(sql, (user_uuid,) * sql.count("?"))
    owners, shared = (_named(rows, name) for name in ("owner", "shared"))
    if ("many", "") in rows:
        # Not all projects were looked at: more may exist.
        owners = None
    return Accessible(user_uuid, owners, shared, ("dense", "") in rows)


@cache
def _probe(table: str, infix: str, named: int, sparse: int, many: int) -> str:
    """The owners, the shared records, and whether there are many rows, of one user: in one
    statement, since three round trips take longer than reading a page.
    """

    def count(owners: str) -> str:
        # Stops at `sparse` + 1 rows: only the comparison matters, not the number.
        return (
            f"(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE owner_uuid IN ({owners})"
            f" LIMIT {sparse + 1}) found)"
        )

    # Those of single records have an index: a user may have any number of projects.
    single = "" if infix in (USERS.infix, GROUPS.infix) else " AND g.owning = 0"
    # At most `named` + 1 rows are read: one more means "too many to name". With at most
    # one owner or shared record, an index lookup is fast even for many rows.
    return (
        f"WITH places AS (SELECT o.target_uuid FROM ({reached(owning=True)}) o LIMIT {many + 1}),"
        " owners AS (SELECT DISTINCT places.target_uuid FROM places"
        f" WHERE EXISTS (SELECT 1 FROM {table} x WHERE x.owner_uuid = places.target_uuid)"
        f" LIMIT {named + 1}),"
        f" shared AS (SELECT DISTINCT o.target_uuid FROM ({reached(owning=False)}{single}) o"
        f" WHERE substr(o.target_uuid, 7, 5) = '{infix}' LIMIT {named + 1}),"
        " counts AS (SELECT (SELECT count(*) FROM owners) AS owners,"
        " (SELECT count(*) FROM shared) AS shared, (SELECT count(*) FROM places) AS places)"
        " SELECT 'owner', target_uuid FROM owners"
        " UNION ALL SELECT 'shared', target_uuid FROM shared"
        f" UNION ALL SELECT 'dense', '' FROM counts WHERE {sparse} < CASE"
        f" WHEN places > {many} THEN {sparse + 1}"
        " WHEN owners + shared <= 1 THEN 0"
        f" WHEN owners > {named} THEN {count(reached(owning=True))}"
        f" ELSE {count('SELECT target_uuid FROM owners')} END"
        f" UNION ALL SELECT 'many', '' FROM counts WHERE places > {many}"
    )


def _named(rows: Sequence[Row], name: str) -> tuple[str, ...] | None:
    found = tuple(str(row[1]) for row in rows if row[0] == name)
    # None: too many; the condition then uses a subquery.
    return None if len(found) > NAMED else found


async def members_of(tx: Transaction, role_uuid: str, users: Sequence[str]) -> set[str]:
    """The users among `users` that are members of a role."""
    if not users:
        return set()
    rows = await tx.fetch(
        "SELECT user_uuid FROM memberships"
        f" WHERE subject_uuid = ? AND user_uuid IN ({_marks(users)})",
        (role_uuid, *users),
    )
    return {str(row[0]) for row in rows}


async def owners_above(tx: Transaction, uuid: str) -> list[str]:
    """A user or group and the owners above it, nearest first."""
    rows = await tx.fetch(
        # `groups` has projects and roles; the walk ends at the user who owns the top project.
        "WITH RECURSIVE above (uuid, depth) AS"
        " (SELECT owner_uuid, 1 FROM groups WHERE uuid = ? UNION ALL"
        " SELECT g.owner_uuid, above.depth + 1 FROM groups g JOIN above ON g.uuid = above.uuid)"
        " SELECT uuid FROM above ORDER BY depth",
        (uuid,),
    )
    return [uuid, *(str(row[0]) for row in rows)]


async def computed(tx: Transaction, dialect: Dialect, query: Query) -> list[Record]:
    """A page of computed permissions: the selected fields of `user_uuid`, `target_uuid` and
    `perm_level`.
    """
    writer = ConditionWriter(dialect, "computed_permissions")
    condition = writer.where(query.where)
    names = query.select or ("user_uuid", "target_uuid", "perm_level")
    order = order_by(dialect, query.order, "computed_permissions")
    sql = f"SELECT {', '.join(names)} FROM {COMPUTED}{condition}{order} LIMIT ? OFFSET ?"
    return [
        dict(zip(names, row, strict=True))
        for row in await tx.fetch(sql, (*writer.values, query.limit, query.offset))
    ]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)


async def follow_insert(tx: Transaction, kind: RecordType, record: Record) -> None:
    """Update permissions after an insert."""
    if kind is USERS:
        await permissions.add_user(tx, record["uuid"])
    elif kind is GROUPS:
        await permissions.add_group(tx, record["uuid"], record["owner_uuid"])
    elif kind is LINKS:
        await _linked(tx, record)


async def follow_change(tx: Transaction, kind: RecordType, old: Record, new: Record) -> None:
    """Update permissions after an update."""
    if kind is GROUPS:
        # Moving recomputes the flags too.
        if old["owner_uuid"] != new["owner_uuid"]:
            await permissions.move_group(tx, new["uuid"])
        elif any(old[name] != new[name] for name in _STANDING):
            await permissions.stand_group(tx, new["uuid"])
    elif kind is LINKS:
        await _linked(tx, new)


async def follow_removal(tx: Transaction, kind: RecordType, record: Record) -> None:
    """Update permissions after a delete; the permission links of the record were deleted before."""
    if kind is LINKS:
        await _linked(tx, record)
    elif kind in (USERS, GROUPS):
        await permissions.forget(tx, record["uuid"])


async def links_of(tx: Transaction, kind: RecordType, uuid: str) -> list[Record]:
    """The permission links with this record as tail or head, as full records."""
    if kind.infix not in HEADS:
        return []
    found = await records.matching(tx, LINKS, head_uuid=uuid, link_class=PERMISSION)
    if kind in (USERS, GROUPS):
        found += await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)
    return found


async def _linked(tx: Transaction, link: Record) -> None:
    if link["link_class"] == PERMISSION:
        await permissions.change_link(tx, link["tail_uuid"], link["head_uuid"])
