"""The health of the parts of a site, for its users, and the state of its storage, for admins.

`/_health/ping` is for monitors with the management token; `health` is for people. A part is `ok`,
`fault`, or `unknown` where nothing is known about it. Texts of faults are shown to admins.

`/_health/live` and `/_health/ready` are for probes and load balancers, without a token. The first
one asks nothing but the server: a server that does not answer it is to be restarted. The second one
is 503 while the server can do no work, as its database or its block store does not answer: requests
should go to another server, and a restart would not help.
"""

from __future__ import annotations

from typing import Final

from lading import __version__
from lading.api.http import ApiCall, ApiResponse
from lading.api.server.blocks import STORAGE
from lading.api.server.readiness import READINESS
from lading.api.server.wait_statuses import STATUSES, believed_since
from lading.core.errors import LadingError, Unavailable
from lading.core.records import access
from lading.core.records.record_types import USERS
from lading.core.records.schema import Record
from lading.store import records, webhooks

# As Arvados' services answer.
_FINE: Final = {"health": "OK"}
_OK: Final = "ok"
_FAULT: Final = "fault"
_UNKNOWN: Final = "unknown"


async def get_liveness(call: ApiCall) -> ApiResponse:  # noqa: ARG001 - it asks nothing
    """That the server answers."""
    return ApiResponse(body=_FINE)


async def get_readiness(call: ApiCall) -> ApiResponse:
    """That database and block store answer, too. Raises Unavailable naming those that do not."""
    services = call.services

    async def look_at_database() -> None:
        if services.database.fault is not None:
            raise services.database.fault
        async with services.database.reading() as tx:
            await records.get(tx, USERS, services.ids.system_user)

    faults = await services.features[READINESS].faults(
        {"the database": look_at_database, "the block store": services.blocks.check}
    )
    if faults:
        raise Unavailable(f"not ready: {'; '.join(faults)}")
    return ApiResponse(body=_FINE)


async def get_health(call: ApiCall) -> ApiResponse:
    """`parts` with `name`, `state` and `text`; `storage` for admins, else null."""
    access.check_user(call.caller)
    storage = await _storage(call)
    parts = [
        await _database(call), await _dispatchers(call), _store(storage), await _webhooks(call)
    ]  # fmt: skip
    if not call.caller.is_admin:
        parts = [{**report, "text": ""} for report in parts]
    return ApiResponse(
        body={
            "version": __version__,
            "parts": parts,
            "storage": storage if call.caller.is_admin else None,
        }
    )


async def _database(call: ApiCall) -> Record:
    database = call.services.database
    if database.fault is not None:
        return _part("database", _FAULT, f"it takes no changes: {database.fault.message}")
    async with database.reading() as tx:
        await records.get(tx, USERS, call.services.ids.system_user)
    return _part("database", _OK, "")


async def _dispatchers(call: ApiCall) -> Record:
    now = call.services.clock.now()
    async with call.services.database.reading() as tx:
        last = await call.services.features[STATUSES].last_report(tx)
    if last is None:
        return _part("dispatchers", _UNKNOWN, "none has reported since the start of this server")
    if last < believed_since(now):
        return _part("dispatchers", _FAULT, f"none has reported since {last}: nothing starts")
    return _part("dispatchers", _OK, "")


async def _webhooks(call: ApiCall) -> Record:
    # Receivers are the matter of their users: one that fails is no fault of the site.
    async with call.services.database.reading() as tx:
        counts = await webhooks.counts(tx)
    if call.services.config.Webhooks.MaxConcurrent <= 0 and counts["active"]:
        return _part("webhooks", _UNKNOWN, "this server sends none (Webhooks.MaxConcurrent)")
    return _part(
        "webhooks",
        _OK,
        f"{counts['active']} active, {counts['failing']} of them failing;"
        f" {counts['paused']} paused",
    )


async def _storage(call: ApiCall) -> Record | None:
    look = call.services.features[STORAGE]
    if look is None:
        return None
    try:
        return await look()
    except LadingError as error:
        return {"volumes": [], "fault": error.message}


def _store(storage: Record | None) -> Record:
    if storage is None:
        return _part("storage", _UNKNOWN, "")
    faults = [storage["fault"]] if storage.get("fault") else []
    for volume in storage["volumes"]:
        if volume["total"] is None or volume["free"] == 0:
            faults.append(f"{volume['uuid']}: {volume['last_fault'] or 'it is full'}")
    scrub = storage.get("scrub") or {}
    if scrub.get("damaged"):
        faults.append(f"{len(scrub['damaged'])} damaged blocks were found")
    return _part("storage", _FAULT if faults else _OK, "; ".join(faults))


def _part(name: str, state: str, message: str) -> Record:
    return {"name": name, "state": state, "text": message}
