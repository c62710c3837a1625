"""Materialized permissions: three tables derived from owners and permission links.

- `memberships (user, subject, level)`: the users and roles in whose name a user has access, the
  user among them.
- `grants (subject, target, level, owning)`: the levels of a user or role by its own links and
  ownership, projects below projects included. `owning`: the level holds for records owned by the
  target too. Every user has a grant on the own record.
- `group_standing (uuid, trash_at, frozen)`: groups that are, or will be, in the trash, or that are
  frozen; by themselves or through a project that they are in. Groups that are neither have no row.

A user's level on a target is the best, over subjects, of the lesser of both levels: one join,
indexed at both ends (`reaches`, `reached`; their only placeholder is the user). Since subjects are
not multiplied by targets, a link changes as many rows as its tail has members, or its head
projects.

`core.records.permissions` computes the rows. This module updates the changed part in the
transaction that changes the graph. `permission_queries` queries the tables.
"""

# ruff: noqa: S608 - names are those of our tables, values go into placeholders

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

# ruff: noqa: S608 - names are constants of this module, values go into placeholders
from typing import Final, TypeAlias, TypeVar

from lading.core.ids import is_group, is_user
from lading.core.records.permissions import (
    LEVELS,
    NAMES,
    GroupFlags,
    Level,
    inherit,
    stand,
    subjects,
)
from lading.store.database import Dialect, Transaction, Value

# Rows or values per statement; below the limits on placeholders of both databases.
CHUNK = 1000
_Levels: TypeAlias = dict[str, dict[str, int]]
_Item = TypeVar("_Item")
# Both conditions of the join are indexed: memberships by user, grants by subject and target.
JOINED: Final = "memberships m JOIN grants g ON g.subject_uuid = m.subject_uuid"
# A user reaches a target with the lesser of the levels of the two steps.
LESSER: Final = "CASE WHEN m.level < g.level THEN m.level ELSE g.level END"
_NAMED: Final = " ".join(f"WHEN {int(level)} THEN '{name}'" for level, name in NAMES.items())
COMPUTED: Final = (
    f"(SELECT m.user_uuid, g.target_uuid, CASE max({LESSER}) {_NAMED} END AS perm_level"
    f" FROM {JOINED} GROUP BY m.user_uuid, g.target_uuid) computed_permissions"
)
"""SQL table of the levels of all users on users, groups and shared records."""


def tables(dialect: Dialect) -> Iterator[str]:
    """Idempotent statements that create the tables and their indexes."""
    string, number = dialect.column_type("string"), dialect.column_type("integer")
    yield (
        f"CREATE TABLE IF NOT EXISTS memberships (user_uuid {string} NOT NULL,"
        f" subject_uuid {string} NOT NULL, level {number} NOT NULL,"
        " PRIMARY KEY (user_uuid, subject_uuid))"
    )
    yield "CREATE INDEX IF NOT EXISTS memberships_subject ON memberships (subject_uuid)"
    yield (
        f"CREATE TABLE IF NOT EXISTS grants (subject_uuid {string} NOT NULL,"
        f" target_uuid {string} NOT NULL, level {number} NOT NULL, owning {number} NOT NULL,"
        " PRIMARY KEY (subject_uuid, target_uuid))"
    )
    yield "CREATE INDEX IF NOT EXISTS grants_target ON grants (target_uuid)"
    yield (
        "CREATE INDEX IF NOT EXISTS grants_shared ON grants (subject_uuid, target_uuid)"
        " WHERE owning = 0"
    )
    yield (
        f"CREATE TABLE IF NOT EXISTS group_standing (uuid {string} NOT NULL PRIMARY KEY,"
        f" trash_at {string}, frozen {number} NOT NULL)"
    )


async def add_user(tx: Transaction, uuid: str) -> None:
    """Add the rows of a new user."""
    # A user is a member of itself with the highest level, and owns its own record.
    await tx.execute("INSERT INTO memberships VALUES (?, ?, ?)", (uuid, uuid, int(Level.MANAGE)))
    await tx.execute("INSERT INTO grants VALUES (?, ?, ?, 1)", (uuid, uuid, int(Level.MANAGE)))


