"""Supervisors forked from a real forkserver, on the real engines, against a small server on a Unix
socket.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lading.supervisor import linux
from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.testing.asgi import serving
from lading.testing.images import tiny_image
from lading.testing.supervising import CONTAINER, FakeServer
from tests.reality import need_program, need_root
from tests.supervisor.warm import PATIENCE, Parent, start_parent
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService

pytestmark = pytest.mark.system
SCRIPT = """
cat; cat /in/d/x
mkdir -p sub/empty deep
echo data > sub/file
ln -s /in/d x-link
ln -s sub/file file-link
echo note > sub/note; ln -s /out/sub/note note
cat /out/ref/y > deep/copied
echo changed >> staged
exit 3
"""


@dataclass
class Stage:
    """A forkserver, a server, and what is known of them."""

    parent: Parent
    server: FakeServer
    directory: Path
    image: str
    assignment: dict[str, Any]

    async def start(
        self, command: list[str], uuid: str = CONTAINER, **changes: Any
    ) -> tuple[dict[str, Any], int]:
        """The record of a container, and the pidfd of its supervisor."""
        record = self.server.add_container(
            uuid, command=command, container_image=self.image, cwd="/out", **changes
        )
        _, (pidfd,) = await asyncio.to_thread(lambda: self.parent.start(uuid, **self.assignment))
        return record, pidfd

    async def run(
        self, command: list[str], uuid: str = CONTAINER, **changes: Any
    ) -> dict[str, Any]:
        """The record of a container once its supervisor has ended."""
        record, pidfd = await self.start(command, uuid, **changes)
        await self.over(pidfd, uuid)
        return record

    async def over(self, pidfd: int, uuid: str = CONTAINER) -> None:
        """Wait until a container was ended in good order; its supervisor may stay for another."""
        async with asyncio.timeout(PATIENCE):
            while (self.parent.run / uuid).exists():
                await asyncio.sleep(0.01)
        os.close(pidfd)

    async def begun(self, command: list[str], **changes: Any) -> tuple[dict[str, Any], int]:
        """As `start`, once the command has written `up`."""
        record, pidfd = await self.start(command, **changes)
        log = self.parent.run / CONTAINER / "log" / "stdout.txt"
        async with asyncio.timeout(PATIENCE):
            while not log.exists() or b"up" not in log.read_bytes():
                await asyncio.sleep(0.01)
        return record, pidfd


def leave(_: Path) -> None:
    """Do nothing with a directory."""


@asynccontextmanager
async def staged(
    prepare: Callable[[Path], None] = leave, undo: Callable[[Path], None] = leave, **assignment: Any
) -> AsyncIterator[Stage]:
    """A stage with assignments like this; its directory is prepared before and undone after."""
    directory = Path(tempfile.mkdtemp(prefix="ls-"))
    prepare(directory)
    server = FakeServer()
    name, archive = tiny_image()
    image = server.add_collection({f"{name}.tar": archive})
    parent = start_parent(directory)
    socket = directory / "api.sock"
    fields = {
        "api_socket": str(socket),
        "stop_grace_period": 5.0,
        "unreachable_timeout": 10.0,
        **assignment,
    }
    loop = asyncio.get_running_loop()
    loop.add_reader(parent.connection, parent.hear)
    try:
        async with serving(server, uds=str(socket)):
            yield Stage(parent, server, directory, image, fields)
    finally:
        loop.remove_reader(parent.connection)
        parent.connection.close()
        parent.process.wait(PATIENCE)
    left = [path.name for path in parent.run.iterdir()]
    undo(directory)
    assert linux.mounts_below(str(directory)) == []
    shutil.rmtree(directory)
    assert left == []


@pytest.fixture
async def native() -> AsyncIterator[Stage]:
    need_root()
    need_program("crun")
    async with staged(engine="native") as stage:
        yield stage


@pytest.fixture
def group() -> Iterator[Cgroup]:
    """The control group that the container will have."""
    yield (group := Cgroup(find_hierarchy(Path("/proc/mounts").read_text()), CONTAINER))
    assert not any(Path(file).exists() for file in group.join_files)


async def full_life(stage: Stage) -> tuple[str, dict[str, bytes], dict[str, Any]]:
    """The output's hash and files, and the record, of a container that uses everything."""
    pdh = stage.server.add_collection({"d/x": b"input\n", "y": b"other\n", "z": b"staged\n"})
    collection = {"kind": "collection", "portable_data_hash": pdh}
    mounts = {
        "/out": {"kind": "tmp"},
        "/tmp": {"kind": "tmp"},
        "/ram": {"kind": "tmp", "device_type": "ram", "capacity": 1 << 20},
        "/in": collection,
        "/out/ref": collection,
        "/out/staged": {**collection, "path": "z", "writable": True},
        "/out/hidden": {"kind": "text", "content": "x", "exclude_from_output": True},
        "stdin": {"kind": "json", "content": {"b": 1, "a": 2}},
        "stdout": {"kind": "file", "path": "/out/said.txt"},
    }
    record = await stage.run(["sh", "-c", SCRIPT], mounts=mounts)
    assert record["state"] == "Complete", record["runtime_status"]
    return record["output"], stage.server.files(record["output"]), record


