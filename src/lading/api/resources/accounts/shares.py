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
        shares = await summaries(tx, services.clock, services.config)
        if not caller.is_admin:
            # Users can read one another's records; what each has used is their own business.
            shares = {
                uuid: share
                for uuid, share in shares.items()
                if is_uuid(uuid, Infix.GROUP) or uuid == caller.user_uuid
            }
            named, levels = list(shares), dict[str, int]()
            for start in range(0, len(named), CHUNK):
                chunk = named[start : start + CHUNK]
                levels |= await permission_queries.levels_on(tx, caller.user_uuid, chunk)
            shares = {
                uuid: share
                for uuid, share in shares.items()
                if uuid == caller.user_uuid or levels.get(uuid)
            }
    items = [
        {
            "uuid": share.uuid,
            "kind": "project" if is_uuid(share.uuid, Infix.GROUP) else "user",
            "weight": share.weight,
            "used_vcpu_hours": share.used / 3_600_000,
            "times_its_share": share.times,
            "waiting": share.waiting,
            "held": share.held_count,
        }
        for share in sorted(shares.values(), key=lambda share: (-share.times, share.uuid))
    ]
    enabled = services.config.Containers.FairShare.Enabled
    return ApiResponse(body={"enabled": enabled, "items": items})
