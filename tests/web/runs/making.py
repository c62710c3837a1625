"""Runs and their steps on a site with the page."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from tests.web.browsing import PageSite


async def begin_run(here: PageSite, name: str, *, token: str | None = None, **more: JSON) -> Record:
    """Begin an attempt of a run: `uuid`, `name`, `attempt`."""
    begun: Record = await here.world.ok(
        "POST", "groups/begin_run", {"name": name, **more}, token=token
    )
    return begun


async def submit_step(
    here: PageSite,
    run: Record,
    step: str,
    number: str,
    *,
    exit_code: int | None = None,
    files: dict[str, bytes] | None = None,
    log: dict[str, bytes] | None = None,
    cost: float = 0.0,
    **more: JSON,
) -> Record:
    """A request of a run; with an exit code it ends, unless the result of an earlier one is used.

    `files` are those of its output, `log` those of its log.
    """
    properties = {"lading_attempt": run["attempt"], "lading_step": step}
    request = await here.world.submit(
        step, number, name=f"{step}_{number}", owner_uuid=run["uuid"], properties=properties, **more
    )
    if exit_code is None:
        return request
    container = await here.world.ok("GET", f"containers/{request['container_uuid']}")
    if container["state"] == "Queued":
        ended: dict[str, JSON] = {"exit_code": exit_code, "cost": cost}
        if files is not None:
            ended["output"] = await here.files.pdh(await here.files.collection(files))
        if log is not None:
            ended["log"] = await here.files.pdh(await here.files.collection(log))
        await here.world.run(request["container_uuid"], **ended)
    found: Record = await here.world.ok("GET", f"container_requests/{request['uuid']}")
    return found
