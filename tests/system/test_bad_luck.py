"""Bad input and bad luck on a real engine: each ends in a final state with words for a scientist
and a failure class, and leaves the machine as it was: no process, mount, control group or run
directory."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lading.supervisor import journal, linux
from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.testing.asgi import serving
from lading.testing.supervising import CONTAINER
from tests.reality import need_program, need_root
from tests.system.test_supervisor import Stage, staged

pytestmark = pytest.mark.system
MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No control group after the test, and so no process of the container; `staged` looks at the
    rest.
    """
    need_root()
    need_program("crun")
    group = Cgroup(find_hierarchy(Path("/proc/mounts").read_text()), CONTAINER)
    yield
    assert group.processes() == set()
    assert not any(Path(file).exists() for file in group.join_files)


@pytest.fixture
async def native() -> AsyncIterator[Stage]:
    async with staged(engine="native", stop_grace_period=0.5) as stage:
        yield stage


def status(record: dict[str, Any]) -> tuple[str, str, str]:
    """State, class of the failure, and the words."""
    said = record["runtime_status"]
    return record["state"], said.get("failure", ""), said.get("error", "")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"sha256:0.tar": b"rubbish"}, "not a tar archive as docker save makes it"),
        ({"a.tar": b"x", "b.tar": b"y"}, "tar"),
        ({"readme": b"x"}, "tar"),
        (None, "not found"),
    ],
)
async def test_an_image_that_is_no_image(
    native: Stage, files: dict[str, bytes] | None, words: str
) -> None:
    native.image = (
        native.server.add_collection(files) if files else "acbd18db4cc2f85cedef654fccc4a4d8+3"
    )
    state, failure, error = status(await native.run(["true"]))
    assert (state, failure) == ("Cancelled", "image")
    assert words in error


async def test_a_command_that_does_not_exist(native: Stage) -> None:
    state, failure, error = status(await native.run(["no-such-program"]))
    assert (state, failure) == ("Cancelled", "user")
    assert "the command cannot be started" in error
    assert "is the program, or the interpreter it names, in the image?" in error


async def test_a_killed_starter_is_no_result_of_the_command(native: Stage) -> None:
    record, pidfd = await native.begun(["sh", "-c", "echo up; exec sleep 1000"])
    group = Cgroup(find_hierarchy(Path("/proc/mounts").read_text()), CONTAINER)
    (keeper,) = [
        pid
        for pid in group.processes()
        if b"container.jsonl" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(keeper, signal.SIGKILL)
    await native.over(pidfd)
    state, failure, error = status(record)
    assert (state, failure, record.get("exit_code")) == ("Cancelled", "node", None)
    assert "lading-start that ran the container was ended by signal 9" in error


async def test_an_output_path_that_is_gone(native: Stage) -> None:
    record, pidfd = await native.begun(
        ["sh", "-c", "echo up; while [ ! -e /tmp/go ]; do sleep 0.01; done"],
        mounts={"/out": {"kind": "tmp"}, "/tmp": {"kind": "tmp"}},
    )
    made = native.parent.run / CONTAINER / "mounts"
    output, temporary = sorted(made.iterdir())
    shutil.rmtree(output)
    (temporary / "go").touch()
    await native.over(pidfd)
    state, failure, error = status(record)
    assert (state, failure) == ("Cancelled", "user")
    assert "/out" in error


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/in/none", "which has no directory 'none' to mount it on"),
        ("/in/x", "no directory 'x'"),
        ("/in/d", ""),
    ],
)
async def test_a_mount_over_a_mount(native: Stage, target: str, words: str) -> None:
    pdh = native.server.add_collection({"x": b"x", "d/y": b"y"})
    collection = {"kind": "collection", "portable_data_hash": pdh}
    mounts = {"/out": {"kind": "tmp"}, "/in": collection, target: {"kind": "tmp"}}
    script = "ls /in/d; echo new > /in/d/z || :"
    state, failure, error = status(await native.run(["sh", "-c", script], mounts=mounts))
    if words:
        assert (state, failure) == ("Cancelled", "user")
        assert error.startswith(f"mounts[{target}]: lies inside the read-only mount /in, which has")
        assert words in error
    else:
        assert state == "Complete"
    cached = native.directory / "cache" / "trees" / pdh
    assert sorted(str(one.relative_to(cached)) for one in cached.rglob("*")) == ["d", "d/y", "x"]


