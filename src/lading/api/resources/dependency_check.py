"""What a request may depend on: requests that its writer can read, and never on itself, however far
around.
"""

from __future__ import annotations

from lading.api import authorization
from lading.api.services import Services
from lading.core.containers.request import ContainerRequest, State
from lading.core.errors import Invalid, NotFound
from lading.core.records.access import Principal
from lading.core.records.record_types import REQUESTS
from lading.store import records
from lading.store.database import Transaction

_FARTHEST = 10_000


async def check(
    tx: Transaction,
    services: Services,
    principal: Principal,
    subject: ContainerRequest,
    old: list[str],
) -> None:
    """Check what a draft depends on, if that changed. Raises Invalid naming the request at
    fault.
    """
    fresh = [uuid for uuid in subject.depends_on if uuid not in old]
    for uuid in fresh:
        try:
            await authorization.find_readable(tx, services, REQUESTS, uuid, principal)
        except NotFound:
            raise Invalid(f"Depends on: request '{uuid}' not found") from None
    seen: set[str] = set()
    frontier = fresh
    while frontier:
        if subject.uuid in frontier:
            raise Invalid(f"Depends on: {subject.uuid} would wait for itself")
        seen.update(frontier)
        if len(seen) > _FARTHEST:
            raise Invalid(f"Depends on: more than {_FARTHEST} requests would have to end first")
        rows = await records.among(tx, REQUESTS, "uuid", frontier)
        further = (
            uuid for row in rows if row["state"] != State.FINAL for uuid in row["depends_on"]
        )
        frontier = [uuid for uuid in dict.fromkeys(further) if uuid not in seen]
