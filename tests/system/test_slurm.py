"""Containers through a real Slurm: private daemons on this machine, started and ended with the
tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.slurm_cluster import SlurmCluster, running_slurm
from tests.system.trace_collector import collecting

pytestmark = pytest.mark.system
CONFIGURATION = """
Containers:
  Dispatcher: slurm
  ReserveExtraRAM: 0
  StopGracePeriod: 500ms
  SLURM: {{PollPeriod: 300ms, NodeDirectory: {node}, HookDirectory: {hooks}, MaxJobArraySize: 10}}
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    need_root()
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    root = tmp_path_factory.mktemp("slurm")
    with running_slurm(root / "slurm", nodes=2, vcpus=4, ram=4000) as running:
        yield running
    assert running.left() == []


@pytest.fixture(scope="module")
def cluster(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("cluster")
    (root / "hooks").mkdir()
    config = CONFIGURATION.format(node=root / "node", hooks=root / "hooks")
    with running_cluster(root / "data", config, slurm.environment) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running
        until = time.monotonic() + 30
        # A job outlives its container by as long as its script takes to end.
        while slurm.jobs() and time.monotonic() < until:
            time.sleep(0.1)
    assert slurm.jobs() == []
    assert (
        list((root / "node/run").iterdir()) == list((root / "node/locks").glob("*-dz642-*")) == []
    )


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster) as made:
        yield made


def test_a_supervisor_of_a_job_sends_its_spans(slurm: SlurmCluster, tmp_path: Path) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    (tmp_path / "hooks").mkdir()
    config = CONFIGURATION.format(node=tmp_path / "node", hooks=tmp_path / "hooks")
    with collecting(trace) as collector:
        more = f"SystemLogs: {{Format: json}}\nTracing: {{Endpoint: '{collector.url}'}}\n"
        with running_cluster(tmp_path / "data", config + more, slurm.environment) as cluster:
            cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh")
            cluster.environment["TRACEPARENT"] = f"00-{trace}-b7ad6b7169203331-01"
            cluster.lading("run", "--image", "tools:1", "--", "sh", "-c", "echo hello")
            collector.wait_for(
                {
                    ("lading-server", "POST container_requests.create"),
                    ("lading-dispatcher", "start supervisor"),
                    # The last of a process of its own.
                    ("lading-supervisor", "supervise"),
                }
            )
            until = time.monotonic() + 30
            while slurm.jobs() and time.monotonic() < until:
                time.sleep(0.1)
            for name in ("server", "dispatcher"):
                for line in (cluster.data / "log" / f"{name}.log").read_text().splitlines():
                    assert json.loads(line)["level"]
    assert slurm.jobs() == []


@pytest.mark.quick
def test_output_log_and_exit_code_come_back(cluster: Cluster) -> None:
    done = cluster.lading(
        "run",
        "--no-reuse",
        "--image",
        "tools:1",
        "--",
        "sh",
        "-c",
        "echo hello; exit 3",
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "hello\n")
    cluster.decisions("decided to run", "in Slurm as job")


async def test_the_job_is_made_of_the_record_and_shows_no_token(
    slurm: SlurmCluster, desk: Desk
) -> None:
    uuid = await desk.submit(
        "exec sleep 30",
        runtime_constraints={"vcpus": 2, "ram": 100 << 20},
        scheduling_parameters={"partitions": ["last"], "max_run_time": 90},
    )
    container = await desk.until(uuid, "Running")
    (job,) = slurm.jobs()
    shown = slurm.run("scontrol", "show", "job", job.split()[0])
    for part in (
        f"JobName={container['uuid']}",
        "NumCPUs=2",
        "MinMemoryNode=100M",
        "Partition=last",
        "TimeLimit=00:02:00",
    ):
        assert part in shown, shown
    script = slurm.run("scontrol", "write", "batch_script", job.split()[0], "-")
    secret = script.split('"supervisor_token":"')[1].split('"')[0].split("/")[2]
    for pid in slurm.left():
        for name in ("environ", "cmdline"):
            assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    assert secret not in shown
    await desk.cancel(uuid)
    assert (await desk.until(uuid, "Cancelled"))["log"]


async def test_priorities_decide_what_waits_and_cancelling_removes_it(
    slurm: SlurmCluster, desk: Desk
) -> None:
    full = {"runtime_constraints": {"vcpus": 4, "ram": 64 << 20}}
    running = [await desk.submit("exec sleep 60", **full) for _ in range(2)]
    for uuid in running:
        await desk.until(uuid, "Running")
    unlike = {"runtime_constraints": {"vcpus": 4, "ram": 65 << 20}}
    early, late = await desk.submit("true", **full), await desk.submit("true", **unlike)
    assert "Waiting in Slurm as job" in await desk.until_told(early, "Waiting in Slurm")
    await desk.client.update("container_requests", late, {"priority": 900})
    names = [(await desk.container(uuid))["uuid"] for uuid in (late, early)]
    while (
        slurm.run("squeue", "--noheader", "--states=PD", "--sort=-p", "--format=%j").split()
        != names
    ):
        await asyncio.sleep(0.1)
    await desk.cancel(early)
    await desk.until(early, "Queued", "Cancelled")
    while len(slurm.jobs()) > 3:
        await asyncio.sleep(0.05)
    for uuid in running:
        await desk.cancel(uuid)
    assert (await desk.until(late, "Complete"))["exit_code"] == 0