async def add_group(tx: Transaction, uuid: str, owner_uuid: str) -> None:
    """Add the rows of a new, empty group: subjects with access to the owner get access to the
    group.
    """
    await tx.execute(
        "INSERT INTO grants (subject_uuid, target_uuid, level, owning)"
        " SELECT subject_uuid, CAST(? AS TEXT), level, 1 FROM grants"
        " WHERE target_uuid = ? AND owning = 1",
        (uuid, owner_uuid),
    )
    await _stand_all(tx, [(uuid, owner_uuid)])


async def move_group(tx: Transaction, uuid: str) -> None:
    """Update a group and all groups below it after a change of owner, trash time or freezing."""
    nodes = await below(tx, uuid)
    await _regrant(tx, nodes)
    await _stand_all(tx, nodes)


async def stand_group(tx: Transaction, uuid: str) -> None:
    """Update the flags of a group and all groups below it after a change of trash time or
    freezing.
    """
    await _stand_all(tx, await below(tx, uuid))


async def change_link(tx: Transaction, tail: str, head: str) -> None:
    """Update grants and memberships after a change of a permission link from `tail` to `head`."""
    level = await _linked(tx, tail, head)
    if is_group(head):
        await _regrant_one(tx, tail, head, level)
    else:
        await _put_grants(tx, [(tail, head, level)])
    if is_user(head) and level < Level.MANAGE:
        # A path continues beyond a user only with manage, so users who lost it are recomputed.
        await _rejoin(tx, [user for user in await _members(tx, head) if user != head])
    elif is_user(head) or await _is_role(tx, head):
        # A new role or managed user as head: all members of the tail get its memberships.
        await _rejoin(tx, await _members(tx, tail))


async def forget(tx: Transaction, uuid: str) -> None:
    """Delete the rows of a deleted record; its permission links were deleted before."""
    await tx.execute("DELETE FROM grants WHERE target_uuid = ?", (uuid,))
    if is_user(uuid) or is_group(uuid):
        # Read before the rows are deleted: these users lose the access that they had through this
        # subject.
        lost = [user for user in await _members(tx, uuid) if user != uuid]
        await tx.execute(
            "DELETE FROM memberships WHERE user_uuid = ? OR subject_uuid = ?", (uuid, uuid)
        )
        await tx.execute("DELETE FROM grants WHERE subject_uuid = ?", (uuid,))
        await tx.execute("DELETE FROM group_standing WHERE uuid = ?", (uuid,))
        await _rejoin(tx, lost)


async def users_outside(tx: Transaction) -> list[str]:
    """Users without rows, from a database that is older than these tables."""
    rows = await tx.fetch(
        "SELECT uuid FROM users WHERE NOT EXISTS (SELECT 1 FROM memberships m"
        " WHERE m.user_uuid = users.uuid AND m.subject_uuid = users.uuid)"
    )
    return [str(row[0]) for row in rows]


async def below(tx: Transaction, uuid: str) -> list[tuple[str, str]]:
    """A group and the groups in it, at any depth, as (group, owner), owners first."""
    rows = await tx.fetch(
        "WITH RECURSIVE inside (uuid, owner_uuid, depth) AS"
        " (SELECT uuid, owner_uuid, 0 FROM groups WHERE uuid = ?"
        # UNION ALL: the groups form a tree, so no group occurs twice.
        " UNION ALL SELECT g.uuid, g.owner_uuid, inside.depth + 1 FROM groups g"
        " JOIN inside ON g.owner_uuid = inside.uuid)"
        " SELECT uuid, owner_uuid FROM inside ORDER BY depth",
        (uuid,),
    )
    return [(str(group), str(owner)) for group, owner in rows]


