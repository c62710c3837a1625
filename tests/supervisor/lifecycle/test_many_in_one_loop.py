"""One event loop drives many containers: they stay apart, and none holds up another."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.supervisor.lifecycle.fake_commands import Inside, Machine
from tests.supervisor.supervised import open_files

# Seconds of processor time that the loop may take from one turn to the next. A wall clock would
# measure the other programs of the machine.
SLICE = 0.2
MANY = 50


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_tokens_directories_logs_and_failures_stay_apart(machine: Machine) -> None:
    def tell(inside: Inside) -> int:
        environment = dict(inside.spec.environment)
        number = environment["NUMBER"]
        (inside.path("/out") / "own").write_text(environment["ARVADOS_API_TOKEN"])
        inside.say(f"this is {number}\n")
        return int(number) % 7

    uuids = [
        machine.add(
            number,
            tell,
            environment={"NUMBER": str(number)},
            runtime_constraints={"API": True, "ram": 64 << 20, "vcpus": 1},
            # Of some of them the inputs cannot be made.
            mounts={
                "/out": {"kind": "tmp", "capacity": 1 << 20},
                **({"/x": {"kind": "file"}} if number % 5 == 4 else {}),
            },
        )
        for number in range(MANY)
    ]
    before = open_files()
    codes = await asyncio.gather(*(machine.run(uuid) for uuid in uuids))
    assert codes == [0] * MANY
    assert open_files() == before
    secrets = {uuid: machine.server.auth(uuid)[1].encode() for uuid in uuids}
    for number, uuid in enumerate(uuids):
        record = machine.server.containers[uuid]
        log = machine.files(uuid, "log")
        assert not [
            other for other in uuids if other != uuid and other.encode() in log["crunch-run.txt"]
        ]
        assert not [secret for secret in secrets.values() if secret in b"".join(log.values())]
        if number % 5 == 4:
            assert (record["state"], record["output"]) == ("Cancelled", None)
            assert record["runtime_status"]["error"].startswith("mounts[/x]")
            continue
        assert (record["state"], record["exit_code"]) == ("Complete", number % 7)
        assert record["runtime_status"] == {}
        assert log["stdout.txt"].endswith(f"Z this is {number}\n".encode())
        assert log["stdout.txt"].count(b"\n") == 1
        token = f"v2/{machine.server.auth(uuid)[0]}/{secrets[uuid].decode()}/{uuid}"
        assert machine.files(uuid, "output") == {"own": token.encode()}


async def test_a_cancellation_reaches_one_container_alone(machine: Machine) -> None:
    def wait(inside: Inside) -> int:
        inside.is_ended.wait()
        return 0

    uuids = [machine.add(number, wait, priority=0) for number in range(10)]
    runs = {uuid: asyncio.create_task(machine.run(uuid)) for uuid in uuids}
    records = machine.server.containers
    async with asyncio.timeout(30):
        while any(records[uuid]["state"] != "Running" for uuid in uuids):
            await asyncio.sleep(0)
    machine.controls[uuids[3]].stop.set()
    assert await runs[uuids[3]] == 0
    assert records[uuids[3]]["state"] == "Cancelled"
    others = [uuid for uuid in uuids if uuid != uuids[3]]
    assert {records[uuid]["state"] for uuid in others} == {"Running"}
    assert not [uuid for uuid in others if machine.engines[uuid].is_stopped]
    for uuid in others:
        machine.engines[uuid].end()
    assert await asyncio.gather(*(runs[uuid] for uuid in others)) == [0] * 9
    assert {records[uuid]["state"] for uuid in others} == {"Complete"}


def flood(inside: Inside) -> int:
    """Write as fast as the log is read."""
    for _ in range(200):
        os.write(inside.stdout, b"x" * ((1 << 16) - 1) + b"\n")
    return 0


def flood_lines(inside: Inside) -> int:
    """Write lines of one byte."""
    for _ in range(10):
        os.write(inside.stdout, b"x\n" * (1 << 15))
    return 0


def fill_directories(inside: Inside) -> int:
    """Leave many entries to examine and to save."""
    for number in range(100):
        folder = inside.path("/out") / str(number)
        folder.mkdir()
        for name in range(50):
            (folder / str(name)).touch()
    return 0


def fill_files(inside: Inside) -> int:
    """Leave large files to save."""
    for name in "abcd":
        with (inside.path("/out") / name).open("wb") as file:
            file.truncate(8 << 20)
    return 0


@pytest.mark.parametrize("command", [flood, flood_lines, fill_directories, fill_files])
async def test_a_large_container_holds_up_no_other(machine: Machine, command: object) -> None:
    assert callable(command)
    large = machine.add(0, command, mounts={"/out": {"kind": "tmp", "capacity": 1 << 30}})
    slices: list[float] = []

    async def turn() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            slices.append(now - last)
            last = now

    turning = asyncio.create_task(turn())
    try:
        assert await machine.run(large) == 0
    finally:
        turning.cancel()
    assert machine.server.containers[large]["state"] == "Complete"
    assert max(slices) < SLICE
