"""Short ways to begin runs, to submit their steps and to read both."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World


async def begin(it: World, name: str, *, token: str | None = None, **more: JSON) -> Record:
    """Begin an attempt of a run."""
    begun: Record = await it.ok("POST", "groups/begin_run", {"name": name, **more}, token=token)
    return begun


async def step(
    it: World, run: Record, *command: str, token: str | None = None, **more: JSON
) -> Record:
    """Submit a step of a run."""
    properties = {"lading_attempt": run["attempt"], "lading_step": command[0]}
    return await it.submit(
        *command, token=token, owner_uuid=run["uuid"], properties=properties, **more
    )


async def shown(it: World, run: Record, *, token: str | None = None, **params: JSON) -> Record:
    """A run as a reader sees it."""
    path = "groups" if "-j7d0g-" in run["uuid"] else "container_requests"
    body: Record = await it.ok("GET", f"{path}/{run['uuid']}/run", token=token, params=params)
    return body


async def steps(it: World, run: Record, **params: JSON) -> list[Record]:
    """The steps of a run."""
    path = "groups" if "-j7d0g-" in run["uuid"] else "container_requests"
    body = await it.ok("GET", f"{path}/{run['uuid']}/run_steps", params=params)
    return list(body["items"])
