"""A collection of very many files: opened, listed and changed, beside the unmodified Arvados client
on the same one.

    python -m bench.collections PATH     in a process of its own: opens the manifest in a file;
    prints seconds and MB

Opening is from the text to a tree that can be walked; it waits for nothing, so processor time is
what counts. Its memory is the most that the process ever had, the text and Python itself included.
Changing is one `replace_files` that moves, copies and deletes; the server changes the whole
manifest and writes it.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.figures import Figure, absent, durations
from bench.service import connected, serving
from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.core.data import filetree
from tests.system.arvados_client.environment import client_environment

OPEN_LIMIT = 1000.0
MEMORY_LIMIT = 200.0
_FILES_PER_DIRECTORY = 1000
_FILE = 4096
_ROUNDS = 5
_PEER = """
import sys, time
import arvados, arvados.collection
api = arvados.api("v1")
record = api.collections().get(uuid=sys.argv[1]).execute()
for _ in range(3):
    began = time.process_time()
    opened = arvados.collection.CollectionReader(record["manifest_text"], api_client=api)
    opened.find("./directory00000/file00000000.dat")
    print(time.process_time() - began)
"""


def measure(*, files: int) -> list[Figure]:
    """Everything about one collection of so many files. Raises RuntimeError when a result is not as
    it should be.
    """
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            return asyncio.run(_measure(environment, work, files))


async def _measure(environment: dict[str, str], work: Path, files: int) -> list[Figure]:
    async with connected(environment) as api:
        record = await _store(api, files)
        text = work / "manifest"
        text.write_text(record["manifest_text"])
        figures = await asyncio.to_thread(_open, text, files)
        figures.append(await asyncio.to_thread(_open_by_peer, environment, record["uuid"]))
        figures += await _on_the_server(api, record, files)
    return figures


async def _store(api: ApiClient, files: int) -> Record:
    """A collection of small files, a thousand to a directory and to a block."""
    blocks, nodes = BlockClient(api.transport, api.token), dict[str, filetree.Node]()
    for start in range(0, files, _FILES_PER_DIRECTORY):
        count = min(_FILES_PER_DIRECTORY, files - start)
        data = b"".join(
            hashlib.sha256(b"%d" % (start + one)).digest() * (_FILE // 32) for one in range(count)
        )
        locator = await blocks.put(data)
        for one in range(count):
            path = f"directory{start // _FILES_PER_DIRECTORY:05d}/file{start + one:08d}.dat"
            nodes[path] = filetree.File((filetree.Segment(locator, one * _FILE, _FILE),))
    text = filetree.to_manifest(filetree.from_files(nodes))
    made = await api.create("collections", {"manifest_text": text, "name": "very many files"})
    if (made["file_count"], made["file_size_total"]) != (files, files * _FILE):
        raise RuntimeError(f"stored {made['file_count']} files of {files}")
    return made


def _open(text: Path, files: int) -> list[Figure]:
    floors, seconds, memory = [], [], []
    for _ in range(_ROUNDS):
        command = [sys.executable, "-m", "bench.collections", str(text)]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        if found["files"] != files:
            raise RuntimeError(f"opened {found['files']} files of {files}")
        floors.append(found["floor"])
        seconds.append(found["seconds"])
        memory.append(found["megabytes"])
    most = max(memory)
    size = text.stat().st_size / 1e6
    return [
        durations(
            f"split {size:.1f} MB of manifest", floors, note="the floor: into words, nothing else"
        ),
        durations(f"open {files} files", seconds, p50_limit=OPEN_LIMIT),
        Figure(
            name=f"open {files} files, memory", unit="MB", count=len(memory), p50=most,
            met=most <= MEMORY_LIMIT, target=f"<= {MEMORY_LIMIT:g} MB",
            note="MB in all, the most of any run (not ms)",
        ),
    ]  # fmt: skip


def _open_by_peer(environment: dict[str, str], uuid: str) -> Figure:
    name = "the same, arvados-python-client"
    try:
        python = client_environment() / "python"
        command = [str(python), "-c", _PEER, uuid]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=True
        )
    except (AssertionError, subprocess.SubprocessError) as error:
        return absent(name, f"could not be run: {str(error)[-200:]}")
    return durations(
        name, [float(line) for line in done.stdout.split()], note="CollectionReader and one find"
    )


async def _on_the_server(api: ApiClient, record: Record, files: int) -> list[Figure]:
    path = f"/c={record['uuid']}"
    changes = iter(
        {
            f"/moved{number}": "current/directory00000/file00000000.dat",
            f"/copied{number}": "current/directory00000",
            f"/moved{number - 1}": "",
            f"/copied{number - 1}": "",
        }
        for number in range(1, 1000)
    )

    async def get() -> None:
        await api.get("collections", record["uuid"], select=["manifest_text"])

    async def change() -> None:
        body = {"replace_files": next(changes), "select": ["file_count"]}
        found = await api.request("PUT", f"collections/{record['uuid']}", body=body)
        if found["file_count"] != files + 1 + min(files, _FILES_PER_DIRECTORY):
            raise RuntimeError(f"a change left {found['file_count']} files")

    async def list_directory() -> None:
        await _call(api, "PROPFIND", f"{path}/directory00000/", 207, depth="1")

    async def read() -> None:
        await _call(api, "GET", f"{path}/directory00000/file00000001.dat", 200)

    put = iter(range(1000))

    async def write() -> None:
        await _call(api, "PUT", f"{path}/new{next(put)}", 201, body=b"x" * _FILE)

    return [
        await _timed("get its manifest, signed", get),
        await _timed("replace_files in it", change),
        await _timed("PROPFIND a directory of 1000 files", list_directory),
        await _timed("GET a file of 4 KiB", read),
        await _timed("PUT a file of 4 KiB", write),
    ]


async def _call(
    api: ApiClient, method: str, path: str, status: int, *, body: bytes = b"", **headers: str
) -> None:
    sent = {**api.headers, **headers}
    answer = await api.transport.request(method, path, headers=sent, body=body)
    if answer.status != status:
        raise RuntimeError(f"{method} {path}: {answer.status} {answer.body[:200]!r}")


async def _timed(name: str, work: Callable[[], Awaitable[None]]) -> Figure:
    seconds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await work()
        seconds.append(time.perf_counter() - began)
    return durations(name, seconds)


def _open_here(path: Path) -> dict[str, float]:
    text = path.read_text()
    began = time.process_time()
    words = [line.split(" ") for line in text.split("\n")]
    floor = time.process_time() - began
    del words
    gc.collect()
    began = time.process_time()
    tree = filetree.from_manifest(text)
    seconds = time.process_time() - began
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0])
    count = sum(1 for _ in filetree.files(tree))
    return {"seconds": seconds, "floor": floor, "megabytes": peak * 1024 / 1e6, "files": count}


if __name__ == "__main__":
    print(json.dumps(_open_here(Path(sys.argv[1]))))