async def _linked(tx: Transaction, tail: str, head: str) -> int:
    rows = await tx.fetch(
        "SELECT name FROM links"
        " WHERE head_uuid = ? AND tail_uuid = ? AND link_class = 'permission'",
        (head, tail),
    )
    # There may be several links between the same two records; the best one counts.
    return max((int(LEVELS.get(str(row[0]), Level.NONE)) for row in rows), default=0)


async def _is_role(tx: Transaction, uuid: str) -> bool:
    return bool(
        await tx.fetch("SELECT 1 FROM groups WHERE uuid = ? AND group_class = 'role'", (uuid,))
    )


async def _members(tx: Transaction, subject: str) -> list[str]:
    rows = await tx.fetch("SELECT user_uuid FROM memberships WHERE subject_uuid = ?", (subject,))
    return [str(row[0]) for row in rows]


async def _regrant_one(tx: Transaction, tail: str, head: str, level: int) -> None:
    """Recompute the grants of one subject on a group and all groups below it."""
    nodes = await below(tx, head)
    links = await _links_of(tx, tail, [node for node, _ in nodes])
    links[head] = {tail: level} if level else {}
    levels = inherit(nodes, links, await _granted(tx, [nodes[0][1]], subject=tail))
    await _put_grants(tx, [(tail, node, levels[node].get(tail, 0)) for node, _ in nodes])


async def _regrant(tx: Transaction, nodes: Sequence[tuple[str, str]]) -> None:
    """Recompute the grants of all subjects on groups; `nodes` lists owners first and includes all
    groups below.
    """
    names = [node for node, _ in nodes]
    levels = inherit(nodes, await _links_to(tx, names), await _granted(tx, [nodes[0][1]]))
    before = await _granted(tx, names)
    # Only differences are written: most grants of a moved project stay the same.
    changes = [
        (subject, node, levels[node].get(subject, 0))
        for node in names
        for subject in levels[node].keys() | before.get(node, {}).keys()
        if levels[node].get(subject, 0) != before.get(node, {}).get(subject, 0)
    ]
    await _put_grants(tx, changes)


async def _granted(
    tx: Transaction, targets: Sequence[str], *, subject: str | None = None
) -> _Levels:
    """Levels by target and subject."""
    levels: _Levels = defaultdict(dict)
    also = "" if subject is None else " AND subject_uuid = ?"
    for chunk in _chunks(targets):
        values = (*chunk, *([] if subject is None else [subject]))
        rows = await tx.fetch(
            "SELECT target_uuid, subject_uuid, level FROM grants"
            f" WHERE target_uuid IN ({_marks(chunk)}){also}",
            values,
        )
        for target, subject_uuid, level in rows:
            levels[str(target)][str(subject_uuid)] = int(level or 0)
    return levels


async def _links_of(tx: Transaction, tail: str, heads: Sequence[str]) -> _Levels:
    """Levels of the links of one tail, by head and tail, limited to these heads."""
    rows = await tx.fetch(
        "SELECT head_uuid, name FROM links WHERE tail_uuid = ? AND link_class = 'permission'",
        (tail,),
    )
    wanted, found = set(heads), defaultdict[str, dict[str, int]](dict)
    for head, name in rows:
        if head in wanted:
            _strengthen(found[str(head)], tail, str(name))
    return found


async def _links_to(tx: Transaction, heads: Sequence[str]) -> _Levels:
    """Levels of links by head and tail."""
    levels: _Levels = defaultdict(dict)
    for chunk in _chunks(heads):
        rows = await tx.fetch(
            "SELECT head_uuid, tail_uuid, name FROM links"
            f" WHERE link_class = 'permission' AND head_uuid IN ({_marks(chunk)})",
            chunk,
        )
        for head, tail, name in rows:
            _strengthen(levels[str(head)], str(tail), str(name))
    return levels


def _strengthen(levels: dict[str, int], subject: str, name: str) -> None:
    levels[subject] = max(levels.get(subject, 0), int(LEVELS.get(name, Level.NONE)))


