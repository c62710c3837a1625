from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiodocker
import pytest
from aiohttp import web

from lading.supervisor.engines.limit_events import LimitEvents, events_at_end, reported_late
from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.supervisor.machine import mount_table
from tests.reality import need, need_root


@pytest.fixture
def group() -> Iterator[Cgroup]:
    need_root()
    made = Cgroup(find_hierarchy(mount_table()), f"limit-events-{os.getpid()}")
    need(made.make(ram=16 << 20, processes=8) == [], "memory cgroups")
    yield made
    made.remove()


async def events_of(script: str, group: Cgroup) -> LimitEvents:
    """The counts for a shell that runs this in the group."""
    join = "".join(f"echo 0 >{file}; " for file in group.join_files)
    command = ["/bin/sh", "-c", f"{join} echo joined; read go; {script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        counting = asyncio.create_task(events_at_end(process.pid))
        await asyncio.sleep(0)
        process.stdin.write(b"go\n")
        process.stdin.close()
        return await counting


async def test_kills_for_lack_of_memory_are_counted(group: Cgroup) -> None:
    assert await events_of(
        "exec dd if=/dev/zero of=/dev/null bs=64M count=1", group
    ) == LimitEvents(kills=1)


async def test_an_end_of_another_kind_counts_none(group: Cgroup) -> None:
    assert await events_of("kill -9 $$", group) == LimitEvents()


async def test_processes_above_the_limit_are_counted(group: Cgroup) -> None:
    loop = "i=0; while [ $i -lt 20 ]; do (sleep 9) & i=$((i+1)); done"
    found = await events_of(f"{{ {loop}; }} 2>/dev/null", group)
    group.remove()
    assert found.refused > 0


async def test_a_process_that_has_gone_had_no_kills() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert await events_at_end(process.pid) == LimitEvents()


class Reports:
    """A daemon that reports events of containers."""

    def __init__(self, *events: str) -> None:
        self.events = events
        self.asked: list[dict[str, str]] = []

    async def _report(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        response = web.StreamResponse()
        await response.prepare(request)
        for event in self.events:
            await response.write(json.dumps({"status": event}).encode() + b"\n")
        return response

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[aiodocker.Docker]:
        app = web.Application()
        app.router.add_get("/v1.41/events", self._report)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(socket)).start()
        docker = aiodocker.Docker(url=f"unix://{socket}", api_version="v1.41")
        try:
            yield docker
        finally:
            await docker.close()
            await runner.cleanup()


@pytest.mark.parametrize(
    ("code", "events", "lacked", "asked"),
    [(137, ("oom",), True, 1), (137, (), False, 1), (1, ("oom",), False, 0)],
)
async def test_a_late_report_of_docker(
    tmp_path: Path, code: int, events: tuple[str, ...], lacked: bool, asked: int
) -> None:
    daemon = Reports(*events)
    state = {"ExitCode": code, "StartedAt": "2026-01-01T00:00:00Z"}
    async with daemon.serving(tmp_path / "s") as docker:
        assert await reported_late(docker, state, "name") is lacked
    assert len(daemon.asked) == asked
    for query in daemon.asked:
        assert query["since"] == "2026-01-01T00:00:00Z"
        assert json.loads(query["filters"]) == {"container": ["name"], "event": ["oom"]}


async def test_a_daemon_that_does_not_answer_reports_nothing(tmp_path: Path) -> None:
    docker = aiodocker.Docker(url=f"unix://{tmp_path}/s", api_version="v1.41")
    state = {"ExitCode": 137, "StartedAt": "2026-01-01T00:00:00Z"}
    assert not await reported_late(docker, state, "name")
    await docker.close()
