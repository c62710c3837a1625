"""Supervisors started by themselves, as real processes: `python -m lading.supervisor`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lading.supervisor import journal, linux
from lading.supervisor.process.register import Register, RegisterEntry
from lading.testing.asgi import serving
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench

OTHER = "zzzzz-dz642-000000000000002"
HEAVY = {
    "aiodocker", "aiohttp", "asyncssh", "click", "cryptography", "email", "h11", "httptools",
    "importlib.metadata", "lading.client.files.collections", "lading.client.mount.service",
    "lading.core.containers.output", "lading.core.containers.sessions",
    "lading.core.containers.steps", "lading.core.data.filetree", "lading.core.data.manifest",
    "lading.net.rpc", "lading.supervisor.capture", "lading.supervisor.gang.gang_output",
    "lading.supervisor.gang.remote_rank_client", "lading.supervisor.inputs.git_archives",
    "lading.supervisor.inputs.image_archive", "lading.supervisor.inputs.unpack",
    "lading.supervisor.limits.disk_limits", "lading.supervisor.limits.usage_samples",
    "lading.supervisor.monitors", "lading.supervisor.process.worker", "lading.supervisor.results",
    "lading.supervisor.steps", "opentelemetry", "prometheus_client", "tarfile", "yaml", "zipfile",
}  # fmt: skip
"""Modules that take long to import, and that most containers do not need before their command."""
MOST_DATA_CLASSES = 10
"""Each takes 0.6 ms to make, of processor time; a `msgspec.Struct` takes a tenth of that."""


async def call(bench: Bench, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and messages of one command."""
    command = [
        sys.executable,
        "-m",
        "lading.supervisor",
        "--lock-directory",
        str(bench.directory / "lock"),
        *arguments,
    ]
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    said, fault = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, said.decode(), fault.decode()


@asynccontextmanager
async def served(bench: Bench, **settings: Any) -> AsyncIterator[bytes]:
    """The assignment of a container whose engine cannot be reached, with a server to tell."""
    socket = Path("/tmp") / f"lading-alone-{os.getpid()}.sock"
    bench.settings = {
        "engine": "docker",
        "docker_socket": "/none",
        "unreachable_timeout": 30.0,
        **settings,
    }
    told = {**msgspec.to_builtins(bench.assignment()), "api_socket": str(socket)}
    try:
        async with serving(bench.server, uds=str(socket)):
            yield msgspec.json.encode(told)
    finally:
        socket.unlink(missing_ok=True)


async def test_one_in_the_foreground(bench: Bench) -> None:
    record = bench.add("true")
    async with served(bench) as told:
        assert (await call(bench, CONTAINER, given=told))[:2] == (0, "")
    assert record["state"] == "Queued"
    assert not bench.run_directory.exists()
    locks = {one.name for one in (bench.directory / "lock").iterdir()}
    assert locks == {"crunch-run-all.lock", "crunch-run-broken"}


async def test_one_in_the_background(bench: Bench, tmp_path: Path) -> None:
    record = bench.add("true")
    down = {"GET containers": [503] * 10_000}
    async with served(bench) as told:
        bench.server.faults = down
        code, said, _ = await call(bench, "--detach", "--log", str(tmp_path / "log"), given=told)
        entry = msgspec.json.decode(said, type=RegisterEntry)
        assert (code, entry.UUID, entry.RunDirectory) == (0, CONTAINER, str(bench.run_directory))
        assert os.getsid(entry.PID) == entry.PID
        assert (await call(bench, "--list"))[:2] == (0, f"{CONTAINER}\n")
        code, _, fault = await call(bench, given=told)
        assert (code, "running already" in fault) == (1, True)
        assert (await call(bench, "--clean", CONTAINER))[0] == 1
        down.clear()
        while linux.is_running(entry.PID):
            await asyncio.to_thread(bench.run_directory.exists)
    assert record["state"] == "Queued"
    assert (await call(bench, "--list"))[:2] == (0, "broken\n")


async def test_signals_and_what_is_left(bench: Bench) -> None:
    bench.add("true")
    async with served(bench) as told:
        bench.server.faults = {"GET containers": [503] * 10_000}
        _, said, _ = await call(bench, "--detach", CONTAINER, given=told)
        assert json.loads(said)["PID"]
        assert (await call(bench, "--kill", "USR1", CONTAINER))[0] == 1
        assert (await call(bench, "--kill", "9", CONTAINER))[0] == 0
    assert journal.read_holder(bench.run_directory) is not None
    assert (await call(bench, "--clean", CONTAINER))[:2] == (0, "")
    assert not bench.run_directory.exists()
    assert (await call(bench, "--kill", "TERM", CONTAINER)) == (
        0,
        "",
        f"{CONTAINER}: not running\n",
    )


