"""Saving large outputs: one of very many files and one of very many bytes.

The clock runs from the end of the command until the container is Complete, the log saved too. The
floor is hashing the same number of bytes once, as nothing can be stored that was not; for many
files it is reading and hashing files of the same size. The memory is the most that the supervisor
ever had (VmHWM), pages shared with the warm parent included.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figure
from bench.requests import Watch, submit
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_file
from lading.core.data import filetree
from lading.core.quantities import parse_time

MANY = """
i=0
while [ $i -lt $0 ]; do
    [ $((i % 1000)) -eq 0 ] && d=$((i / 1000)) && mkdir $d
    echo "this is file $i of many" > $d/$i
    i=$((i + 1))
done
"""
LARGE = "head -c $0 /dev/urandom > large"
SHARE = 0.6
MEMORY = 100.0
_MIB = 1 << 20
_RAM = 8 << 30
"""Of the container: what it has written is in its memory, and is read from there. With less, the
disk is measured.
"""
_SAMPLE = 1 << 30
_PIECE = 1 << 20
_LIMIT = 600.0
_ENDED = "the command ended"


def measure(*, files: int, size: int) -> list[Figure]:
    """Both outputs, each against its floor. Raises RuntimeError when one was not saved whole."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            return asyncio.run(_lading(environment, work, files, size))


async def _lading(environment: dict[str, str], work: Path, files: int, size: int) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        figures = await _measure(client, watch, image, work, files=files, size=size)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return figures


async def _measure(
    client: ApiClient, watch: Watch, image: str, work: Path, *, files: int, size: int
) -> list[Figure]:
    data = work / "data"
    hashing = await asyncio.to_thread(_hash_large, work, min(size, _SAMPLE))
    seconds, memory, found = await _run(client, watch, image, data, [LARGE, str(size)])
    if found != (1, size):
        raise RuntimeError(f"the large output has {found[0]} files of {found[1]} bytes")
    figures = [
        Figure(name="hashing alone, one large file", unit="MB/s", count=1, rate=hashing / 1e6),
        _rate(
            f"output of {size / 1e9:.1f} GB saved",
            size / seconds / 1e6,
            "MB/s",
            floor=hashing / 1e6,
        ),
        _memory(f"memory of its supervisor, {size / 1e9:.1f} GB", memory),
    ]
    reading = await asyncio.to_thread(_hash_many, work, files)
    seconds, memory, found = await _run(client, watch, image, data, [MANY, str(files)])
    if found[0] != files:
        raise RuntimeError(f"the output of many files has {found[0]} of {files}")
    return [
        *figures,
        Figure(name="reading and hashing files alone", unit="files/s", count=files, rate=reading),
        _rate(f"output of {files} files saved", files / seconds, "files/s", floor=reading),
        _memory(f"memory of its supervisor, {files} files", memory),
    ]


def _rate(name: str, rate: float, unit: str, *, floor: float) -> Figure:
    target, share = f">= {SHARE * 100:.0f} % of hashing", rate / floor
    note = f"{100 * share:.0f} % of hashing alone"
    return Figure(
        name=name, unit=unit, count=1, rate=rate, target=target, met=share >= SHARE, note=note
    )


def _memory(name: str, size: float) -> Figure:
    return Figure(
        name=name,
        unit="MB",
        count=1,
        rate=size / 1e6,
        target=f"<= {MEMORY:g} MB",
        met=size / 1e6 <= MEMORY,
    )


async def _run(
    client: ApiClient, watch: Watch, image: str, data: Path, command: list[str]
) -> tuple[float, float, tuple[int, int]]:
    """Seconds to save the output of a shell script, bytes of memory, and the number and size of its
    files.
    """
    uuid = await submit(client, image, ["sh", "-c", *command], ram=_RAM)
    watching = asyncio.create_task(_watch_memory(data / "run", set(_supervisors(data / "run"))))
    await watch.end(uuid, limit=_LIMIT)
    watching.cancel()
    memory = (await asyncio.gather(watching, return_exceptions=True))[0]
    request = await client.get("container_requests", uuid)
    container = await client.get("containers", request["container_uuid"])
    if container["state"] != "Complete" or container["exit_code"] != 0:
        raise RuntimeError(
            f"{container['uuid']} ended {container['state']}: {container['runtime_status']}"
        )
    blocks = BlockClient(client.transport, client.token)
    ended = parse_time(await _line(client, blocks, container["log"], _ENDED)).timestamp()
    seconds = parse_time(container["modified_at"]).timestamp() - ended
    record = await client.get("collections", request["output_uuid"])
    sizes = [
        file.size for _, file in filetree.files(filetree.from_manifest(record["manifest_text"]))
    ]
    return seconds, float(memory) if isinstance(memory, int) else 0.0, (len(sizes), sum(sizes))


async def _line(client: ApiClient, blocks: BlockClient, log: str, text: str) -> str:
    """The time stamp of the line of the supervisor's log that has this text."""
    record = await client.get("collections", log)
    file = dict(filetree.files(filetree.from_manifest(record["manifest_text"])))["crunch-run.txt"]
    said = b"".join([piece async for piece in read_file(blocks, file)]).decode()
    return next(line.split(" ", 1)[0] for line in said.splitlines() if text in line)


async def _watch_memory(run: Path, known: set[int]) -> int:
    """The most memory of the one new supervisor, until cancelled."""
    most = 0
    try:
        while True:
            for pid in set(_supervisors(run)) - known:
                most = max(most, _high_water(pid))
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        return most


def _supervisors(run: Path) -> list[int]:
    found = []
    for lock in run.glob("*/lock"):
        try:
            found.append(int(json.loads(lock.read_text())["PID"]))
        except (OSError, ValueError):
            continue
    return found


def _high_water(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _hash_large(work: Path, size: int) -> float:
    """Bytes hashed a second, of a file that was just written."""
    path = work / "hashed"
    with path.open("wb") as file:
        for _ in range(0, size, _PIECE):
            file.write(os.urandom(_PIECE))
    try:
        return size / _timed(lambda: _hash(path))
    finally:
        path.unlink()


def _hash_many(work: Path, count: int) -> float:
    """Small files read and hashed a second."""
    folder = work / "many"
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).write_text(f"this is file {number} of many\n")
    try:
        return count / _timed(lambda: _hash_all(folder, count))
    finally:
        shutil.rmtree(folder)


def _hash_all(folder: Path, count: int) -> None:
    for number in range(count):
        _hash(folder / str(number))


def _hash(path: Path) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while data := file.read(_PIECE):
            digest.update(data)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
