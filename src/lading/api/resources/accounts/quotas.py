"""Quotas: admins write them, those whom a quota concerns read it. Who may change a request sets a
budget for its tree.

A quota belongs to its subject: a user reads its own, the members of a role that of the role, and
the readers of a project that of the project; one of a request belongs to the owner of the request.
When a quota is made or changed, what runs keeps its room, and what waits is looked at anew.
Source: docs/spec/containers, section Quotas.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lading.api import authorization, quotas, spending
from lading.api.background.cascades import begin_now
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.core.containers.container import HELD, Container
from lading.core.errors import Invalid
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.policy import quotas as rules
from lading.core.policy.quotas import Quota
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Among, Column, Query
from lading.core.records.filters import check_select
from lading.core.records.record_types import GROUPS, USERS
from lading.core.records.schema import Record, RecordType, Type
from lading.core.records.service_records import QUOTAS
from lading.store import cascades, records
from lading.store import quotas as rows
from lading.store.cascades import Cascade, CascadeKind
from lading.store.database import Transaction
from lading.store.quotas import StoredCharge

_KINDS: Final[dict[str, RecordType]] = {
    Infix.USER: USERS,
    Infix.GROUP: GROUPS,
    Infix.REQUEST: REQUESTS,
}
# What others than admins set.
_OF_TREE: Final = frozenset(
    {"subject_uuid", "owner_uuid", "name", "budget", "warn_share", "stop", "period", "contact"}
)
# Quotas whose use one call asks for.
_MOST_LISTED: Final = 1000
# Containers of a transaction that are looked at after a change of a quota.
_PAGE: Final = 200


async def list_quotas(call: ApiCall) -> ApiResponse:
    """A page of quotas."""
    return await generic.list_records(call, QUOTAS)


async def get_quota(call: ApiCall) -> ApiResponse:
    """One quota."""
    return await generic.get_record(call, QUOTAS)


async def create_quota(call: ApiCall) -> ApiResponse:
    """A new quota; what its subject has spent until now counts."""
    given = generic.check_attributes(call, QUOTAS, None)
    _check_may_write(call, given.get("subject_uuid"), given)
    async with call.services.database.writing() as tx:
        subject = await _subject(tx, call, given.get("subject_uuid"))
        record = generic.new_record(call, QUOTAS, given)
        is_request = infix_of(subject["uuid"]) == Infix.REQUEST
        record["owner_uuid"] = subject["owner_uuid"] if is_request else subject["uuid"]
        record["name"] = record["name"] or subject.get("name") or subject.get("username")
        rules.check_quota(record)
        if await records.matching(tx, QUOTAS, subject_uuid=subject["uuid"]):
            raise Invalid(f"subject_uuid: {subject['uuid']} has a quota already; change that")
        await generic.insert(tx, call, QUOTAS, record)
        for day, amount in (await rows.spent_before(tx, subject["uuid"])).items():
            await rows.spend(tx, [subject["uuid"]], day, amount)
        await _charge_running(tx, Quota.from_record(record))
        await _look_anew(tx, call, subject["uuid"])
    await begin_now(call.services, CascadeKind.QUOTA, subject["uuid"])
    return ApiResponse(body=show(QUOTAS, record))


async def update_quota(call: ApiCall) -> ApiResponse:
    """Change a quota."""
    select = check_select(call.params.get("select"), QUOTAS)
    async with call.services.database.writing() as tx:
        old = await _find(tx, call)
        given = generic.check_attributes(call, QUOTAS, old)
        _check_may_write(call, old["subject_uuid"], given, old)
        new = {**old, **given}
        for name in ("subject_uuid", "owner_uuid"):
            if new[name] != old[name]:
                raise Invalid(f"{name}: a quota stays with its subject; make another one")
        rules.check_quota(new)
        new = await generic.apply(
            tx, call.services, QUOTAS, old, new, user_uuid=call.caller.user_uuid
        )
        await _look_anew(tx, call, new["subject_uuid"])
    await begin_now(call.services, CascadeKind.QUOTA, new["subject_uuid"])
    return ApiResponse(body=show(QUOTAS, new, select))


async def delete_quota(call: ApiCall) -> ApiResponse:
    """Remove a quota; what waits for it has room as far as other quotas have."""
    async with call.services.database.writing() as tx:
        old = await _find(tx, call)
        _check_may_write(call, old["subject_uuid"], {}, old)
        await generic.remove(tx, call.services, QUOTAS, old, user_uuid=call.caller.user_uuid)
        await rows.forget(tx, old["subject_uuid"])
        await _look_anew(tx, call, old["subject_uuid"])
    await begin_now(call.services, CascadeKind.QUOTA, old["subject_uuid"])
    return ApiResponse(body=show(QUOTAS, old))


async def list_uses(call: ApiCall) -> ApiResponse:
    """The present use of those of the given quotas that the caller can read: {"items": [{"uuid",
    "use"}]}, each use with the attributes that a quota limits.
    """
    uuids = call.params.get("uuids")
    if not isinstance(uuids, list) or len(uuids) > _MOST_LISTED:
        raise Invalid(f"uuids: must be a list of at most {_MOST_LISTED} uuids of quotas")
    services, now = call.services, call.services.clock.now()
    where = (
        *generic.readable(call, QUOTAS),
        Among(Column("uuid", Type.STRING), tuple(map(str, uuids))),
    )
    async with services.database.reading() as tx:
        query = Query(where=where, limit=_MOST_LISTED)
        query = await generic.narrowed(tx, QUOTAS, query, call.caller)
        quota_rows = await records.search(tx, tx.dialect, QUOTAS, query)
        readable_quotas = [Quota.from_record(row) for row in quota_rows]
        in_use = await rows.used(
            tx, [quota.subject_uuid for quota in readable_quotas], only_held=True
        )
        items = [
            {
                "uuid": quota.uuid,
                "use": rules.shown_use(
                    quota,
                    in_use[quota.subject_uuid],
                    await spending.spent_of(tx, quota, now),
                    await _queued(tx, quota),
                    await _stored(tx, quota, now),
                ),
            }
            for quota in readable_quotas
        ]
    return ApiResponse(body={"items": items})


async def _queued(tx: Transaction, quota: Quota) -> int:
    if quota.queued is None:
        return 0
    # One beyond the limit is enough to see that it is exceeded.
    return await rows.queued(tx, quota.subject_uuid, most=quota.queued + 1)


async def _stored(tx: Transaction, quota: Quota, now: str) -> int:
    if quota.bytes_stored is None:
        return 0
    return await rows.stored_bytes(tx, await rows.below(tx, quota.subject_uuid), now)


async def check_room(
    tx: Transaction, call: ApiCall, new: Record, old: Record | None = None
) -> None:
    """Check that there is room for a new collection, or for one that grows, moves to another owner
    or comes out of the trash. Raises Invalid.

    The results of containers are always kept: the work for them is done.
    """
    caller = call.caller
    if caller.container_uuid is not None or caller.supervises or new.get("is_trashed"):
        return
    former = old if old is not None and not old["is_trashed"] else None
    if _is_smaller(former, new):
        return
    for quota, owners in await rows.storing(tx, new["owner_uuid"]):
        # Moved between two of its projects, it takes the room that it had.
        before = former if former is not None and former["owner_uuid"] in owners else None
        had = int(before["file_size_total"] or 0) if before is not None else 0
        stored = await rows.stored_bytes(tx, owners, call.services.clock.now()) - had
        more = int(new["file_size_total"] or 0)
        reader = authorization.reader_of(caller)
        await quotas.check(tx, quota, partial(rules.check_stored, stored=stored, more=more), reader)


def _is_smaller(old: Record | None, new: Record) -> bool:
    """Whether the owner of the new collection stores no more than before."""
    if old is None or old["owner_uuid"] != new["owner_uuid"]:
        return False
    return int(new["file_size_total"] or 0) <= int(old["file_size_total"] or 0)


def _check_may_write(
    call: ApiCall, subject_uuid: object, attributes: Record, old: Record | None = None
) -> None:
    """Check that the caller may write a quota: an admin each, others the budget of a request, if
    they made it themselves. Raises Forbidden.
    """
    caller = call.caller
    is_plain = caller.container_uuid is None and not access.is_limited(caller)
    is_own = old is None or old["modified_by_user_uuid"] == caller.user_uuid
    sent = {name for name, value in attributes.items() if value is not None}
    if not (_kind(subject_uuid) is REQUESTS and is_plain and is_own and sent <= _OF_TREE):
        access.check_admin(caller, "write quotas, but for budgets of their own requests")


async def _subject(tx: Transaction, call: ApiCall, uuid: object) -> Record:
    kind = _kind(uuid)
    if kind is None or not isinstance(uuid, str):
        raise Invalid("subject_uuid: must be the uuid of a user, a role, a project or a request")
    subject = await records.get(tx, kind, uuid)
    if subject is None or (
        kind is REQUESTS
        and not await authorization.can_read(
            tx, call.services.clock, call.services.config, kind, subject, call.caller
        )
    ):
        raise Invalid(f"subject_uuid: '{uuid}' not found")
    if kind is REQUESTS:
        await authorization.check_writable(tx, kind, subject, call.caller)
    if kind is GROUPS and subject["group_class"] not in ("project", "role"):
        raise Invalid(f"subject_uuid: {uuid} is a filter group, which has nothing to limit")
    return subject


def _kind(uuid: object) -> RecordType | None:
    if not isinstance(uuid, str) or not is_uuid(uuid):
        return None
    return _KINDS.get(infix_of(uuid))


async def _find(tx: Transaction, call: ApiCall) -> Record:
    found = await authorization.find_readable(
        tx, call.services.clock, call.services.config, QUOTAS, call.uuid, call.caller
    )
    check_match(call, found)
    return found


async def _charge_running(tx: Transaction, quota: Quota) -> None:
    """Charge what runs to a new quota, also beyond its limits."""
    after = ""
    while True:
        uuids = await rows.live(
            tx, quota.subject_uuid, states=sorted(HELD), after=after, most=_PAGE
        )
        if not uuids:
            return
        for row in await records.among(tx, CONTAINERS, "uuid", uuids):
            container = Container.from_record(row)
            charge = StoredCharge(
                container.priority,
                True,
                rules.amounts_of(container),
                rules.runs_workflow(container),
            )
            await rows.charge(tx, container.uuid, [quota.subject_uuid], charge)
        after = uuids[-1]


async def _look_anew(tx: Transaction, call: ApiCall, subject_uuid: str) -> None:
    """Have all that waits of a subject looked at. Until one is looked at, its lock is refused if
    there is no room.
    """
    # The task in the background is not woken: the call itself begins (`begin_now`).
    begun_at = call.services.clock.now()
    await cascades.put(
        tx, Cascade(kind=CascadeKind.QUOTA, subject_uuid=subject_uuid, begun_at=begun_at)
    )


HANDLERS: Final = {
    "quotas.list": list_quotas,
    "quotas.get": get_quota,
    "quotas.create": create_quota,
    "quotas.update": update_quota,
    "quotas.delete": delete_quota,
    "quotas.uses": list_uses,
}
