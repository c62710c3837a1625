from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lading.supervisor import journal, linux
from lading.supervisor.process.serving import ignore_probes, run_one
from lading.testing.asgi import serving
from lading.testing.engine import StubEngine
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench

SUPERVISOR = [sys.executable, "-m", "lading.supervisor"]


def test_probes_do_nothing_and_are_not_inherited() -> None:
    ignore_probes()
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)
    child = subprocess.run(["/bin/sh", "-c", "kill -USR1 $$"], check=False)
    assert child.returncode == -signal.SIGUSR1


@pytest.mark.parametrize("told", ["{", '{"container_uuid": "x"}'])
def test_a_bad_assignment_is_one_line(told: str) -> None:
    done = subprocess.run(SUPERVISOR, input=told, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("lading: assignment")
    assert done.stderr.count("\n") == 1


async def test_one_container_in_a_process_of_its_own(bench: Bench, tmp_path: Path) -> None:
    record = bench.add("true", state="Complete")
    socket = Path("/tmp") / f"lading-test-{os.getpid()}.sock"
    bench.settings = {"engine": "docker", "docker_socket": "/none"}
    told = {**msgspec.to_builtins(bench.assignment()), "api_socket": str(socket)}
    async with serving(bench.server, uds=str(socket)):
        process = await asyncio_run(
            [*SUPERVISOR, "--lock-directory", str(tmp_path)], msgspec.json.encode(told)
        )
    socket.unlink(missing_ok=True)
    assert process == 1
    assert record["state"] == "Complete"
    assert not bench.run_directory.exists()


def test_the_run_directory_goes_with_the_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("true")
    told = bench.assignment()
    lock = journal.acquire_lock(bench.run_directory)
    monkeypatch.setattr(linux, "leave_mount_namespace", lambda _: None)
    assert run_one(told, lock, engines=lambda name, settings: StubEngine(settings)) == 1
    journal.release_lock(lock)
    assert not bench.run_directory.exists()


def test_a_run_directory_that_stays_is_no_crash(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "busy")

    lock = journal.acquire_lock(bench.run_directory)
    monkeypatch.setattr(linux, "leave_mount_namespace", lambda _: None)
    monkeypatch.setattr(linux, "discard_directory", refuse)
    assert (
        run_one(bench.assignment(), lock, engines=lambda name, settings: StubEngine(settings)) == 1
    )
    holder = journal.read_holder(bench.run_directory)
    assert holder == journal.LockHolder(UUID=CONTAINER, PID=os.getpid())
    journal.release_lock(lock)


async def asyncio_run(command: list[str], given: bytes) -> int:
    """The exit code of a command."""

    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
    await process.communicate(given)
    assert process.returncode is not None
    return process.returncode
