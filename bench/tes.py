"""What TES costs its clients: tasks a second, the latency of one, and lists of 100,000 tasks.

Tasks are run on a real server, over HTTPS, and in turns on Funnel with its local backend where that
is installed. Then the rows of the last one are copied in the database
while the server is away, and all pages of the list are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench.figures import Figure, absent, durations, throughput
from bench.funnel import IMAGE as FUNNEL_IMAGE
from bench.funnel import find_funnel, serving_funnel
from bench.queue import multiply
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient
from lading.client.transport import HttpTransport

MOST_LISTED: Final = 30.0
"""Milliseconds that a page of the list may take (p99)."""
_PREFIX: Final = "/ga4gh/tes/v1/"
# Tasks for the latency, one at a time, and calls for each figure of calls.
_SINGLE: Final = 10
_CALLS: Final = 200
# Creates at a time.
_TOGETHER: Final = 8
# Bursts of tasks, in turns.
_ROUNDS: Final = 4
_POLL: Final = 0.02
_PATIENCE: Final = 300.0
_OPEN: Final = ("QUEUED", "INITIALIZING", "RUNNING")


class TesClient:
    """Calls of TES with the token of a client of the API; tasks run in `image`."""

    def __init__(self, api: ApiClient, image: str = "", prefix: str = _PREFIX) -> None:
        self._api = api
        self._image = image
        self._prefix = prefix

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The JSON of an answer. Raises the errors of the server."""
        sent = b"" if body is None else json.dumps(body).encode()
        found: dict[str, Any] = json.loads(
            (await self._api.raw(method, self._prefix + path, body=sent)).body
        )
        return found

    async def create(self, name: str) -> str:
        """Create a task; its id."""
        executor = {"image": self._image, "command": ["sh", "-c", ":"]}
        task = {"name": name, "tags": {"bench": "yes"}, "executors": [executor]}
        return str((await self.call("POST", "tasks", task))["id"])

    async def end(self, task: str) -> None:
        """Wait for the end of a task. Raises RuntimeError when it did not end well."""
        async with asyncio.timeout(_PATIENCE):
            while (state := (await self.call("GET", f"tasks/{task}"))["state"]) in _OPEN:
                await asyncio.sleep(_POLL)
        if state != "COMPLETE":
            raise RuntimeError(f"task {task} ended with {state}")


@dataclass
class Times:
    """What the tasks of one server took, in seconds."""

    alone: list[float] = field(default_factory=list)
    creates: list[float] = field(default_factory=list)
    created: float = 0.0
    ended: float = 0.0
    last: str = ""

    def figures(self, what: str = "") -> list[Figure]:
        """The rows; `what` is added to their names."""
        polled = f"polled every {_POLL * 1000:g} ms{what}"
        return [
            durations(f"a task from create to COMPLETE, {polled}", self.alone),
            durations(f"create, {_TOGETHER} at a time{what}", self.creates),
            throughput(f"tasks created{what}", len(self.creates), self.created),
            throughput(f"tasks from create to COMPLETE{what}", len(self.creates), self.ended),
        ]


def measure(*, tasks: int, runs: int, funnel: Path | None = None) -> list[Figure]:
    """The figures with so many tasks in the list, and so many that are run; `funnel` is its
    program. Raises RuntimeError when a task fails.
    """
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        data = Path(folder) / "data"
        with contextlib.ExitStack() as stack:
            environment = stack.enter_context(serving(data))
            url = ""
            if program := find_funnel(funnel):
                url = stack.enter_context(serving_funnel(program, Path(folder) / "funnel"))
            template, figures = asyncio.run(_run(environment, add_image(environment), url, runs))
        multiply(data / "db.sqlite", template, tasks)
        with serving(data) as environment:
            return figures + asyncio.run(_read(environment, template, tasks))


async def _run(
    environment: dict[str, str], image: str, url: str, runs: int
) -> tuple[str, list[Figure]]:
    """Run tasks here and, in turns, at the address of Funnel if there is one; the last task here,
    and the figures.
    """
    async with contextlib.AsyncExitStack() as stack:
        ours, theirs = Times(), Times()
        sides = [(TesClient(await stack.enter_async_context(connected(environment)), image), ours)]
        if url:
            transport = await stack.enter_async_context(HttpTransport(url))
            sides.append((TesClient(ApiClient(transport, "none"), FUNNEL_IMAGE, "/v1/"), theirs))
        for _ in range(_SINGLE):
            for client, times in sides:
                times.alone.append(await timed(functools.partial(_one, client)))
        for part in range(_ROUNDS):
            for client, times in sides if part % 2 == 0 else sides[::-1]:
                await _burst(client, times, runs // _ROUNDS)
    if url:
        return ours.last, ours.figures() + theirs.figures(" (Funnel)")
    name = "tasks of Funnel's local backend"
    return ours.last, [*ours.figures(), absent(name, "no program: name it with --funnel PATH")]


async def _burst(client: TesClient, times: Times, runs: int) -> None:
    """Create tasks together, and wait for their ends."""
    made: list[str] = []
    turn = asyncio.Semaphore(_TOGETHER)

    async def create(number: int) -> None:
        async with turn:
            began = time.perf_counter()
            made.append(await client.create(f"bench-{number}"))
            times.creates.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(create(number) for number in range(runs)))
    times.created += time.perf_counter() - began
    for task in made:
        await client.end(task)
    times.ended += time.perf_counter() - began
    times.last = made[-1]


async def _one(client: TesClient) -> None:
    await client.end(await client.create("bench"))


async def _read(environment: dict[str, str], template: str, tasks: int) -> list[Figure]:
    """Read the whole list page by page, then single tasks and pages of filters."""
    async with connected(environment) as api:
        client = TesClient(api)
        seen, pages = await walk(client)
        if seen < tasks:
            raise RuntimeError(f"the pages of the list have {seen} tasks of {tasks}")
        of = f"{tasks:,} tasks"
        asked = {
            "first page": "tasks",
            "first page of COMPLETE": "tasks?state=COMPLETE",
            "first page by name_prefix": "tasks?name_prefix=bench-",
            "first page by tag": "tasks?tag_key=bench&tag_value=yes",
            "one task, MINIMAL": f"tasks/{template}",
            "one task, FULL": f"tasks/{template}?view=FULL",
        }
        figures = [durations(f"each page of 256, {of}", pages, p99_limit=MOST_LISTED)]
        for name, path in asked.items():
            calls = [
                await timed(functools.partial(client.call, "GET", path)) for _ in range(_CALLS)
            ]
            figures.append(durations(f"{name}, {of}", calls))
    return figures


async def walk(client: TesClient) -> tuple[int, list[float]]:
    """The number of tasks on all pages of the list, and the seconds of each page."""
    seen, pages, token = 0, [], ""
    while True:
        began = time.perf_counter()
        page = await client.call("GET", f"tasks?page_token={quote(token)}")
        pages.append(time.perf_counter() - began)
        seen += len(page["tasks"])
        token = page.get("next_page_token", "")
        if not token:
            return seen, pages


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """The seconds of a call."""
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began
