"""Calls about trust in results: `evidence` lists the other runs of a recipe, `withdraw` ends reuse.

A run counts as evidence if it has the recipe of the container; the containers' records suffice for
the comparison. Observations of other servers are links of class `replay` on the container, which
users make: they are shown, but do not change the counts. Source: docs/provenance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lading.api import authorization
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.resources.container_changes import find_container
from lading.api.reuse_candidates import WITHDRAWAL, own_withdrawals
from lading.api.serializer import check_match, show
from lading.core.containers import evidence
from lading.core.containers.container import Container
from lading.core.containers.reuse_rights import has_foreign_secrets
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_select
from lading.core.records.log_rows import LogRowType
from lading.core.records.permissions import Level
from lading.core.records.record_types import LINKS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.containers import lineage, reusable
from lading.store.database import Transaction

REPLAY: Final = "replay"
"""Class of links that tell of a replay on another server."""
# Replays named on one record; anybody may add some, so that their number needs a bound.
_MOST: Final = 50


async def get_evidence(call: ApiCall) -> ApiResponse:
    """{"reproduced", "of", "replays": [{"container_uuid", "finished_at", "equal"}], "elsewhere",
    "made_from_withdrawn": [{"container_uuid", "reason"}]}.

    Of the containers only those count that the caller can read. `elsewhere`: the properties of
    readable links of class `replay`, with who made them and when.
    """
    async with call.services.database.reading() as tx:
        subject = Container.from_record(await find_container(tx, call))
        body = await evidence_about(tx, call, subject)
    return ApiResponse(body=body)


async def evidence_about(tx: Transaction, call: ApiCall, subject: Container) -> Record:
    """The body of `get_evidence`."""
    # Only the result of a Complete container can be reproduced.
    broad = subject.broad_key if subject.state == "Complete" else None
    dialect = call.services.database.dialect
    readable = access.readable(CONTAINERS, call.caller, now=call.services.clock.now())
    rows = await reusable.repeats(tx, dialect, broad, readable) if broad else []
    others = [Container.from_record(row) for row in rows]
    if not call.caller.is_admin:
        others = _comparable(subject, others, call.caller.user_uuid)
    repeats = [container for container in others if evidence.is_repeat(subject, container)]
    findings = evidence.evidence_for(subject, repeats)
    withdrawn = await lineage.withdrawn_above(tx, dialect, subject.uuid, readable)
    return {
        "reproduced": findings.equal,
        "of": findings.of,
        "replays": [
            {
                "container_uuid": container.uuid,
                "finished_at": container.finished_at,
                "equal": evidence.is_equal(subject, container),
            }
            for container in repeats
        ],
        "elsewhere": await _elsewhere(tx, call, subject),
        "made_from_withdrawn": [
            {"container_uuid": result["uuid"], "reason": result["withdrawn_reason"]}
            for result in withdrawn
        ],
    }


def _comparable(subject: Container, others: Sequence[Container], user_uuid: str) -> list[Container]:
    """The containers that a user may learn to be equal to `subject`."""
    if has_foreign_secrets(subject, user_uuid):
        return []
    return [container for container in others if not has_foreign_secrets(container, user_uuid)]


async def _elsewhere(tx: Transaction, call: ApiCall, subject: Container) -> list[Record]:
    links = await records.matching(tx, LINKS, head_uuid=subject.uuid, link_class=REPLAY)
    latest = sorted(links, key=lambda link: str(link["created_at"]), reverse=True)[:_MOST]
    return [
        {
            "equal": link["name"] == "reproduced",
            "at": link["created_at"],
            "user_uuid": link["owner_uuid"],
            "properties": link["properties"],
        }
        for link in latest
        if await authorization.can_read(
            tx, call.services.clock, call.services.config, LINKS, link, call.caller
        )
    ]


async def withdraw(call: ApiCall) -> ApiResponse:
    """Withdraw a result for all, or with `own` for the caller's own requests. Raises Forbidden,
    Conflict, Invalid.
    """
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), CONTAINERS)
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        check_match(call, row)
        container, reason = Container.from_record(row), call.params.get("reason")
        if call.params.get("own"):
            await _withdraw_own(tx, call, container, evidence.read_reason(container, reason))
        else:
            evidence.check_withdrawal(
                container,
                user_uuid=caller.user_uuid,
                is_admin=caller.is_admin,
                manages_first=await _manages_first(tx, container, caller),
            )
            changes = evidence.withdraw(
                container, reason, user_uuid=caller.user_uuid, now=services.clock.now()
            )
            row = await _change(tx, call, row, dict(changes), LogRowType.WITHDRAW)
    return ApiResponse(body=show(CONTAINERS, row, select))


async def restore(call: ApiCall) -> ApiResponse:
    """Let a withdrawn result be reused again by all, or with `own` by the caller's own requests.
    Raises Forbidden.
    """
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), CONTAINERS)
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        check_match(call, row)
        if call.params.get("own"):
            for link in await own_withdrawals(tx, [row["uuid"]], caller.user_uuid):
                await generic.remove(tx, services, LINKS, link, user_uuid=caller.user_uuid)
        else:
            container = Container.from_record(row)
            evidence.check_restoring(
                container, user_uuid=caller.user_uuid, is_admin=caller.is_admin
            )
            row = await _change(tx, call, row, dict(evidence.restore()), LogRowType.RESTORE)
    return ApiResponse(body=show(CONTAINERS, row, select))


async def _change(
    tx: Transaction, call: ApiCall, old: Record, changes: Record, event_type: LogRowType
) -> Record:
    services, user = call.services, call.caller.user_uuid
    new = await generic.apply(tx, services, CONTAINERS, old, changes, user_uuid=user)
    if new is not old:
        reason = {"text": new["withdrawn_reason"] or "", "user_uuid": user}
        summary = f"{event_type} of {new['uuid']}"
        await audit.note(tx, services, new, event_type, summary, reason)
    return new


async def _withdraw_own(tx: Transaction, call: ApiCall, container: Container, reason: str) -> None:
    services, user = call.services, call.caller.user_uuid
    properties = {"reason": reason}
    known = await own_withdrawals(tx, [container.uuid], user)
    if known:
        await generic.apply(
            tx, services, LINKS, known[0], {"properties": properties}, user_uuid=user
        )
        return
    link = {
        "link_class": WITHDRAWAL,
        "name": WITHDRAWAL,
        "owner_uuid": user,
        "tail_uuid": user,
        "head_uuid": container.uuid,
        "properties": properties,
    }
    await generic.insert(tx, call, LINKS, generic.new_record(call, LINKS, link))


async def _manages_first(tx: Transaction, container: Container, principal: Principal) -> bool:
    """Whether the principal manages the oldest request for a container of the user for whom it ran.

    Requests of other users, which may be older drafts, do not count.
    """
    rows = await records.matching(
        tx,
        REQUESTS,
        container_uuid=container.uuid,
        committed_by_uuid=container.runtime_user_uuid or "",
    )
    if not rows:
        return False
    first = min(rows, key=lambda row: (str(row["created_at"]), str(row["uuid"])))
    return await authorization.level_of(tx, REQUESTS, first, principal) >= Level.MANAGE


HANDLERS: Final = {
    "containers.evidence": get_evidence,
    "containers.withdraw": withdraw,
    "containers.restore": restore,
}