async def test_a_full_disk() -> None:
    async with on_small_disk(24) as stage:
        script = "dd if=/dev/zero of=/out/big bs=1M count=100"
        record = await stage.run(["sh", "-c", script])
        state, failure, error = status(record)
        assert (state, failure, record["exit_code"]) == ("Complete", "disk", 1)
        assert "the disk of this machine was full" in error
        assert b"No space left" in stage.server.files(record["log"])["stderr.txt"]


async def test_a_flood_of_log_on_a_small_disk() -> None:
    async with on_small_disk(24) as stage:
        record = await stage.run(
            ["sh", "-c", "dd if=/dev/zero bs=1M count=200; echo well > /out/file"]
        )
        assert record["state"] == "Complete"
        assert record["exit_code"] == 0
        assert stage.server.files(record["output"]) == {"file": b"well\n"}
        files = stage.server.files(record["log"])
        assert b"were not kept" in files["crunch-run.txt"]
        assert len(files["stdout.txt"]) < 24 * MIB


async def test_a_container_that_writes_a_gigabyte_of_log_a_second(native: Stage) -> None:
    native.assignment["log_limit"] = 64 * MIB
    began = time.monotonic()
    record, pidfd = await native.start(
        ["sh", "-c", "dd if=/dev/zero bs=1M count=3000; echo said >&2"]
    )
    holder = None
    while holder is None:
        holder = journal.read_holder(native.parent.run / CONTAINER)
    memory = 0
    watching = asyncio.create_task(native.over(pidfd))
    while not watching.done():
        memory = max(memory, _high_water(holder.PID))
        await asyncio.sleep(0.01)
    await watching
    assert (record["state"], record["exit_code"]) == ("Complete", 0)
    files = native.server.files(record["log"])
    assert (
        b"[the log keeps 67108864 bytes of this with its time stamps: further output is not kept]\n"
        in files["stdout.txt"][-100:]
    )
    assert len(files["stdout.txt"]) < 66 * MIB
    assert files["stderr.txt"].endswith(b" said\n")
    assert files["crunch-run.txt"].endswith(b" Complete\n")
    assert memory < 100e6
    assert time.monotonic() - began < 60


async def test_a_fork_bomb(native: Stage) -> None:
    script = "bomb() { bomb | bomb & }; bomb; sleep 100"
    needs = {"ram": 32 * MIB, "vcpus": 1}
    record = await native.run(
        ["sh", "-c", script], runtime_constraints=needs, scheduling_parameters={"max_run_time": 2}
    )
    state, failure, error = status(record)
    assert state in ("Cancelled", "Complete")
    assert failure in ("timeout", "oom")
    assert error


@pytest.mark.parametrize("seconds", [1.5, pytest.param(125.0, marks=pytest.mark.long)])
async def test_a_server_that_is_dead_for_a_while(
    native: Stage, tmp_path: Path, seconds: float
) -> None:
    native.assignment |= {
        "api_socket": str(tmp_path / "other.sock"),
        "unreachable_timeout": 60.0 + seconds,
    }
    async with serving(native.server, uds=str(tmp_path / "other.sock")):
        record, pidfd = await native.begun(
            ["sh", "-c", "echo up; sleep 0.5; echo data > /out/file"]
        )
    (tmp_path / "other.sock").unlink(missing_ok=True)
    watching = asyncio.create_task(native.over(pidfd))
    await asyncio.sleep(seconds)
    assert not watching.done()
    assert record["state"] == "Running"
    async with serving(native.server, uds=str(tmp_path / "other.sock")):
        await watching
    assert record["state"] == "Complete"
    assert native.server.files(record["output"]) == {"file": b"data\n"}


def on_small_disk(mebibytes: int) -> Any:
    """A stage whose run directories are on a disk of this size."""

    def prepare(directory: Path) -> None:
        (directory / "run").mkdir()
        linux.mount("tmpfs", str(directory / "run"), "tmpfs", f"size={mebibytes}m")

    def undo(directory: Path) -> None:
        linux.unmount(str(directory / "run"))

    return staged(prepare, undo, engine="native", stop_grace_period=0.5)


def _high_water(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
