"""Users, projects, roles and tokens of the laboratory, stored as the server stores them.

Of ten projects one is a study that the laboratory can read, five lie inside that, and four are
somebody's own.
"""

from __future__ import annotations

from bench.api.sample import LOCKERS, OTHERS, PROJECTS, USERS, Site, readable, secret
from bench.api.templates import created_at
from lading.api.server.identifiers import hash_secret
from lading.core import ids
from lading.core.ids import Infix
from lading.core.records.access import DISPATCHER_SCOPES
from lading.core.records.permissions import NAMES, Level
from lading.core.records.record_types import GROUPS, LINKS, TOKENS
from lading.core.records.record_types import USERS as USER_TYPE
from lading.core.records.schema import Record, RecordType
from lading.store import permission_queries, records
from lading.store.database import Database, Transaction


async def settle(database: Database, site: Site) -> None:
    """Store everybody, and what they may do."""
    system = ids.system_user(site.cluster)
    async with database.writing() as tx:
        await _add(tx, site, USER_TYPE, {"uuid": system, "username": "root", "is_admin": True})
        for number in range(USERS):
            await _add(
                tx, site, USER_TYPE, {"uuid": site.user(number), "username": f"user{number}"}
            )
        await _add(
            tx, site, GROUPS, {"uuid": site.lab, "name": "Laboratory", "group_class": "role"}
        )
        for number in range(USERS):
            await _link(tx, site, site.user(number), site.lab, Level.WRITE)
        for number in range(PROJECTS):
            await _project(tx, site, number)
        await _token(tx, site, "alice", site.alice, ["all"])
        for number in range(LOCKERS):
            await _token(tx, site, f"locker {number}", system, list(DISPATCHER_SCOPES))
        for number in range(OTHERS):
            await _token(tx, site, f"other {number}", site.user(1 + number % (USERS - 1)), ["all"])


async def _project(tx: Transaction, site: Site, number: int) -> None:
    uuid, study = site.project(number), number - number % 10
    inside = readable(number) and number != study
    owner = site.project(study) if inside else site.user(1 + number // 10)
    given = {
        "uuid": uuid,
        "owner_uuid": owner,
        "name": f"project {number}",
        "group_class": "project",
    }
    await _add(tx, site, GROUPS, given)
    if number == study:
        await _link(tx, site, site.lab, uuid, Level.READ)


async def _link(tx: Transaction, site: Site, tail: str, head: str, level: Level) -> None:
    uuid = site.uuid(Infix.LINK, tail, head)
    ends = {
        "tail_uuid": tail,
        "head_uuid": head,
        "link_class": permission_queries.PERMISSION,
        "name": NAMES[level],
    }
    await _add(tx, site, LINKS, {"uuid": uuid, **ends})


async def _token(tx: Transaction, site: Site, holder: str, owner: str, scopes: list[str]) -> None:
    common = {"uuid": site.token_uuid(holder), "owner_uuid": owner, "scopes": scopes}
    await _add(tx, site, TOKENS, {**common, "secret_hash": hash_secret(secret(holder))})


async def _add(tx: Transaction, site: Site, kind: RecordType, given: Record) -> None:
    system, now = ids.system_user(site.cluster), created_at(0)
    record = {**kind.defaults, "owner_uuid": system, "created_at": now, "modified_at": now, **given}
    await records.insert(tx, kind, record)
    await permission_queries.follow_insert(tx, kind, record)