async def _put_grants(tx: Transaction, grants: Iterable[tuple[str, str, int]]) -> None:
    """Store (subject, target, level); level 0 is none."""
    rows = list(grants)
    for chunk in _chunks([row for row in rows if row[2]]):
        values: list[Value] = []
        for subject, target, level in chunk:
            values += (subject, target, level, int(is_group(target)))
        await tx.execute(
            "INSERT INTO grants (subject_uuid, target_uuid, level, owning)"
            f" VALUES {', '.join('(?, ?, ?, ?)' for _ in chunk)}"
            " ON CONFLICT (subject_uuid, target_uuid) DO UPDATE SET level = excluded.level",
            values,
        )
    # Grouped by subject, so that one statement deletes many targets.
    gone: dict[str, list[str]] = defaultdict(list)
    for subject, target, level in rows:
        if not level:
            gone[subject].append(target)
    for subject, targets in gone.items():
        for names in _chunks(targets):
            await tx.execute(
                f"DELETE FROM grants WHERE subject_uuid = ? AND target_uuid IN ({_marks(names)})",
                (subject, *names),
            )


async def _rejoin(tx: Transaction, users: Sequence[str]) -> None:
    """Recompute the memberships of users."""
    if not users:
        return
    edges = await _subject_links(tx, users)
    before = await _memberships(tx, users)
    added: list[tuple[str, str, int]] = []
    gone: dict[str, list[str]] = defaultdict(list)
    for user in users:
        after = subjects(user, edges)
        added += [
            (user, subject, level)
            for subject, level in after.items()
            if before[user].get(subject) != level
        ]
        for subject in before[user].keys() - after.keys():
            gone[subject].append(user)
    await _write_memberships(tx, added, gone)


async def _memberships(tx: Transaction, users: Sequence[str]) -> _Levels:
    """The stored memberships of users, with their levels."""
    levels: _Levels = defaultdict(dict)
    for chunk in _chunks(users):
        rows = await tx.fetch(
            "SELECT user_uuid, subject_uuid, level FROM memberships"
            f" WHERE user_uuid IN ({_marks(chunk)})",
            chunk,
        )
        for user, subject, level in rows:
            levels[str(user)][str(subject)] = int(level or 0)
    return levels


async def _write_memberships(
    tx: Transaction, added: Sequence[tuple[str, str, int]], gone: Mapping[str, Sequence[str]]
) -> None:
    """Store memberships as user, subject and level; delete others, as users by subject."""
    for subject, lost in gone.items():
        for names in _chunks(lost):
            await tx.execute(
                "DELETE FROM memberships"
                f" WHERE subject_uuid = ? AND user_uuid IN ({_marks(names)})",
                (subject, *names),
            )
    for rows_ in _chunks(added):
        await tx.execute(
            "INSERT INTO memberships (user_uuid, subject_uuid, level)"
            f" VALUES {', '.join('(?, ?, ?)' for _ in rows_)}"
            " ON CONFLICT (user_uuid, subject_uuid) DO UPDATE SET level = excluded.level",
            [value for row in rows_ for value in row],
        )


