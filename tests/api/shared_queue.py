"""Requests of projects that share a site, in its queue."""

from __future__ import annotations

from typing import Any

from lading.core.records.schema import JSON, Record
from lading.testing.world import World

ON: dict[str, JSON] = {"Enabled": True, "HalfLife": 3600.0}


async def project(it: World, name: str, share: JSON = None, **more: JSON) -> str:
    policy = {} if share is None else {"container_policy": {"share": share}}
    given = {"group_class": "project", "name": name, **policy, **more}
    return str((await it.ok("POST", "groups", {"group": given}))["uuid"])


async def queue(it: World, owner: str, count: int, **more: JSON) -> list[Record]:
    """Requests of a project, the oldest first; each has a container of its own."""
    specs = [
        await it.spec("step", str(number), owner_uuid=owner, use_existing=False, **more)
        for number in range(count)
    ]
    answer = await it.ok("POST", "container_requests/batch", {"container_requests": specs})
    made: list[Record] = answer["items"]
    return made


async def waiting(it: World) -> list[str]:
    """The containers that wait, in the order in which dispatchers take them."""
    filters = [["state", "=", "Queued"], ["priority", ">", 0]]
    params = {"filters": filters, "order": ["priority desc", "created_at asc"], "limit": 1000}
    found = await it.ok("GET", "containers", params=params)
    return [str(one["uuid"]) for one in found["items"]]


async def start(it: World, count: int, *, seconds: float = 10.0) -> list[str]:
    """Run the first containers of the queue, one at a time; their uuids."""
    found = []
    for _ in range(count):
        uuid = (await waiting(it))[0]
        supervisor = await it.lock(uuid)
        await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
        it.clock.advance(seconds)
        await it.finish(uuid, supervisor)
        found.append(uuid)
    return found


async def rows(it: World, sql: str) -> list[tuple[Any, ...]]:
    async with it.app.services.database.reading() as tx:
        return [tuple(row) for row in await tx.fetch(sql)]
