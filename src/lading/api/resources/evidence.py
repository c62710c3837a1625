"""Calls about trust in results: `evidence` lists the other runs of a recipe, `withdraw` ends reuse.

A run counts as evidence if it has the recipe of the container; the containers' records suffice for
the comparison. Observations of other servers are links of class `replay` on the container, which
users make: they are shown, but do not change the counts. Source: docs/provenance.md.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse, show
from lading.api.resources import generic
from lading.api.resources.containers import find_container
from lading.core.containers import evidence
from lading.core.containers.container import Container
from lading.core.errors import Forbidden
from lading.core.records.access import Principal
from lading.core.records.filters import check_select
from lading.core.records.permissions import Level
from lading.core.records.record_types import CONTAINERS, LINKS, REQUESTS
from lading.core.records.schema import Record
from lading.store import containers, records
from lading.store.database import Transaction

REPLAY: Final = "replay"
"""Class of links that tell of a replay on another server."""
# Replays named on one record; anybody may add some, so that their number needs a bound.
_MOST: Final = 50


async def get_evidence(call: ApiCall) -> ApiResponse:
    """{"reproduced", "of", "replays": [{"container_uuid", "finished_at", "equal"}], "elsewhere",
    "made_from_withdrawn": [{"container_uuid", "reason"}]}.

    `container_uuid` is null for a container that the caller cannot read, and so is its reason.
    `elsewhere`: the properties of readable links of class `replay`, with who made them and when.
    """
    async with call.services.database.reading() as tx:
        subject = Container.from_record(await find_container(tx, call))
        body = await evidence_about(tx, call, subject)
    return ApiResponse(body=body)


async def evidence_about(tx: Transaction, call: ApiCall, subject: Container) -> Record:
    """The body of `get_evidence`."""
    # Only the result of a Complete container can be reproduced.
    broad = subject.broad_key if subject.state == "Complete" else None
    rows = await containers.repeats(tx, broad) if broad else []
    others = [Container.from_record(row) for row in rows]
    repeats = [one for one in others if evidence.is_repeat(subject, one)]
    found = evidence.evidence_for(subject, repeats)
    withdrawn = await containers.withdrawn_above(tx, subject.uuid)
    seen = {
        row["uuid"]
        for row in (*rows, *withdrawn)
        if await authorization.can_read(tx, call.services, CONTAINERS, row, call.caller)
    }
    return {
        "reproduced": found.equal,
        "of": found.of,
        "replays": [
            {
                "container_uuid": one.uuid if one.uuid in seen else None,
                "finished_at": one.finished_at,
                "equal": evidence.is_equal(subject, one),
            }
            for one in repeats
        ],
        "elsewhere": await _elsewhere(tx, call, subject),
        "made_from_withdrawn": [
            {
                "container_uuid": one["uuid"] if one["uuid"] in seen else None,
                "reason": one["withdrawn_reason"] if one["uuid"] in seen else None,
            }
            for one in withdrawn
        ],
    }


async def _elsewhere(tx: Transaction, call: ApiCall, subject: Container) -> list[Record]:
    links = await records.matching(tx, LINKS, head_uuid=subject.uuid, link_class=REPLAY)
    latest = sorted(links, key=lambda one: str(one["created_at"]), reverse=True)[:_MOST]
    return [
        {
            "equal": one["name"] == "reproduced",
            "at": one["created_at"],
            "user_uuid": one["owner_uuid"],
            "properties": one["properties"],
        }
        for one in latest
        if await authorization.can_read(tx, call.services, LINKS, one, call.caller)
    ]


async def withdraw(call: ApiCall) -> ApiResponse:
    """Withdraw a result. For admins, and for users who may write one of its requests.

    Raises Forbidden, Conflict, Invalid.
    """
    return await _change(call, "withdraw")


async def restore(call: ApiCall) -> ApiResponse:
    """Let a withdrawn result be reused again. Raises Forbidden."""
    return await _change(call, "restore")


async def _change(call: ApiCall, what: str) -> ApiResponse:
    services, user = call.services, call.caller.user_uuid
    select = check_select(call.params.get("select"), CONTAINERS)
    async with services.database.writing() as tx:
        old = await find_container(tx, call)
        await _check_may(tx, old["uuid"], call.caller)
        if what == "withdraw":
            changes = evidence.withdraw(
                Container.from_record(old),
                call.params.get("reason"),
                user_uuid=user,
                now=services.now(),
            )
        else:
            changes = evidence.restore()
        new = await generic.apply(tx, services, CONTAINERS, old, dict(changes), user_uuid=user)
        if new is not old:
            reason = {"text": new["withdrawn_reason"] or "", "user_uuid": user}
            await audit.note(tx, services, new, what, f"{what} of {new['uuid']}", reason)
    return ApiResponse(body=show(CONTAINERS, new, select))


async def _check_may(tx: Transaction, uuid: str, principal: Principal) -> None:
    if principal.is_admin:
        return
    for row in await records.matching(tx, REQUESTS, container_uuid=uuid):
        if await authorization.level_of(tx, REQUESTS, row, principal) >= Level.WRITE:
            return
    raise Forbidden(f"Forbidden: {uuid}: you may not change a request that has this result")


HANDLERS: Final = {
    "containers.evidence": get_evidence,
    "containers.withdraw": withdraw,
    "containers.restore": restore,
}