async def _subject_links(tx: Transaction, users: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Links, by tail and head, from these users to roles and to managed users."""
    # Breadth first: one query for each step of the longest path, not for each user.
    edges: _Levels = {}
    frontier = list(users)
    while frontier:
        edges |= {tail: {} for tail in frontier}
        for chunk in _chunks(frontier):
            rows = await tx.fetch(
                "SELECT l.tail_uuid, l.head_uuid, l.name FROM links l"
                " LEFT JOIN groups g ON g.uuid = l.head_uuid"
                f" WHERE l.link_class = 'permission' AND l.tail_uuid IN ({_marks(chunk)})"
                " AND (g.group_class = 'role'"
                " OR (l.name = 'can_manage' AND substr(l.head_uuid, 7, 5) = 'tpzed'))",
                chunk,
            )
            for tail, head, name in rows:
                _strengthen(edges[str(tail)], str(head), str(name))
        # Tails that were asked about are keys of `edges`; this ends circles of roles.
        frontier = sorted({head for heads in edges.values() for head in heads} - edges.keys())
    return edges


async def _stand_all(tx: Transaction, nodes: Sequence[tuple[str, str]]) -> None:
    """Recompute the flags of groups; owners come first."""
    names = [node for node, _ in nodes]
    own, flags = await _own_standing(tx, names), dict[str, GroupFlags]()
    for number, (node, owner) in enumerate(nodes):
        above = await group_flags(tx, owner) if number == 0 else flags[owner]
        flags[node] = stand(own.get(node, GroupFlags()), above)
    # Deleted and inserted again: most groups have no row, and few change.
    for chunk in _chunks(names):
        await tx.execute(f"DELETE FROM group_standing WHERE uuid IN ({_marks(chunk)})", chunk)
    special = [
        (node, group_flags.trash_at, int(group_flags.frozen))
        for node, group_flags in flags.items()
        if group_flags != GroupFlags()
    ]
    for rows in _chunks(special):
        await tx.execute(
            "INSERT INTO group_standing (uuid, trash_at, frozen)"
            f" VALUES {', '.join('(?, ?, ?)' for _ in rows)}",
            [value for row in rows for value in row],
        )


async def group_flags(tx: Transaction, uuid: str) -> GroupFlags:
    """Flags of a group; the default for users and for groups without a row."""
    if not is_group(uuid):
        return GroupFlags()
    rows = await tx.fetch("SELECT trash_at, frozen FROM group_standing WHERE uuid = ?", (uuid,))
    if not rows:
        return GroupFlags()
    return GroupFlags(None if rows[0][0] is None else str(rows[0][0]), bool(rows[0][1]))


async def flags_by_group(tx: Transaction, uuids: Iterable[str]) -> dict[str, GroupFlags]:
    """Flags of the owners that are in the trash, now or later, or frozen."""
    flags = {}
    for chunk in _chunks([uuid for uuid in dict.fromkeys(uuids) if is_group(uuid)]):
        rows = await tx.fetch(
            f"SELECT uuid, trash_at, frozen FROM group_standing WHERE uuid IN ({_marks(chunk)})",
            chunk,
        )
        for uuid, trash_at, frozen in rows:
            flags[str(uuid)] = GroupFlags(None if trash_at is None else str(trash_at), bool(frozen))
    return flags


async def any_frozen(tx: Transaction) -> bool:
    """Whether any group is frozen."""
    return bool(await tx.fetch("SELECT 1 FROM group_standing WHERE frozen = 1 LIMIT 1"))


async def _own_standing(tx: Transaction, names: Sequence[str]) -> dict[str, GroupFlags]:
    flags = {}
    for chunk in _chunks(names):
        rows = await tx.fetch(
            f"SELECT uuid, trash_at, frozen_by_uuid FROM groups WHERE uuid IN ({_marks(chunk)})"
            " AND (trash_at IS NOT NULL OR frozen_by_uuid IS NOT NULL)",
            chunk,
        )
        for uuid, trash_at, frozen_by in rows:
            flags[str(uuid)] = GroupFlags(
                None if trash_at is None else str(trash_at), frozen_by is not None
            )
    return flags


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)


def reaches(column: str, level: int, *, owning: bool = False, user: str = "?") -> str:
    """SQL condition: the user has a level on the uuid in `column`, or on the records that it
    owns. `user`: the column with the user, in place of a value.
    """
    passing = " AND g.owning = 1" if owning else ""
    return (
        f"EXISTS (SELECT 1 FROM {JOINED} WHERE m.user_uuid = {user} AND g.target_uuid = {column}"
        f" AND m.level >= {level} AND g.level >= {level}{passing})"
    )


def reached(*, owning: bool) -> str:
    """SQL query of the uuids on which the user has a level. `owning`: only the levels that include
    owned records.
    """
    passing = " AND g.owning = 1" if owning else ""
    return f"SELECT g.target_uuid FROM {JOINED} WHERE m.user_uuid = ?{passing}"