@pytest.mark.quick
async def test_engines_give_equal_outputs(
    docker_daemon: DockerDaemon, podman_service: PodmanService, group: Cgroup
) -> None:
    found = {}
    sockets: dict[str, Any] = {
        "docker_socket": str(docker_daemon.socket),
        "podman_socket": str(podman_service.socket),
    }
    for engine in ("native", "native-crun", "docker", "podman"):
        async with staged(engine=engine, **sockets) as stage:
            found[engine], files, record = await full_life(stage)
            assert record["exit_code"] == 3
            assert files == {
                "deep/copied": b"other\n",
                "file-link": b"data\n",
                "note": b"note\n",
                "ref/d/x": b"input\n",
                "ref/y": b"other\n",
                "ref/z": b"staged\n",
                "said.txt": b'{"a":2,"b":1}input\n',
                "staged": b"staged\nchanged\n",
                "sub/empty/.keep": b"",
                "sub/file": b"data\n",
                "sub/note": b"note\n",
                "x-link/x": b"input\n",
            }
    assert found["native"] == found["native-crun"] == found["docker"] == found["podman"]


async def test_a_killed_supervisor_leaves_no_mount_and_the_rest_is_cleaned(
    native: Stage, group: Cgroup
) -> None:
    record, pidfd = await native.begun(["sh", "-c", "echo up; sleep 1000"])
    run = native.parent.run / CONTAINER
    held = group.processes()
    assert len(held) >= 2
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    await ended(pidfd)
    assert (run / "bundle").is_dir()
    assert linux.mounts_below(str(run)) == []
    listed, _ = native.parent.ask("list")
    assert (listed["live"], listed["dead"]) == ([], [CONTAINER])
    cleaned, _ = native.parent.ask("clean", uuid=CONTAINER)
    assert cleaned["error"] == ""
    assert not run.exists()
    assert not any(linux.is_running(pid) for pid in held)
    assert record["state"] == "Running"


async def test_a_supervisor_killed_before_the_gate_opens_starts_nothing(
    native: Stage, group: Cgroup
) -> None:
    pids: list[int] = []
    native.server.on_call = lambda call: (
        os.kill(pids[0], signal.SIGKILL) if call == "PUT containers" else None
    )
    record = native.server.add_container(
        command=["sh", "-c", "echo > /out/ran"], container_image=native.image, cwd="/out"
    )
    message, (pidfd,) = native.parent.start(**native.assignment)
    pids.append(message["pid"])
    await ended(pidfd)
    assert list((native.parent.run / CONTAINER / "mounts" / "1").iterdir()) == []
    assert native.parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""
    assert record["state"] == "Running"
    assert native.server.calls.count("PUT containers") == 1


async def test_a_killed_docker_supervisor_is_cleaned(docker_daemon: DockerDaemon) -> None:
    async with staged(engine="docker", docker_socket=str(docker_daemon.socket)) as stage:
        _, pidfd = await stage.begun(["sh", "-c", "echo up; sleep 1000"])
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        await ended(pidfd)
        assert stage.parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""


async def test_term_cancels_and_saves_what_there_is(native: Stage, group: Cgroup) -> None:
    script = "trap 'exit 9' TERM; echo part > /out/file; echo up; while :; do sleep 0.01; done"
    record, pidfd = await native.begun(["sh", "-c", script])
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await native.over(pidfd)
    assert (record["state"], record.get("exit_code")) == ("Cancelled", None)
    assert b"up" in native.server.files(record["log"])["stdout.txt"]


async def test_time_and_memory_are_limited(native: Stage, group: Cgroup) -> None:
    native.assignment["stop_grace_period"] = 0.1
    late = await native.run(["sh", "-c", "sleep 100"], scheduling_parameters={"max_run_time": 1})
    assert (late["state"], late["runtime_status"]["failure"]) == ("Cancelled", "timeout")
    hungry = await native.run(["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"])
    assert (hungry["state"], hungry["exit_code"], hungry["runtime_status"]["failure"]) == (
        "Complete",
        137,
        "oom",
    )


async def test_a_container_outlives_the_warm_parent(native: Stage, group: Cgroup) -> None:
    record, pidfd = await native.begun(
        ["sh", "-c", "echo up; while [ ! -e /out/go ]; do sleep 0.01; done"]
    )
    native.parent.process.kill()
    native.parent.process.wait()
    (native.parent.run / CONTAINER / "mounts" / "1" / "go").touch()
    await native.over(pidfd)
    assert record["state"] == "Complete"


async def test_usage_and_live_logs_of_a_longer_run(native: Stage, group: Cgroup) -> None:
    native.assignment |= {"usage_interval": 0.1, "log_update_period": 0.05}
    record = await native.run(["sh", "-c", "echo up; sleep 1"])
    files = native.server.files(record["log"])
    assert b" mem " in files["crunchstat.txt"]
    assert b"-- interval" in files["crunchstat.txt"]
    assert native.server.live["stdout.txt"].endswith(b" up\n")
    assert 0 <= record["usage"]["cpu"] < 1
    assert 0 < record["usage"]["memory"] <= record["runtime_constraints"]["ram"]


async def test_many_at_the_same_time(native: Stage) -> None:
    uuids = [f"{CONTAINER[:-2]}{number:02d}" for number in range(12)]
    started = [await native.start(["sh", "-c", f"echo {uuid} > file"], uuid) for uuid in uuids]
    for _, pidfd in started:
        await ended(pidfd)
    for uuid, (record, _) in zip(uuids, started, strict=True):
        assert native.server.files(record["output"]) == {"file": f"{uuid}\n".encode()}


async def ended(pidfd: int) -> None:
    """Wait for the end of a process."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, readable.set)
    try:
        await asyncio.wait_for(readable.wait(), PATIENCE)
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
