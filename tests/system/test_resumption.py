"""Supervisors killed while their commands run: another one goes on with the container."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lading.supervisor import linux
from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.testing.supervising import CONTAINER
from tests.reality import need_program, need_root
from tests.supervisor.warm import PATIENCE
from tests.system.cluster import Cluster, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.test_supervisor import Stage, staged

pytestmark = pytest.mark.system
WAITING = (
    "echo begun >> /out/times; echo up; while [ ! -e /out/go ]; do sleep 0.01; done;"
    " echo more; echo fault >&2; exit 7"
)


@pytest.fixture
async def native() -> AsyncIterator[Stage]:
    need_root()
    need_program("crun")
    async with staged(engine="native") as stage:
        yield stage


@pytest.fixture
def group() -> Iterator[Cgroup]:
    """The control group of the container."""
    yield (group := Cgroup(find_hierarchy(Path("/proc/mounts").read_text()), CONTAINER))
    assert not any(Path(file).exists() for file in group.join_files)


async def handed_over(stage: Stage) -> None:
    """Wait until the forkserver keeps what another supervisor needs."""
    parent = Path(f"/proc/{stage.parent.process.pid}/fd")
    async with asyncio.timeout(PATIENCE):
        while not any("memfd:handover" in str(file.readlink()) for file in parent.iterdir()):
            await asyncio.sleep(0.01)


async def ended(pidfd: int) -> None:
    """Wait for the end of a supervisor."""
    async with asyncio.timeout(PATIENCE):
        await linux.readable(pidfd)
    os.close(pidfd)


async def kill(pidfd: int) -> None:
    """Kill a supervisor and wait for its end."""
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    await ended(pidfd)


async def replaced(stage: Stage) -> int:
    """The pidfd of another supervisor of the container."""
    message, descriptors = await asyncio.to_thread(
        lambda: stage.parent.ask("resume", uuid=CONTAINER)
    )
    assert message["op"] == "resumed", message
    return descriptors[0]


def go(stage: Stage) -> None:
    """Let the command of `WAITING` end."""
    (stage.parent.run / CONTAINER / "mounts" / "1" / "go").touch()


def said(stage: Stage, record: dict[str, Any], name: str) -> list[bytes]:
    """The lines of a file of the saved log, without their times."""
    log = stage.server.files(record["log"])[name]
    return [line.partition(b" ")[2] for line in log.splitlines()]


async def test_a_command_outlives_its_supervisor(native: Stage) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    await handed_over(native)
    await kill(pidfd)
    successor = await replaced(native)
    go(native)
    await native.over(successor)
    assert (record["state"], record["exit_code"]) == ("Complete", 7)
    # It ran once.
    assert native.server.files(record["output"])["times"] == b"begun\n"
    assert said(native, record, "stdout.txt") == [b"up", b"more"]
    assert said(native, record, "stderr.txt") == [b"fault"]
    assert any(b"another one goes on" in line for line in said(native, record, "crunch-run.txt"))


async def test_what_ends_and_says_when_nobody_listens_is_known(native: Stage) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    await handed_over(native)
    await kill(pidfd)
    go(native)
    status = native.parent.run / CONTAINER / "container.jsonl"
    async with asyncio.timeout(PATIENCE):
        while b"code" not in status.read_bytes():
            await asyncio.sleep(0.01)
    await native.over(await replaced(native))
    assert (record["state"], record["exit_code"]) == ("Complete", 7)
    assert native.server.files(record["output"])["times"] == b"begun\n"
    assert said(native, record, "stdout.txt") == [b"up", b"more"]


async def test_an_end_and_the_request_to_go_on_may_come_together(native: Stage) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    await handed_over(native)
    native.parent.process.send_signal(signal.SIGSTOP)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    successor = asyncio.create_task(replaced(native))
    await ended(pidfd)
    await asyncio.sleep(0.2)
    native.parent.process.send_signal(signal.SIGCONT)
    opened = await successor
    listed, (again,) = await asyncio.to_thread(lambda: native.parent.ask("list"))
    assert [live["uuid"] for live in listed["live"]] == [CONTAINER]
    os.close(again)
    go(native)
    await native.over(opened)
    assert (record["state"], record["exit_code"]) == ("Complete", 7)


async def test_results_are_saved_by_another(native: Stage) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    await handed_over(native)
    (holder,) = {json.loads((native.parent.run / CONTAINER / "lock").read_bytes())["PID"]}
    killed: list[int] = []

    def strike(call: str) -> None:
        if call == "POST finish" and not killed:
            killed.append(holder)
            os.kill(holder, signal.SIGKILL)
            # The call is not answered.
            raise ConnectionResetError

    native.server.on_call = strike
    go(native)
    await ended(pidfd)
    await native.over(await replaced(native))
    assert killed
    assert (record["state"], record["exit_code"]) == ("Complete", 7)
    assert native.server.files(record["output"])["times"] == b"begun\n"


async def test_the_fourth_supervisor_is_the_last(native: Stage, group: Cgroup) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    for _ in range(3):
        await handed_over(native)
        await kill(pidfd)
        pidfd = await replaced(native)
    await kill(pidfd)
    message, _ = await asyncio.to_thread(lambda: native.parent.ask("resume", uuid=CONTAINER))
    assert message["op"] == "refused"
    assert group.processes()
    cleaned, _ = await asyncio.to_thread(lambda: native.parent.ask("clean", uuid=CONTAINER))
    assert cleaned["error"] == ""
    assert record["state"] == "Running"


async def test_it_can_be_stopped_and_its_memory_is_its_output(native: Stage) -> None:
    """A mount in memory is in the mount namespace of the first supervisor alone."""
    record, pidfd = await native.begun(
        ["sh", "-c", "echo kept > /out/file; echo up; while :; do sleep 0.01; done"],
        mounts={"/out": {"kind": "tmp", "device_type": "ram", "capacity": 1 << 20}},
    )
    await handed_over(native)
    await kill(pidfd)
    successor = await replaced(native)
    record["priority"] = 0
    sent, _ = await asyncio.to_thread(
        lambda: native.parent.ask("signal", uuid=CONTAINER, signal="TERM")
    )
    assert sent["delivered"]
    await native.over(successor)
    assert record["state"] == "Cancelled"
    assert native.server.files(record["output"]) == {"file": b"kept\n"}


def map_of_user_ids(group: Cgroup) -> str:
    """The map of user ids of the command; the programs that it starts may end meanwhile."""
    for pid in sorted(group.processes())[1:]:
        with suppress(OSError):
            return Path(f"/proc/{pid}/uid_map").read_text()
    raise AssertionError("no process of the container is there")


async def test_its_user_ids_stay_its_own(native: Stage, group: Cgroup) -> None:
    record, pidfd = await native.begun(["sh", "-c", WAITING])
    await handed_over(native)
    first = map_of_user_ids(group)
    await kill(pidfd)
    other = "zzzzz-dz642-000000000000002"
    beside, second = await native.start(["cat", "/proc/self/uid_map"], other)
    await native.over(second, other)
    assert said(native, beside, "stdout.txt")[0].split() != first.encode().split()
    successor = await replaced(native)
    go(native)
    await native.over(successor)
    assert record["exit_code"] == 7


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_root()
    config = "Containers: {StopGracePeriod: 500ms, LogUpdatePeriod: 100ms}\n"
    with running_cluster(tmp_path / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        yield running


async def test_a_request_does_not_notice(cluster: Cluster) -> None:
    """The container is entered, followed and cancelled as any other one."""
    async with desk_of(cluster) as desk:
        script = "echo begun >> times; echo up; until [ -e go ]; do sleep 0.05; done; echo more"
        uuid = await desk.submit(script, container_count_max=1)
        stopped = await desk.submit("sleep 600", container_count_max=1)
        for request in (uuid, stopped):
            await kill_of_request(cluster, desk, request)
        entered = await asyncio.to_thread(
            cluster.lading, "shell", uuid, "--", "sh", "-c", "echo hello; echo > go"
        )
        assert entered.stdout == "hello\n"
        done = await desk.until(uuid, "Complete", "Cancelled")
        assert (done["state"], done["exit_code"]) == ("Complete", 0)
        assert cluster.lading("cat", f"{done['output']}/times").stdout == "begun\n"
        assert cluster.lading("request", "logs", uuid).stdout == "up\nmore\n"
        await desk.cancel(stopped)
        assert (await desk.until(stopped, "Complete", "Cancelled"))["state"] == "Cancelled"


async def kill_of_request(cluster: Cluster, desk: Desk, request: str) -> None:
    """Kill the supervisor of a request when its command has run for a moment; wait for another."""
    container = (await desk.until(request, "Running"))["uuid"]
    lock = cluster.data / "run" / container / "lock"
    pid = json.loads(lock.read_bytes())["PID"]
    await asyncio.sleep(1)
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while json.loads(lock.read_bytes() or b"{}").get("PID", pid) == pid:
            await asyncio.sleep(0.01)
