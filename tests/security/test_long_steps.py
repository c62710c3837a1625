"""Containers that try to keep their supervisor busy beyond its end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.data import filetree
from lading.testing.asgi import serving
from lading.testing.supervising import CONTAINER
from tests.reality import need_program, need_root
from tests.system.test_supervisor import Stage, staged

pytestmark = pytest.mark.system
SECONDS = 20.0
"""More than any of it takes, and far less than what is attacked took."""
ENDING = 8.0
"""Seconds from the word to stop until a container has ended and its run directory is gone: 2 until
it is heard.
"""


@pytest.fixture
async def native() -> AsyncIterator[Stage]:
    need_root()
    need_program("crun")
    async with staged(engine="native", stop_grace_period=0.3) as stage:
        yield stage


@pytest.mark.attack("an output_glob of very many stars and a file whose name nearly matches")
@pytest.mark.parametrize(
    "pattern", ["*a" * 40 + "b", "**/" * 40 + "*a" * 40 + "b", "*" * 200 + "b"]
)
async def test_a_glob_of_many_stars(native: Stage, pattern: str) -> None:
    name = "a" * 200
    async with asyncio.timeout(SECONDS):
        record = await native.run(
            ["sh", "-c", f"mkdir d; echo 1 > {name}; echo 2 > d/{name}b"], output_glob=[pattern]
        )
    assert record["state"] == "Complete"
    kept = native.server.files(record["output"])
    assert set(kept) == ({f"d/{name}b"} if pattern.startswith("**/") else set())


@pytest.mark.attack("an output of a terabyte that takes no room on the disk")
async def test_a_sparse_terabyte(native: Stage) -> None:
    async with asyncio.timeout(SECONDS):
        record = await native.run(
            ["dd", "if=/dev/zero", "of=/out/large", "bs=1", "count=1", "seek=999999999999"]
        )
    assert record["state"] == "Complete", record["runtime_status"]
    (text,) = (
        one["manifest_text"]
        for one in native.server.collections.values()
        if one["portable_data_hash"] == record["output"]
    )
    ((path, file),) = filetree.files(filetree.from_manifest(text))
    assert (path, file.size) == ("large", 10**12)
    assert len({segment.locator for segment in file.segments}) == 2


@pytest.mark.attack(
    "an output of a little data in each of very many blocks of zeros, "
    "and a cancel while it is saved"
)
async def test_cancelling_while_a_large_output_is_saved(native: Stage) -> None:
    write = "dd if=/dev/zero of=/out/large bs=1 count=1 conv=notrunc seek=$((i << 26))"
    record, pidfd = await native.start(
        ["sh", "-c", f"i=0; while [ $i -lt 600 ]; do {write}; i=$((i + 1)); done"]
    )
    while not any(call in ("POST block", "PUT block") for call in native.server.calls):
        await asyncio.sleep(0.01)
    began = time.monotonic()
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await native.over(pidfd)
    assert time.monotonic() - began < ENDING
    assert (record["state"], record.get("exit_code"), record["output"]) == ("Cancelled", None, None)
    assert "cancelled while its output was saved" in record["runtime_status"]["warning"]
    assert b"Cancelled" in native.server.files(record["log"])["crunch-run.txt"]


@pytest.mark.attack(
    "an output of very many empty files, and a cancel while it is looked at and saved"
)
async def test_cancelling_while_very_many_files_are_saved(native: Stage) -> None:
    record, pidfd = await native.begun(
        ["sh", "-c", "echo up; while [ ! -e /out/go ]; do sleep 0.05; done"]
    )
    output = native.parent.run / CONTAINER / "mounts" / "1"
    await asyncio.to_thread(_fill, output, 200_000)
    (output / "go").touch()
    while not _has_ended(native):
        await asyncio.sleep(0.01)
    began = time.monotonic()
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    while record["state"] == "Running":
        await asyncio.sleep(0.01)
    assert time.monotonic() - began < ENDING
    assert record["state"] == "Cancelled"
    await native.over(pidfd)


@pytest.mark.attack(
    "a server that is away while a container ends, and an operator who says stop twice"
)
async def test_stopping_while_the_server_is_away(native: Stage, tmp_path: Path) -> None:
    socket = tmp_path / "other.sock"
    native.assignment |= {"api_socket": str(socket), "unreachable_timeout": 600.0}
    async with serving(native.server, uds=str(socket)):
        record, pidfd = await native.begun(
            ["sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"]
        )
    socket.unlink(missing_ok=True)
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    while not _has_ended(native):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    began = time.monotonic()
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await native.over(pidfd)
    assert time.monotonic() - began < ENDING
    assert record["state"] == "Running"


def _has_ended(stage: Stage) -> bool:
    log = stage.parent.run / CONTAINER / "log" / "crunch-run.txt"
    return "the command ended" in log.read_text()


def _fill(directory: Path, count: int) -> None:
    for number in range(count):
        (directory / f"{number:07}").touch()
