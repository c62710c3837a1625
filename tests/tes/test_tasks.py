"""Tasks from their creation to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lading.core.tes.listing import TaskView, parse_query
from lading.core.tes.mapping import TaskSite
from lading.tes.task_views import TaskCaller
from lading.tes.tasks import Tasks
from lading.testing.asgi import AsgiTransport
from tests.tes.site import LEGACY, TaskWorld


async def test_a_task_from_queue_to_end(it: TaskWorld) -> None:
    task = await it.create(name="one", tags={"a": "b"})
    assert await it.ok("GET", f"tasks/{task}") == {"id": task, "state": "QUEUED"}
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    assert await it.state(task) == "INITIALIZING"
    await it.world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
    assert await it.state(task) == "RUNNING"
    await it.world.ok(
        "PUT", f"containers/{container}", {"state": "Complete", "exit_code": 0}, token=supervisor
    )
    found = await it.full(task)
    assert (found["state"], found["name"], found["tags"]) == ("COMPLETE", "one", {"a": "b"})
    [attempt] = found["logs"]
    assert attempt["logs"][0]["exit_code"] == 0
    assert attempt["metadata"]["container_uuid"] == container


async def test_cancel(it: TaskWorld) -> None:
    task = await it.create()
    assert await it.ok("POST", f"tasks/{task}%3Acancel") == {}
    assert await it.state(task) == "CANCELED"
    assert await it.ok("POST", f"tasks/{task}:cancel") == {}
    task = await it.create()
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    await it.world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
    await it.ok("POST", f"tasks/{task}:cancel")
    assert await it.state(task) == "CANCELING"
    assert await it.state(task, LEGACY) == "RUNNING"
    await it.world.ok("PUT", f"containers/{container}", {"state": "Cancelled"}, token=supervisor)
    assert await it.state(task) == "CANCELED"


async def test_reuse_is_a_choice(it: TaskWorld) -> None:
    first = await it.create()
    await it.world.run(await it.container(first))
    assert await it.container(await it.create()) != await it.container(first)
    again = await it.create(resources={"backend_parameters": {"reuse": "yes"}})
    assert "reused" in (await it.full(again))["logs"][0]["system_logs"][0]
    assert await it.state(again) == "COMPLETE"


async def test_tasks_of_others_are_not_there(it: TaskWorld) -> None:
    task, kim = await it.create(), await it.world.user("kim")
    hidden = await it.call("GET", f"tasks/{task}", token=kim)
    assert (hidden.status, hidden.json["detail"]) == (404, f"task {task!r} not found")
    assert (await it.call("POST", f"tasks/{task}:cancel", token=kim)).status == 404
    assert (await it.ok("GET", "tasks", token=kim)) == {"tasks": []}
    other = (await it.world.submit())["uuid"]
    assert (await it.call("GET", f"tasks/{other}")).status == 404


async def names(it: TaskWorld, query: str, prefix: str = "/ga4gh/tes/v1") -> list[Any]:
    found = await it.ok("GET", f"{prefix}/tasks", query=f"view=BASIC&{query}")
    return [one.get("name") for one in found["tasks"]]


async def test_filters(it: TaskWorld) -> None:
    await it.world.submit()
    await it.create(name="a%b", tags={"k": "v", "odd >": ""})
    await it.create(name="aXb", tags={"k": "w"})
    await it.create(name="A%b")
    assert await names(it, "") == ["A%b", "aXb", "a%b"]
    assert await names(it, "name_prefix=a%25") == ["a%b"]
    assert await names(it, "tag_key=k&tag_value=v") == ["a%b"]
    assert await names(it, "tag_key=k") == ["aXb", "a%b"]
    assert await names(it, "tag_key=k&tag_value=&tag_key=odd+%3E&tag_value=") == ["a%b"]
    assert await names(it, "tag_key=k&tag_value=v&tag_key=k&tag_value=w") == []
    for wrong in ("page_size=0", "page_size=2048", "page_size=x", "state=x", "tag_value=v"):
        assert (await it.call("GET", "tasks", query=wrong)).status == 400


async def test_states_as_a_filter(it: TaskWorld) -> None:
    for name in ("queued", "done", "failed", "canceled", "canceling"):
        task = await it.create(name=name)
        container = await it.container(task)
        if name in ("done", "failed"):
            await it.world.run(container, exit_code=int(name == "failed"))
        if name == "canceling":
            supervisor = await it.world.lock(container)
            path = f"containers/{container}"
            await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
        if name.startswith("cancel"):
            await it.ok("POST", f"tasks/{task}:cancel")
    for state, found in (
        ("QUEUED", ["queued"]),
        ("COMPLETE", ["done"]),
        ("EXECUTOR_ERROR", ["failed"]),
        ("CANCELED", ["canceled"]),
        ("CANCELING", ["canceling"]),
        ("RUNNING", []),
        ("PAUSED", []),
    ):
        assert await names(it, f"state={state}") == found
    assert await names(it, "state=RUNNING", LEGACY) == ["canceling"]
    assert await names(it, "state=CANCELING", LEGACY) == []


async def test_pages(it: TaskWorld) -> None:
    made = [await it.create() for _ in range(5)]
    first = await it.ok("GET", "tasks", query="page_size=2")
    await it.create()
    token = first["next_page_token"]
    second = await it.ok("GET", "tasks", query=f"page_size=2&page_token={token}")
    token = second["next_page_token"]
    last = await it.ok("GET", "tasks", query=f"page_size=2&page_token={token}")
    found = [one["id"] for page in (first, second, last) for one in page["tasks"]]
    assert found == made[::-1]
    assert "next_page_token" not in last
    for wrong in (
        f"page_token={token}&name_prefix=a",
        "page_token=abc",
        f"page_token={token[:-4]}",
    ):
        assert (await it.call("GET", "tasks", query=wrong)).status == 400
    assert (await it.ok("GET", "tasks", query="page_token="))["tasks"]


async def test_a_long_search_goes_on_in_the_next_page(it: TaskWorld) -> None:
    rare = await it.create(name="rare")
    await it.world.run(await it.container(rare), exit_code=1)
    for _ in range(31):
        await it.world.run(await it.container(await it.create()))
    query = "state=EXECUTOR_ERROR&page_size=1"
    page = await it.ok("GET", "tasks", query=query)
    assert page["tasks"] == []
    page = await it.ok("GET", "tasks", query=f"{query}&page_token={page['next_page_token']}")
    assert [one["id"] for one in page["tasks"]] == [rare]


async def test_the_containers_of_a_page_are_read_at_once(it: TaskWorld) -> None:
    for _ in range(10):
        await it.create()
    paths: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        await it.world.app(scope, receive, send)

    tasks = Tasks(
        AsgiTransport(app),
        it.journal,
        it.worker,
        site=TaskSite(),
        secret=b"secret",
        clock=it.world.clock,
    )
    query = parse_query([], secret=b"secret")
    assert len((await tasks.find(TaskCaller(it.world.admin, False), query))["tasks"]) == 10  # type: ignore[arg-type]
    assert paths.count("/arvados/v1/containers") == 1


async def test_a_step_of_a_run_is_shown(it: TaskWorld) -> None:
    runner = await it.world.submit(runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True})
    supervisor = await it.world.lock(runner["container_uuid"])
    path = f"containers/{runner['container_uuid']}"
    await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    own = await it.world.container_token(runner["container_uuid"])
    image = await it.world.ensure_image()
    step = await it.world.submit("step", token=own, container_image=image)
    found = await it.full(step["uuid"])
    assert (found["state"], found["executors"][0]["command"]) == ("QUEUED", ["step"])
    assert (await it.call("GET", f"tasks/{runner['uuid']}")).status == 404
    assert (await it.ok("GET", "tasks"))["tasks"] == []


@pytest.mark.parametrize("name", ["?", "?limit=0", "..", "zzzzz-4zz18-000000000000000"])
async def test_ids_lead_nowhere_else(it: TaskWorld, name: str) -> None:
    assert (await it.call("GET", f"tasks/{name}")).status == 404


class Visits:
    """A server whose FULL views wait 5 s; `act` is called in each pause, which takes its time."""

    def __init__(self, it: TaskWorld, act: Callable[[], Awaitable[object]]) -> None:
        self._it = it
        self._act = act
        self.pauses: list[float] = []
        self.tasks = Tasks(
            AsgiTransport(it.world.app),
            it.journal,
            it.worker,
            site=TaskSite(),
            secret=b"secret",
            clock=it.world.clock,
            sleep=self._sleep,
            full_wait=5.0,
        )

    async def state(self, task: str, view: TaskView = TaskView.FULL) -> str:
        """The state in a view."""
        caller = TaskCaller(self._it.world.admin, legacy=False)
        return str((await self.tasks.get(caller, task, view))["state"])

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._it.world.clock.advance(seconds)
        await self._act()


async def nothing() -> None:
    pass


async def test_a_full_view_of_a_young_task_waits_for_its_end(it: TaskWorld) -> None:
    task = await it.create()

    async def end() -> None:
        if len(visits.pauses) == 2:
            await it.world.run(await it.container(task))

    visits = Visits(it, end)
    assert await visits.state(task, TaskView.BASIC) == "QUEUED"
    assert await visits.state(task) == "COMPLETE"
    assert visits.pauses == [0.05, 0.1]


async def test_a_full_view_waits_no_longer_than_a_task_is_young(it: TaskWorld) -> None:
    task, visits = await it.create(), Visits(it, nothing)
    # Its system log says why no machine takes it.
    assert await visits.state(task) == "QUEUED"
    assert 1.5 < sum(visits.pauses) < 2.3
    await it.world.lock(await it.container(task))
    assert await visits.state(task) == "INITIALIZING"
    assert 4.5 < sum(visits.pauses) < 5.3
    visits.pauses.clear()
    assert await visits.state(task) == "INITIALIZING"
    assert visits.pauses == []


async def test_few_calls_wait_at_a_time(it: TaskWorld) -> None:
    task, gate = await it.create(), asyncio.Event()
    visits = Visits(it, gate.wait)
    waiting = [asyncio.create_task(visits.state(task)) for _ in range(16)]
    while len(visits.pauses) < 16:
        await asyncio.sleep(0)
    assert await visits.state(task) == "QUEUED"
    assert len(visits.pauses) == 16
    it.world.clock.advance(60)
    gate.set()
    assert await asyncio.gather(*waiting) == ["QUEUED"] * 16
