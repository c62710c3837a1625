"""Containers through a real Grid Engine: private daemons on this machine, started and ended with
the tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.gridengine_cluster import GridEngineCluster, running_grid_engine

pytestmark = pytest.mark.system
CONFIGURATION = """
Containers:
  Dispatcher: batch
  ReserveExtraRAM: 0
  StopGracePeriod: 500ms
  Batch:
    System: gridengine
    PollPeriod: 500ms
    AccountingDelay: 10s
    NodeDirectory: {root}/node
    HookDirectory: {root}/hooks
    SecretDirectory: {root}/secrets
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngineCluster]:
    need_root()
    for program in ("sge_qmaster", "sge_execd"):
        need_program(program)
    with running_grid_engine(tmp_path_factory.mktemp("grid") / "grid") as running:
        yield running
    assert running.left() == []


@pytest.fixture(scope="module")
def cluster(grid: GridEngineCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("cluster")
    (root / "hooks").mkdir()
    config = CONFIGURATION.format(root=root)
    with running_cluster(root / "data", config, dict(grid.environment)) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running
        until = time.monotonic() + 30
        while grid.jobs() and time.monotonic() < until:
            time.sleep(0.1)
    assert grid.jobs() == []
    assert list((root / "node/run").iterdir()) == []
    assert list((root / "secrets").iterdir()) == []


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster) as made:
        yield made


@pytest.mark.quick
def test_output_log_and_exit_code_come_back(cluster: Cluster) -> None:
    command = ("--no-reuse", "--image", "tools:1", "--", "sh", "-c", "echo hello; exit 3")
    result = cluster.lading("run", *command, check=False)
    assert (result.returncode, result.stdout) == (3, "hello\n")
    cluster.decisions("decided to run", "in Grid Engine as job")


async def test_the_job_is_made_of_the_record_and_its_script_holds_no_token(
    grid: GridEngineCluster, desk: Desk
) -> None:
    uuid = await desk.submit(
        "exec sleep 30",
        runtime_constraints={"vcpus": 2, "ram": 100 << 20},
        scheduling_parameters={"partitions": ["last.q"], "max_run_time": 90},
    )
    container = await desk.until(uuid, "Running")
    # Jobs of earlier tests may be listed while they end.
    descriptions = {
        number: grid.run("qstat", "-j", number, check=False)
        for number in (line.split()[0] for line in grid.jobs())
    }
    ((number, description),) = (
        (number, text) for number, text in descriptions.items() if container["uuid"][12:] in text
    )
    for words in (container["uuid"][12:], "mem_free=100M,h_rt=90", "last.q", "smp range: 2"):
        assert words in description
    script = grid.root / "spool/qmaster/job_scripts" / number
    assert "supervisor_token" not in script.read_text()
    assert container["uuid"] in script.read_text()
    await desk.cancel(uuid)
    assert (await desk.until(uuid, "Cancelled"))["log"]


async def test_what_waits_says_why_and_the_more_urgent_goes_first(
    grid: GridEngineCluster, desk: Desk
) -> None:
    full = {"runtime_constraints": {"vcpus": 4, "ram": 64 << 20}}
    running = await desk.submit("exec sleep 60", **full)
    await desk.until(running, "Running")
    early, late = await desk.submit("true", **full), await desk.submit("true", **full)
    await desk.until_told(early, "Waiting in Grid Engine")
    await desk.client.update("container_requests", late, {"priority": 900})
    name = (await desk.container(late))["uuid"][12:]
    while True:
        jobs = grid.run("qstat", "-u", "*", "-pri", "-xml", "-s", "p").split("<job_list")[1:]
        levels = {name in job: job.split("<JB_priority>")[1].split("<")[0] for job in jobs}
        if len(levels) == 2 and int(levels[True]) > int(levels[False]):
            break
        await asyncio.sleep(0.2)
    await desk.cancel(early)
    await desk.until(early, "Queued", "Cancelled")
    await desk.cancel(running)
    assert (await desk.until(late, "Complete"))["exit_code"] == 0


async def test_a_dispatcher_that_forgot_everything_finds_its_jobs(
    grid: GridEngineCluster, desk: Desk
) -> None:
    uuid = await desk.submit("exec sleep 6")
    before = await desk.until(uuid, "Running")
    os.kill(desk.cluster.pids("dispatcher")[0], signal.SIGKILL)
    assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0
    after = await desk.container(uuid)
    assert (after["uuid"], after["lock_count"]) == (before["uuid"], 1)


async def test_the_master_may_be_away_for_a_while(grid: GridEngineCluster, desk: Desk) -> None:
    uuid = await desk.submit("exec sleep 1")
    await desk.until(uuid, "Running")
    grid.kill("sge_qmaster")
    assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0
    late = await desk.submit("true")
    await asyncio.sleep(0.5)
    grid.start("sge_qmaster")
    assert (await desk.until(late, "Complete"))["exit_code"] == 0


async def test_a_job_that_somebody_deletes_says_so(grid: GridEngineCluster, desk: Desk) -> None:
    uuid = await desk.submit("exec sleep 62.5", container_count_max=1)
    container = await desk.until(uuid, "Running")
    lock = desk.cluster.data.parent / "node/locks" / f"crunch-run-{container['uuid']}.lock"
    os.kill(json.loads(lock.read_text())["PID"], signal.SIGKILL)
    ended = await desk.until(uuid, "Cancelled")
    assert ended["runtime_status"]["failure"] == "infrastructure"
    assert "Grid Engine job" in ended["runtime_status"]["errorDetail"]
    assert not lock.exists()


async def test_many_containers_each_run_once(desk: Desk, tmp_path: Path) -> None:
    uuids = await asyncio.gather(*(desk.submit(f"echo {number}") for number in range(24)))
    for uuid in uuids:
        assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0
    assert {(await desk.container(uuid))["lock_count"] for uuid in uuids} == {1}