async def test_what_a_dead_one_left_is_cleaned_before_the_next(bench: Bench) -> None:
    bench.add("true")
    register = Register(bench.directory / "lock")
    async with served(bench) as told:
        descriptor, _ = register.acquire(CONTAINER)
        register.write(descriptor, RegisterEntry(CONTAINER, 1, str(bench.directory / "earlier")))
        os.close(descriptor)
        (bench.directory / "earlier").mkdir()
        assert (await call(bench, given=told))[0] == 0
    assert not (bench.directory / "earlier").exists()


async def test_what_dead_ones_of_other_containers_left_is_cleaned_at_the_end(bench: Bench) -> None:
    bench.add("true")
    register, other = Register(bench.directory / "lock"), f"{CONTAINER[:-1]}9"
    async with served(bench) as told:
        descriptor, _ = register.acquire(other)
        register.write(descriptor, RegisterEntry(other, 1, str(bench.directory / "other")))
        os.close(descriptor)
        (bench.directory / "other").mkdir()
        assert (await call(bench, given=told))[0] == 0
    assert not (bench.directory / "other").exists()
    assert register.read(other) is None


async def test_what_cannot_be_cleaned_is_said(bench: Bench) -> None:
    bench.add("true")
    register = Register(bench.directory / "lock")
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, RegisterEntry(CONTAINER, 1, str(bench.run_directory)))
    os.close(descriptor)
    held = journal.acquire_lock(bench.run_directory)
    code, said, fault = await call(bench, "--list")
    assert (code, said) == (0, f"{CONTAINER} stale\n")
    assert "cannot be cleaned" in fault
    async with served(bench) as told:
        assert (await call(bench, given=told))[0] == 1
    journal.release_lock(held)
    assert register.read(CONTAINER) == RegisterEntry(CONTAINER, 1, str(bench.run_directory))


async def test_prices_and_the_broken_mark(bench: Bench) -> None:
    Register(bench.directory / "lock").mark_broken("no space")
    assert (await call(bench, "--list", "--stdin-prices", given=b'[{"Price":1}]'))[:2] == (
        0,
        "broken\n",
    )
    assert (bench.directory / "lock" / "crunch-run-prices.json").read_bytes() == b'[{"Price":1}]'


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kill", "TERM"],
        ["--kill", "TERM", "x"],
        ["--kill", "NONE", CONTAINER],
        ["--list", "--clean"],
    ],
)
async def test_bad_command_lines(bench: Bench, arguments: list[str]) -> None:
    assert (await call(bench, *arguments))[0] == 2


async def test_an_assignment_for_another_container_is_refused(bench: Bench) -> None:
    told = msgspec.json.encode(bench.assignment())
    code, _, fault = await call(bench, OTHER, given=told)
    assert (code, fault) == (2, f"lading: assignment: it is for {CONTAINER}, not for {OTHER}\n")


def test_a_start_imports_only_what_each_container_needs() -> None:
    """A Pod, a job of a batch system and a VM start a Python for each container."""
    script = (
        "import sys\n"
        "from lading.supervisor import __main__\n"
        "from lading.supervisor.process import standalone\n"
        "from lading.supervisor.engines import NATIVE, EngineSettings, find_engines\n"
        "settings = EngineSettings(container_uuid='u', run_directory='/r', cache_directory='/c')\n"
        "find_engines().make(NATIVE, settings)\n"
        f"print(sorted({HEAVY!r} & sys.modules.keys()))\n"
        "from dataclasses import is_dataclass\n"
        "print(len({one for module in list(sys.modules.values())"
        " for one in vars(module).values() if isinstance(one, type) and is_dataclass(one)"
        # A measurement of coverage begins in each Python.
        " and not one.__module__.startswith('coverage')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy, data_classes = done.stdout.splitlines()
    assert heavy == "[]"
    assert int(data_classes) <= MOST_DATA_CLASSES


def test_a_start_collects_no_garbage() -> None:
    script = (
        "import gc, io, sys\n"
        "from lading.supervisor.__main__ import main\n"
        "sys.stdin = io.TextIOWrapper(io.BytesIO(b'no assignment'))\n"
        "count = lambda: sum(one['collections'] for one in gc.get_stats())\n"
        "before = count()\n"
        "code = main([])\n"
        "print(code, gc.isenabled(), count() - before < 20)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 True True\n"
