"""Consequences for many records, worked off in the background."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lading.api.background.cascades import CascadeWorker
from lading.core.records.schema import Record
from lading.store import cascades
from lading.store.cascades import Cascade, CascadeKind
from lading.testing.world import WITH_API, World, world

FEW = (3, 3)


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = ("background.cascades", "priorities", "resources.groups", "transaction")
    for module in modules:
        monkeypatch.setattr(f"lading.api.{module}.AT_ONCE", 2)


def worker(it: World, holder: str = "here") -> CascadeWorker:
    return CascadeWorker(it.app.services, holder=holder, sizes=FEW)


async def unfinished(it: World) -> list[Cascade]:
    async with it.app.services.database.reading() as tx:
        return await cascades.unfinished(tx, most=100)


async def project_with(it: World, count: int) -> tuple[str, list[str]]:
    """A project with requests that wait, half of them in a project below; their containers."""
    outer = await it.ok("POST", "groups", {"group_class": "project", "name": "outer"})
    inner = await it.ok(
        "POST", "groups", {"group_class": "project", "name": "i", "owner_uuid": outer["uuid"]}
    )
    made = []
    for number in range(count):
        owner = (outer, inner)[number % 2]["uuid"]
        request = await it.submit(f"{number}", owner_uuid=owner, priority=5)
        made.append(request["container_uuid"])
    return outer["uuid"], made


async def priorities(it: World, uuids: Sequence[str]) -> set[int]:
    return {(await it.ok("GET", f"containers/{uuid}"))["priority"] > 0 for uuid in uuids}


async def test_a_long_queue_in_the_trash_loses_its_priorities_page_by_page(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, containers = await project_with(it, 10)
        await it.ok("POST", f"groups/{project}/trash")
        (begun,) = await unfinished(it)
        assert (begun.kind, begun.subject_uuid) == (CascadeKind.PROJECT, project)
        # The project is hidden at once; its containers keep their priority until their page.
        assert (await it.request("GET", f"groups/{project}")).status == 404
        assert await priorities(it, containers) == {True}
        await worker(it).step(begun)
        (going,) = await unfinished(it)
        assert going.position > begun.position
        assert going.done == 3
        assert await priorities(it, containers) == {True, False}
        # Another server goes on where this one ended.
        it.clock.advance(60)
        await worker(it, "there").work()
        assert await unfinished(it) == []
        assert await priorities(it, containers) == {False}


async def test_out_of_the_trash_before_the_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, containers = await project_with(it, 10)
        await it.ok("POST", f"groups/{project}/trash")
        await worker(it).step((await unfinished(it))[0])
        it.clock.advance(1)
        stale = (await unfinished(it))[0]
        await it.ok("POST", f"groups/{project}/untrash")
        # A page that was read for the earlier change is not used.
        await worker(it).step(stale)
        assert [one.position for one in await unfinished(it)] == [()]
        await worker(it).work()
        assert await priorities(it, containers) == {True}


async def test_another_server_holds_it(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, _ = await project_with(it, 10)
        await it.ok("POST", f"groups/{project}/trash")
        await worker(it).step((await unfinished(it))[0])
        before = await unfinished(it)
        await worker(it, "there").work()
        assert await unfinished(it) == before


async def test_few_are_part_of_the_change(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, containers = await project_with(it, 2)
        await it.ok("POST", f"groups/{project}/trash")
        assert await unfinished(it) == []
        assert await priorities(it, containers) == {False}


async def runner_with(it: World, count: int) -> tuple[Record, str, list[str]]:
    """A container that runs and has made requests: its request, its supervisor's token, and the
    containers of the requests that it made.
    """
    runner = await it.submit("runner", runtime_constraints=WITH_API)
    uuid = runner["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    auth = await it.ok("GET", f"containers/{uuid}/auth", token=supervisor)
    token = f"v2/{auth['uuid']}/{auth['api_token']}/{uuid}"
    children = [
        (await it.submit(f"{number}", token=token))["container_uuid"] for number in range(count)
    ]
    return runner, supervisor, children


async def test_the_children_of_a_container_follow_its_priority(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        runner, _, children = await runner_with(it, 7)
        before = {(await it.ok("GET", f"containers/{one}"))["priority"] for one in children}
        await it.ok("PUT", f"container_requests/{runner['uuid']}", {"priority": 900})
        assert [one.kind for one in await unfinished(it)] == [CascadeKind.BELOW]
        await worker(it).work()
        after = {(await it.ok("GET", f"containers/{one}"))["priority"] for one in children}
        assert min(after) > max(before)


async def test_the_children_of_an_ended_container_are_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        runner, supervisor, children = await runner_with(it, 7)
        end = {"state": "Complete", "exit_code": 0}
        await it.ok("PUT", f"containers/{runner['container_uuid']}", end, token=supervisor)
        assert CascadeKind.CHILDREN in [one.kind for one in await unfinished(it)]
        await worker(it).work()
        found = {(await it.ok("GET", f"containers/{one}"))["state"] for one in children}
        assert found == {"Cancelled"}


async def test_a_quota_of_many_that_wait(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, containers = await project_with(it, 9)
        quota = {"subject_uuid": project, "containers": 4}
        made = await it.ok("POST", "quotas", quota)
        assert [one.kind for one in await unfinished(it)] == [CascadeKind.QUOTA]
        await worker(it).work()
        assert sum([await priorities(it, [one]) == {True} for one in containers]) == 4
        await it.ok("PUT", f"quotas/{made['uuid']}", {"containers": 2})
        await worker(it).work()
        assert sum([await priorities(it, [one]) == {True} for one in containers]) == 2
        await it.ok("DELETE", f"quotas/{made['uuid']}")
        await worker(it).work()
        assert await priorities(it, containers) == {True}
        assert await unfinished(it) == []


async def test_an_expired_project_is_deleted_in_parts(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        project, containers = await project_with(it, 7)
        await it.ok("POST", f"groups/{project}/trash")
        await worker(it).work()
        it.clock.advance(400 * 86400)
        await it.request("POST", "/sys/trash_sweep")
        everything = {"include_trash": True, "filters": [["owner_uuid", "=", project]]}
        for plural in ("container_requests", "groups"):
            assert (await it.ok("GET", plural, params=everything))["items"] == []
        found = {(await it.ok("GET", f"containers/{one}"))["state"] for one in containers}
        assert found == {"Cancelled"}