async def test_what_no_node_can_hold_stays_queued_with_the_reason(desk: Desk) -> None:
    uuid = await desk.submit("true", runtime_constraints={"vcpus": 64, "ram": 64 << 20})
    assert "it needs 64 VCPUs" in await desk.until_told(uuid, "Too large")
    other = await desk.submit("true", scheduling_parameters={"partitions": ["moon"]})
    assert "the partitions moon only" in await desk.until_told(other, "Not for this dispatcher")
    await desk.until_decided(uuid, "decided_not_to_run")
    for one in (uuid, other):
        assert (await desk.container(one))["state"] == "Queued"
        await desk.cancel(one)


async def test_a_dispatcher_that_forgot_everything_finds_its_jobs(
    slurm: SlurmCluster, desk: Desk
) -> None:
    full = {"runtime_constraints": {"vcpus": 4, "ram": 64 << 20}}
    running = [await desk.submit("exec sleep 4", **full) for _ in range(2)]
    for uuid in running:
        await desk.until(uuid, "Running")
    waiting = await desk.submit("echo late", **full)
    await desk.until(waiting, "Locked")
    while len(slurm.jobs()) < 3:
        await asyncio.sleep(0.05)
    before = {(await desk.container(uuid))["uuid"] for uuid in (*running, waiting)}
    os.kill(desk.cluster.pids("dispatcher")[0], signal.SIGKILL)
    for uuid in (*running, waiting):
        assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0
    assert {(await desk.container(uuid))["uuid"] for uuid in (*running, waiting)} == before
    assert (await desk.container(waiting))["lock_count"] == 1


async def test_slurm_may_be_away_for_a_while(slurm: SlurmCluster, desk: Desk) -> None:
    uuid = await desk.submit("exec sleep 1")
    await desk.until(uuid, "Running")
    slurm.kill("slurmctld")
    assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0
    late = await desk.submit("true")
    await asyncio.sleep(0.5)
    slurm.start("slurmctld")
    assert (await desk.until(late, "Complete"))["exit_code"] == 0


async def test_a_job_that_somebody_cancels_says_so_and_is_noted(
    slurm: SlurmCluster, desk: Desk
) -> None:
    uuid = await desk.submit("echo up; exec sleep 62.25", container_count_max=1)
    await desk.until(uuid, "Running")
    (job,) = [one.split()[0] for one in slurm.jobs() if "RUNNING" in one]
    slurm.run("scancel", job)
    ended = await desk.until(uuid, "Cancelled")
    assert ended["runtime_status"]["failure"] == "infrastructure"
    assert ended["exit_code"] is None
    assert "it was cancelled in Slurm" in ended["runtime_status"]["errorDetail"]
    await desk.until_decided(uuid, "cleaned_up_crashed")


async def test_a_supervisor_that_dies_on_its_node_is_cleaned_up_there(
    slurm: SlurmCluster, desk: Desk
) -> None:
    uuid = await desk.submit("exec sleep 61.25", container_count_max=1)
    container = await desk.until(uuid, "Running")
    lock = desk.cluster.data.parent / "node/locks" / f"crunch-run-{container['uuid']}.lock"
    os.kill(json.loads(lock.read_text())["PID"], signal.SIGKILL)
    ended = await desk.until(uuid, "Cancelled")
    assert ended["runtime_status"]["failure"] == "infrastructure"
    await desk.until_decided(uuid, "cleaned_up_crashed")
    while (
        subprocess.run(["pgrep", "-f", "^sleep 61.25"], capture_output=True, check=False).stdout
        or lock.exists()
    ):
        await asyncio.sleep(0.05)


async def test_a_container_on_a_node_can_be_entered_through_its_tunnel(
    cluster: Cluster, desk: Desk
) -> None:
    need_program("ssh")
    uuid = await desk.submit("echo up; exec sleep 60")
    container = await desk.until(uuid, "Running")
    assert container["gateway_address"].startswith("tunnel")
    arguments = ("shell", "--wait", uuid, "--", "sh", "-c", "echo $$ inside; exit 7")
    done = await asyncio.to_thread(cluster.lading, *arguments, check=False)
    assert (done.returncode, done.stdout.split()[1:]) == (7, ["inside"])
    assert (await desk.container(uuid))["gateway_address"] == f"tunnel https://{cluster.address}/"
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
