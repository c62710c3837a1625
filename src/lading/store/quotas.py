"""Rows about quotas: the charges to each quota, the requests that wait for it, the spending.

- `quota_charges`: a container that waits and has room (`held` 0), or that is Locked or Running
  (`held` 1), for each quota that it is charged to, with its amounts.
- `quota_waits`: a request without room, with the subject of the quota that it waits for, its rank
  there, and the time at which it is looked at again if nothing else happens.
- `quota_spending`: dollars by subject and day.

`core.policy.quotas` has the rules, `api.quotas` carries them out.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lading.core.ids import Infix
from lading.core.policy.budgets import Spent
from lading.core.policy.quotas import Amounts, Charge, Quota
from lading.core.records.service_records import QUOTAS
from lading.store import records
from lading.store.database import Transaction, Value
from lading.store.permissions import CHUNK

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS quota_charges (container_uuid TEXT NOT NULL,"
    " subject_uuid TEXT NOT NULL, rank BIGINT NOT NULL, held SMALLINT NOT NULL,"
    " containers INTEGER NOT NULL, vcpus BIGINT NOT NULL, ram BIGINT NOT NULL,"
    " gpus BIGINT NOT NULL, runs_workflow SMALLINT NOT NULL,"
    " PRIMARY KEY (container_uuid, subject_uuid))",
    "CREATE INDEX IF NOT EXISTS quota_charges_subject_uuid"
    " ON quota_charges (subject_uuid, held, rank)",
    "CREATE TABLE IF NOT EXISTS quota_waits (request_uuid TEXT NOT NULL PRIMARY KEY,"
    " container_uuid TEXT NOT NULL, subject_uuid TEXT NOT NULL, reason TEXT NOT NULL,"
    " rank BIGINT NOT NULL, again_at TEXT)",
    "CREATE INDEX IF NOT EXISTS quota_waits_subject_uuid"
    " ON quota_waits (subject_uuid, rank DESC, request_uuid)",
    "CREATE INDEX IF NOT EXISTS quota_waits_container_uuid ON quota_waits (container_uuid)",
    "CREATE INDEX IF NOT EXISTS quota_waits_again_at ON quota_waits (again_at)"
    " WHERE again_at IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS quota_spending (subject_uuid TEXT NOT NULL, day TEXT NOT NULL,"
    " amount DOUBLE PRECISION NOT NULL, PRIMARY KEY (subject_uuid, day))",
)
SUBJECTS: Final = (Infix.USER, Infix.GROUP, Infix.REQUEST)
KINDS: Final = " UNION ALL ".join(
    f"SELECT '{infix}' WHERE EXISTS (SELECT 1 FROM quotas WHERE subject_uuid >= ?"
    # "~" follows all characters of a uuid.
    " AND subject_uuid < ? || '~')"
    for infix in SUBJECTS
)
"""Query for `kinds`, with the values `kinds_values`."""


def _sum(column: str) -> str:
    """The sum of a column of whole numbers. As a floating-point number: SQLite ends a statement
    whose integers pass 64 bits. Sums to 2**53 are exact.
    """
    return f"sum(CAST({column} AS DOUBLE PRECISION))"


_SUMS: Final = ", ".join(map(_sum, ("containers", "vcpus", "ram", "gpus")))


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """The facts that decide which quotas concern a request: its committer, its owner, the container
    that made it, and itself.
    """

    user_uuid: str
    owner_uuid: str
    requesting_uuid: str = ""
    request_uuid: str = ""


@dataclass(frozen=True, slots=True)
class StoredCharge:
    """A charge of a container to a subject."""

    rank: int
    is_held: bool
    amounts: Amounts
    runs_workflow: bool = False


async def kinds(tx: Transaction, cluster: str) -> frozenset[str]:
    """The kinds of subjects that have quotas, as infixes of uuids; empty without any quota."""
    # Three looks at an index, however many quotas there are: each lock and each end asks.
    rows = await tx.fetch(KINDS, kinds_values(cluster))
    return frozenset(str(row[0]) for row in rows)


# A server has one cluster, and asks at each lock and each end.
@lru_cache(1)
def kinds_values(cluster: str) -> tuple[str, ...]:
    """The values of KINDS."""
    return tuple(f"{cluster}-{infix}-" for infix in SUBJECTS for _ in (0, 1))


async def concerning(tx: Transaction, key: QuotaKey, kinds: frozenset[str]) -> list[Quota]:
    """The quotas that concern a request, by subject; `kinds` are the kinds that exist."""
    parts: list[str] = []
    values: list[Value] = []
    if kinds & {Infix.USER, Infix.GROUP} and key.user_uuid:
        # The user and the roles that it is a member of.
        parts.append(
            "subject_uuid IN (SELECT m.subject_uuid FROM memberships m WHERE m.user_uuid = ?)"
        )
        values.append(key.user_uuid)
    if Infix.GROUP in kinds:
        parts.append(
            "subject_uuid = ? OR subject_uuid IN (WITH RECURSIVE above (uuid) AS"
            " (SELECT owner_uuid FROM groups WHERE uuid = ? UNION"
            " SELECT g.owner_uuid FROM groups g JOIN above ON g.uuid = above.uuid)"
            # The user at the top owns the project, and did not ask for what others run there.
            f" SELECT uuid FROM above WHERE substr(uuid, 7, 5) = '{Infix.GROUP}')"
        )
        values += [key.owner_uuid if _is_group(key.owner_uuid) else "", key.owner_uuid]
    if Infix.REQUEST in kinds:
        parts.append(
            "subject_uuid = ? OR subject_uuid IN (WITH RECURSIVE tree (uuid, parent) AS"
            " (SELECT uuid, requesting_container_uuid FROM container_requests"
            " WHERE container_uuid = ? UNION"
            " SELECT r.uuid, r.requesting_container_uuid FROM container_requests r"
            " JOIN tree ON r.container_uuid = tree.parent) SELECT uuid FROM tree)"
        )
        values += [key.request_uuid, key.requesting_uuid]
    if not parts:
        return []
    where = " OR ".join(f"({condition})" for condition in parts)
    rows = await records.selected(
        tx, QUOTAS, f" WHERE {where} ORDER BY subject_uuid", tuple(values)
    )
    return [Quota.from_record(row) for row in rows]


def _is_group(uuid: str) -> bool:
    return uuid[6:11] == Infix.GROUP


async def find(tx: Transaction, subjects: Collection[str]) -> dict[str, Quota]:
    """The quotas of some subjects, by subject."""
    rows = await records.among(tx, QUOTAS, "subject_uuid", sorted(subjects))
    return {row["subject_uuid"]: Quota.from_record(row) for row in rows}


async def storing(tx: Transaction, owner_uuid: str) -> list[tuple[Quota, list[str]]]:
    """The quotas with a limit of bytes on an owner or on one above it, each with the owners whose
    collections count.
    """
    if not await tx.fetch("SELECT 1 FROM quotas WHERE bytes_stored IS NOT NULL LIMIT 1"):
        return []
    rows = await records.selected(
        tx,
        QUOTAS,
        " WHERE bytes_stored IS NOT NULL AND (subject_uuid = ? OR subject_uuid IN"
        " (WITH RECURSIVE above (uuid) AS (SELECT owner_uuid FROM groups WHERE uuid = ? UNION"
        " SELECT g.owner_uuid FROM groups g JOIN above ON g.uuid = above.uuid)"
        " SELECT uuid FROM above)) ORDER BY subject_uuid",
        (owner_uuid, owner_uuid),
    )
    return [(quota, await below(tx, quota.subject_uuid)) for quota in map(Quota.from_record, rows)]


async def below(tx: Transaction, subject_uuid: str) -> list[str]:
    """A user or project, and all projects below it."""
    rows = await tx.fetch(
        "WITH RECURSIVE below (uuid) AS (SELECT uuid FROM groups WHERE owner_uuid = ? UNION"
        " SELECT g.uuid FROM groups g JOIN below ON g.owner_uuid = below.uuid)"
        " SELECT uuid FROM below",
        (subject_uuid,),
    )
    return [subject_uuid, *(str(row[0]) for row in rows)]


async def stored_bytes(tx: Transaction, owners: Sequence[str], now: str) -> int:
    """Bytes of the files of the collections of some owners, without past versions and without
    collections in the trash.
    """
    total = 0
    for chunk, marks in parts(owners):
        rows = await tx.fetch(
            f"SELECT {_sum('file_size_total')} FROM collections WHERE owner_uuid IN ({marks})"
            " AND current_version_uuid = uuid AND (trash_at IS NULL OR trash_at > ?)",
            (*chunk, now),
        )
        total += int(rows[0][0] or 0)
    return total


# Charges.


async def charges_of(
    tx: Transaction, containers: Collection[str]
) -> dict[str, dict[str, StoredCharge]]:
    """The charges of containers, by container and subject."""
    charges: defaultdict[str, dict[str, StoredCharge]] = defaultdict(dict)
    for chunk, marks in parts(sorted(containers)):
        rows = await tx.fetch(
            "SELECT container_uuid, subject_uuid, rank, held, runs_workflow, containers, vcpus,"
            f" ram, gpus FROM quota_charges WHERE container_uuid IN ({marks})",
            chunk,
        )
        for row in rows:
            charge = StoredCharge(int(row[2] or 0), bool(row[3]), _amounts(row[5:]), bool(row[4]))
            charges[str(row[0])][str(row[1])] = charge
    return charges


async def charge(
    tx: Transaction, container_uuid: str, subjects: Iterable[str], stored: StoredCharge
) -> None:
    """Charge a container to subjects, in place of an earlier charge to them."""
    amounts = stored.amounts
    for subject in subjects:
        await tx.execute(
            "INSERT INTO quota_charges (container_uuid, subject_uuid, rank, held, containers,"
            " vcpus, ram, gpus, runs_workflow) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (container_uuid, subject_uuid) DO UPDATE SET rank = excluded.rank,"
            " held = excluded.held, containers = excluded.containers, vcpus = excluded.vcpus,"
            " ram = excluded.ram, gpus = excluded.gpus, runs_workflow = excluded.runs_workflow",
            (
                container_uuid,
                subject,
                stored.rank,
                int(stored.is_held),
                amounts.containers,
                amounts.vcpus,
                amounts.ram,
                amounts.gpus,
                int(stored.runs_workflow),
            ),
        )


async def discharge(
    tx: Transaction, container_uuid: str, subjects: Collection[str] | None = None
) -> list[str]:
    """Delete the charges of a container, or those to some subjects; the subjects."""
    marks = f" AND subject_uuid IN ({', '.join('?' for _ in subjects)})" if subjects else ""
    rows = await tx.fetch(
        f"DELETE FROM quota_charges WHERE container_uuid = ?{marks} RETURNING subject_uuid",
        (container_uuid, *(subjects or ())),
    )
    return [str(row[0]) for row in rows]


async def used(
    tx: Transaction,
    subjects: Collection[str],
    *,
    without: str = "",
    only_held: bool = False,
    workflows: bool = False,
) -> dict[str, Amounts]:
    """The amounts charged to each subject for all containers but `without`. `only_held` counts
    Locked and Running containers alone, `workflows` containers that run workflows alone.
    """
    amounts = dict.fromkeys(subjects, Amounts())
    only = (" AND held = 1" if only_held else "") + (" AND runs_workflow = 1" if workflows else "")
    for chunk, marks in parts(sorted(subjects)):
        rows = await tx.fetch(
            f"SELECT subject_uuid, {_SUMS} FROM quota_charges WHERE subject_uuid IN ({marks})"
            f" AND container_uuid <> ?{only} GROUP BY subject_uuid",
            (*chunk, without),
        )
        amounts |= {str(row[0]): _amounts(row[1:]) for row in rows}
    return amounts


async def yielding(tx: Transaction, subject: str, rank: int, *, most: int) -> list[Charge]:
    """The containers that wait and rank below, the lowest first."""
    rows = await tx.fetch(
        "SELECT container_uuid, rank, containers, vcpus, ram, gpus FROM quota_charges"
        " WHERE subject_uuid = ? AND held = 0 AND rank < ? ORDER BY rank LIMIT ?",
        (subject, rank, most),
    )
    return [Charge(str(row[0]), int(row[1] or 0), _amounts(row[2:])) for row in rows]


async def admitted(tx: Transaction, subject: str, *, most: int) -> list[str]:
    """Containers that wait and have room, the lowest rank first."""
    rows = await tx.fetch(
        "SELECT container_uuid FROM quota_charges WHERE subject_uuid = ? AND held = 0"
        " ORDER BY rank LIMIT ?",
        (subject, most),
    )
    return [str(row[0]) for row in rows]


async def running(tx: Transaction, subject: str, *, most: int) -> list[str]:
    """Containers that are Locked or Running and are charged to a subject."""
    rows = await tx.fetch(
        "SELECT container_uuid FROM quota_charges WHERE subject_uuid = ? AND held = 1 LIMIT ?",
        (subject, most),
    )
    return [str(row[0]) for row in rows]


# Waits.


# Requests of a subject.

_NOT_STARTED: Final = (
    "r.state = 'Committed' AND (r.container_uuid IS NULL OR EXISTS (SELECT 1 FROM containers c"
    " WHERE c.uuid = r.container_uuid AND c.state = 'Queued'))"
)


def _members(subject: str) -> tuple[str, list[Value]]:
    """The condition that the quota of a subject concerns a request `r`."""
    infix = subject[6:11]
    if infix == Infix.USER:
        return "r.committed_by_uuid = ?", [subject]
    if infix == Infix.REQUEST:
        return (
            "(r.uuid = ? OR r.requesting_container_uuid IN (WITH RECURSIVE down (container) AS"
            " (SELECT container_uuid FROM container_requests WHERE uuid = ? UNION"
            " SELECT q.container_uuid FROM container_requests q"
            " JOIN down ON q.requesting_container_uuid = down.container)"
            " SELECT container FROM down WHERE container IS NOT NULL))",
            [subject, subject],
        )
    return (
        "(r.owner_uuid = ? OR r.owner_uuid IN (WITH RECURSIVE below (uuid) AS"
        " (SELECT uuid FROM groups WHERE owner_uuid = ? UNION"
        " SELECT g.uuid FROM groups g JOIN below ON g.owner_uuid = below.uuid)"
        " SELECT uuid FROM below) OR r.committed_by_uuid IN"
        " (SELECT m.user_uuid FROM memberships m WHERE m.subject_uuid = ?))",
        [subject, subject, subject],
    )


async def queued(tx: Transaction, subject: str, *, most: int) -> int:
    """Committed requests of a subject whose container has not started, counted up to `most`."""
    condition, values = _members(subject)
    rows = await tx.fetch(
        "SELECT count(*) FROM (SELECT 1 FROM container_requests r"
        f" WHERE {condition} AND {_NOT_STARTED} LIMIT ?) found",
        (*values, most),
    )
    return int(rows[0][0] or 0)


async def live(
    tx: Transaction, subject: str, *, states: Sequence[str], after: str = "", most: int
) -> list[str]:
    """Containers in some states of Committed requests of a subject, ordered by uuid, after one."""
    condition, values = _members(subject)
    marks = ", ".join("?" for _ in states)
    rows = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        " JOIN containers live ON live.uuid = r.container_uuid"
        f" WHERE r.state = 'Committed' AND live.state IN ({marks}) AND live.uuid > ?"
        f" AND {condition} ORDER BY r.container_uuid LIMIT ?",
        (*states, after, *values, most),
    )
    return [str(row[0]) for row in rows]


# Spending.


async def spend(tx: Transaction, subjects: Iterable[str], day: str, amount: float) -> None:
    """Add to what subjects have spent on a day."""
    for subject in subjects:
        await tx.execute(
            "INSERT INTO quota_spending (subject_uuid, day, amount) VALUES (?, ?, ?)"
            " ON CONFLICT (subject_uuid, day) DO UPDATE"
            " SET amount = quota_spending.amount + excluded.amount",
            (subject, day, amount),
        )


async def spent(tx: Transaction, subject: str, since: str) -> Spent:
    """The spending of a subject since a day, and in all."""
    rows = await tx.fetch(
        "SELECT sum(CASE WHEN day >= ? THEN amount ELSE 0 END), sum(amount)"
        " FROM quota_spending WHERE subject_uuid = ?",
        (since, subject),
    )
    return Spent(float(rows[0][0] or 0), float(rows[0][1] or 0))


async def spent_before(tx: Transaction, subject: str) -> dict[str, float]:
    """The costs until now of the containers of a subject, by day of their end or start, for a new
    quota.
    """
    condition, values = _members(subject)
    rows = await tx.fetch(
        "SELECT substr(coalesce(x.finished_at, x.started_at, x.created_at), 1, 10) AS day,"
        " sum(x.cost) FROM containers x WHERE x.cost > 0 AND EXISTS (SELECT 1 FROM"
        " container_requests r WHERE (r.container_uuid = x.uuid OR r.uuid IN (SELECT"
        " a.request_uuid FROM container_attempts a WHERE a.container_uuid = x.uuid))"
        # Found work was paid by an earlier request, as in the report of costs.
        f" AND r.created_at <= x.created_at AND {condition}) GROUP BY day",
        values,
    )
    return {str(row[0]): float(row[1] or 0) for row in rows}


async def forget(tx: Transaction, subject: str) -> None:
    """Delete the charges and the spending of a subject without a quota; who waits for it stays, to
    be looked at again.
    """
    await tx.execute("DELETE FROM quota_charges WHERE subject_uuid = ?", (subject,))
    await tx.execute("DELETE FROM quota_spending WHERE subject_uuid = ?", (subject,))


def _amounts(values: Sequence[Value]) -> Amounts:
    return Amounts(*(int(value or 0) for value in values))


def parts(values: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The values in parts that fit one statement, each with its placeholders."""
    for start in range(0, len(values), CHUNK):
        part = tuple(values[start : start + CHUNK])
        yield part, ", ".join("?" for _ in part)
