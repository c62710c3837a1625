"""Another user teaches later requests of a user amounts that they do not need, by joining a
container of the same work with rules of their own.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World, world
from tests.api.sharing_world import group, share, uuid_of
from tests.api.test_attempts import fail
from tests.api.test_retry_rules import NEEDS, RAM, container_of, ruled

FACTORS, BOUNDS, OWN = (1.1, 1.5, 3, 8, 20, 40, 64), (None, 1 << 40), (1.25, 2)
ORDERS = ("before", "after", "cancels", "deletes")
"""When the other one commits, and what becomes of that request after the first attempt."""


async def _shared_world(it: World) -> str:
    shared = await group(it, "shared")
    for name in ("ada", "ben"):
        await share(it, await uuid_of(it, name), shared["uuid"], "can_manage")
    image = await it.collection({f"sha256:{'0' * 64}.tar": b"image"}, owner_uuid=shared["uuid"])
    for name in ("ada", "ben"):
        it.images[await it.user(name)] = image["portable_data_hash"]
    return str(shared["uuid"])


@pytest.mark.attack("joins a container with rules that make it grow, and so what its user learns")
async def test_others_do_not_teach(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"LearnResources": "apply"}) as it:
        ada, ben = await it.user("ada"), await it.user("ben")
        shared = await _shared_world(it)
        cases = itertools.product(FACTORS, BOUNDS, OWN, ORDERS)
        for number, (factor, most, own, order) in enumerate(cases):
            it.clock.advance(1)
            more: dict[str, JSON] = {"owner_uuid": shared, "runtime_constraints": NEEDS}
            rules = {"factor": factor} | ({"most": most} if most else {})
            program = f"tool{number}"

            async def join(program: str = program, rules: Any = rules, more: Any = more) -> Record:
                return await it.submit(program, "x", token=ben, **more, **ruled(oom=rules))

            theirs = await join() if order == "before" else None
            hers = await it.submit(program, "x", token=ada, **more, **ruled(oom={"factor": own}))
            theirs = theirs or await join()
            assert theirs["container_uuid"] == hers["container_uuid"]
            hers = await fail(it, hers, "oom")
            if order == "cancels":
                await it.ok("POST", f"container_requests/{theirs['uuid']}/cancel", token=ben)
            if order == "deletes":
                await it.ok("DELETE", f"container_requests/{theirs['uuid']}", token=ben)
            case = (factor, most, own, order)
            grown = (await container_of(it, hers))["runtime_constraints"]["ram"]
            assert RAM < grown <= round(own * RAM), case
            await it.run(hers["container_uuid"])
            later = await it.submit(program, "y", token=ada, **more)
            taught = (await container_of(it, later))["runtime_constraints"]["ram"]
            assert taught <= grown, case
