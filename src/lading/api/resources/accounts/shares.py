"""Shares of projects and users: weights and what they have used, as fair share counts them.

Source: docs/spec/containers, section Fair share.
"""

from __future__ import annotations

from lading.api.http import ApiCall, ApiResponse
from lading.api.share_summaries import summaries
from lading.core.ids import Infix, is_uuid
from lading.core.records import access
from lading.store import permission_queries
from lading.store.permissions import CHUNK


async def list_shares(call: ApiCall) -> ApiResponse:
    """The shares of projects that the caller can read, and the own one.

    `enabled`; each item has `uuid` of the project or user, `weight`, `used_vcpu_hours` (decayed),
    `times_its_share`, `waiting` and `held` containers.
    """
    caller, services = call.caller, call.services
    access.check_user(caller)
    async with services.database.reading() as tx:
        found = await summaries(tx, services.clock, services.config)
        if not caller.is_admin:
            # Users can read one another's records; what each has used is their own business.
            found = {
                uuid: one
                for uuid, one in found.items()
                if is_uuid(uuid, Infix.GROUP) or uuid == caller.user_uuid
            }
            named, levels = list(found), dict[str, int]()
            for start in range(0, len(named), CHUNK):
                part = named[start : start + CHUNK]
                levels |= await permission_queries.levels_on(tx, caller.user_uuid, part)
            found = {
                uuid: one
                for uuid, one in found.items()
                if uuid == caller.user_uuid or levels.get(uuid)
            }
    items = [
        {
            "uuid": one.uuid,
            "kind": "project" if is_uuid(one.uuid, Infix.GROUP) else "user",
            "weight": one.weight,
            "used_vcpu_hours": one.used / 3_600_000,
            "times_its_share": one.times,
            "waiting": one.waiting,
            "held": one.held,
        }
        for one in sorted(found.values(), key=lambda one: (-one.times, one.uuid))
    ]
    enabled = services.config.Containers.FairShare.Enabled
    return ApiResponse(body={"enabled": enabled, "items": items})
