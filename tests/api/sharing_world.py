"""Short ways to make projects, roles and permissions in a world."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World


async def uuid_of(it: World, name: str) -> str:
    """The uuid of a user, made if need be."""
    return str((await it.ok("GET", "users/current", token=await it.user(name)))["uuid"])


async def group(it: World, name: str, *, token: str | None = None, **more: JSON) -> Record:
    """A project, unless `group_class` says otherwise."""
    body = {"name": name, "group_class": "project", **more}
    found: Record = await it.ok("POST", "groups", {"group": body}, token=token)
    return found


async def share(it: World, tail: str, head: str, level: str, *, token: str | None = None) -> Record:
    """A permission link."""
    body = {"link_class": "permission", "name": level, "tail_uuid": tail, "head_uuid": head}
    found: Record = await it.ok("POST", "links", body, token=token)
    return found


async def status(
    it: World, method: str, path: str, body: JSON = None, *, token: str | None = None
) -> int:
    """The status of a call."""
    return (await it.request(method, path, body, token=token)).status
