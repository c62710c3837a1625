"""`lading mount` against unmodified `arv-mount`: the same server, in turns, in one run.

A turn is a new mount with an empty cache of its own, of each kind; who goes first alternates. Each
reads a large file of its own, as large and as random as the other's, 1 MiB at a time into memory
that is there. Before a reading both find the same:

    case            server's blocks    the mount's own cache     kernel's pages of the mounted file
    cold            put, never read    empty                     none
    warm            not asked          filled by `cold`          as `cold` left them
    kernel empty    not asked          filled by `cold`          let go (POSIX_FADV_DONTNEED)

The kernel of the server's machine has let go of its pages of what was put. What a mount keeps in
its own cache is as its own first reading left it; both keep files, whose pages the kernel may have,
and arv-mount has them mapped. `random` and `readers` begin as `kernel empty` does. What is promised
is the ratio of the medians.

Server and mounts are on one machine here: the server lends `lading mount` its files
(`lading.blobs.fd_passing`), as for anybody whose server is on his machine; the mount hashes what is
lent and does not keep it a second time. The rows `over HTTPS` are those of a mount that knows of no
such server, as one on another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.figures import Figure, absent
from bench.service import connected, serving
from lading.client.mount import mount_points
from tests.system.arvados_client.environment import client_environment

_MIB = 1 << 20
_PIECE = 1 << 20
_PATIENCE = 60.0
_END = 5.0
_RANDOM_READS = 2000
_READERS = 4
_MANY = 100_000
_SMALL = 4096
_BLOCK = "?" * 32
_FAST = 1.5
_OPEN_LIMIT = 1.0
_MEMORY_LIMIT = 200 * _MIB
_LADING = (sys.executable, "-m", "lading")


@dataclass(frozen=True)
class Scene:
    """A server's environment, and the portable data hashes of what is read."""

    environment: dict[str, str]
    small: str
    many: str


@dataclass
class Turns:
    """Seconds by what was measured, of the clock and of the mount's processor; the most memory it
    took, in bytes.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, list[float]] = field(default_factory=dict)
    memory: int = 0

    def time(self, name: str, pid: int, work: Callable[[], object]) -> None:
        """Measure one piece of work, for which the process `pid` serves."""
        before, began = _busy(pid), time.perf_counter()
        work()
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)
        self.busy.setdefault(name, []).append(_busy(pid) - before)

    def median(self, name: str) -> float:
        """The usual one."""
        return statistics.median(self.seconds[name])

    def median_busy(self, name: str) -> float:
        """As `median`, of the processor."""
        return statistics.median(self.busy[name])


def measure(*, size: int, files: int, turns: int) -> list[Figure]:
    """Read a file of `size` MiB and `files` small files; the rows."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return [absent("lading mount", "no /dev/fuse")]
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            scene = _prepare(work, environment, files=files)
            ours, theirs, apart = Turns(), Turns(), Turns()
            for number in range(turns):
                kinds = [(ours, _lading), (theirs, _arv), (apart, _lading_apart)]
                for found, mounting in kinds[:: -1 if number % 2 else 1]:
                    place = work / f"{mounting.__name__}{number}"
                    big = _put_large(work, environment, size)
                    with mounting(scene, place) as pid:
                        _forget_blocks(work / "data")
                        _turn(found, place / "mount" / "by_id", scene, big, pid)
    return _rows(ours, theirs, apart, size=size, files=files)


def _prepare(work: Path, environment: dict[str, str], *, files: int) -> Scene:
    chance = random.Random(0)
    small = work / "small"
    small.mkdir()
    for number in range(files):
        (small / f"{number:06}").write_bytes(chance.randbytes(_SMALL))
    stored = _put(environment, small)
    return Scene(environment, small=stored, many=asyncio.run(_make_many(environment, stored)))


def _put_large(work: Path, environment: dict[str, str], size: int) -> str:
    """A collection with a new file `big` of so many MiB."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        with (Path(folder) / "big").open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(_MIB))
        return _put(environment, Path(folder))


def _put(environment: dict[str, str], path: Path) -> str:
    done = subprocess.run(
        [*_LADING, "put", str(path)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"lading put failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


async def _make_many(environment: dict[str, str], small: str) -> str:
    """A collection of very many files, all in one block that is stored already."""
    async with connected(environment) as client:
        record = await client.get("collections", small, select=("uuid", "manifest_text"))
        locator = record["manifest_text"].split(" ")[1]
        tokens = " ".join(
            f"{number}:{1 + number % 9}:d{number // 1000}/file{number:06}"
            for number in range(_MANY)
        )
        made = await client.create(
            "collections", {"manifest_text": f". {locator} {tokens}\n", "name": "many"}
        )
    return str(made["portable_data_hash"])


@contextlib.contextmanager
def _lading(scene: Scene, place: Path) -> Iterator[int]:
    command = [
        *_LADING,
        "mount",
        str(place / "mount"),
        "--foreground",
        "--cache-dir",
        str(place / "cache"),
    ]
    with _mounted(command, place, scene.environment) as process:
        # The command waits for the process that serves.
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


@contextlib.contextmanager
def _lading_apart(scene: Scene, place: Path) -> Iterator[int]:
    """As on another machine: nothing is lent."""
    with _lading(replace(scene, environment=scene.environment | {"LADING_DATA": ""}), place) as pid:
        yield pid


@contextlib.contextmanager
def _arv(scene: Scene, place: Path) -> Iterator[int]:
    program = str(client_environment() / "arv-mount")
    command = [
        program,
        "--foreground",
        "--disk-cache",
        "--disk-cache-dir",
        str(place / "cache"),
        str(place / "mount"),
    ]
    with _mounted(command, place, scene.environment) as process:
        yield process.pid


@contextlib.contextmanager
def _mounted(
    command: list[str], place: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    (place / "mount").mkdir(parents=True)
    (place / "cache").mkdir()
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment | {"HOME": str(place)}, stdout=log, stderr=log
        )
    try:
        limit = time.monotonic() + _PATIENCE
        while not (place / "mount" / "by_id" / "README").exists():
            if process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(
                    f"{command[0]} did not mount: {(place / 'log').read_text().strip()[-500:]}"
                )
            time.sleep(0.05)
        yield process
    finally:
        if mount_points.kind_of(place / "mount"):
            mount_points.unmount(place / "mount")
        process.terminate()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            # arv-mount may wait for ever for a mount that is gone.
            process.kill()
            process.wait()


def _turn(found: Turns, root: Path, scene: Scene, large: str, pid: int) -> None:
    big, small = root / large / "big", root / scene.small
    # First of all, before anything else takes memory.
    found.time("open", pid, lambda: _names(root / scene.many))
    found.memory = max(found.memory, _memory(pid))
    found.time("cold", pid, lambda: _read(big))
    found.time("warm", pid, lambda: _read(big))
    _let_go(big)
    found.time("kernel empty", pid, lambda: _read(big))
    _let_go(big)
    found.time("random", pid, lambda: _read_at_random(big))
    _let_go(big)
    found.time("readers", pid, lambda: _read_in_parts(big))
    find = ["find", str(small), "-type", "f", "-size", "+1"]
    found.time("find", pid, lambda: subprocess.run(find, check=True, stdout=subprocess.DEVNULL))
    found.time("files", pid, lambda: _read_all(small))


def _read(path: Path) -> None:
    room = bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        while file.readinto(room):
            pass


def _forget_blocks(data: Path) -> None:
    """Have the kernel let go of the server's blocks, which are on disk."""
    for path in data.rglob(_BLOCK):
        if path.is_file():
            _let_go(path)


def _let_go(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_at_random(path: Path) -> None:
    chance = random.Random(1)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for _ in range(_RANDOM_READS):
            os.pread(file.fileno(), _SMALL, chance.randrange(size // _SMALL) * _SMALL)


def _read_in_parts(path: Path) -> None:
    with ThreadPoolExecutor(_READERS) as readers:
        list(readers.map(lambda number: _read_part(path, number), range(_READERS)))


def _read_part(path: Path, number: int) -> None:
    with path.open("rb", buffering=0) as file:
        part = os.fstat(file.fileno()).st_size // _READERS
        for at in range(number * part, (number + 1) * part, _PIECE):
            os.pread(file.fileno(), _PIECE, at)


def _read_all(folder: Path) -> None:
    for path in _names(folder):
        path.read_bytes()


def _names(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _busy(pid: int) -> float:
    """Seconds of processor time that the process has taken."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """The most memory that the process has taken, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:")) << 10
    )


def _rows(ours: Turns, theirs: Turns, apart: Turns, *, size: int, files: int) -> list[Figure]:
    megabytes = size * _MIB / 1e6
    rows: list[Figure] = []
    for name, shown in (("cold", "cold"), ("warm", "warm"), ("kernel empty", "warm, kernel empty")):
        rows.append(
            Figure(
                name=f"mount: read {size} MiB, {shown}, over HTTPS (MB/s)",
                unit="/s",
                count=len(apart.seconds[name]),
                rate=megabytes / apart.median(name),
                client=apart.median_busy(name) * 1000,
                note=f"arv-mount {megabytes / theirs.median(name):.1f}",
            )
        )
    for name, shown, amount, least in (
        ("cold", f"read {size} MiB, cold, files lent (MB/s)", megabytes, _FAST),
        ("warm", f"read {size} MiB, warm, files lent (MB/s)", megabytes, _FAST),
        (
            "kernel empty",
            f"read {size} MiB, warm, kernel empty, files lent (MB/s)",
            megabytes,
            _FAST,
        ),
        ("random", "4 KiB at random, warm (reads/s)", _RANDOM_READS, 1.0),
        ("readers", f"{_READERS} readers at once, warm (MB/s)", megabytes, 1.0),
        ("find", f"find in {files} files (files/s)", files, 1.0),
        ("files", f"read {files} files of 4 KiB (files/s)", files, 1.0),
    ):
        mine, other = amount / ours.median(name), amount / theirs.median(name)
        rows.append(
            Figure(
                name=f"mount: {shown}",
                unit="/s",
                count=len(ours.seconds[name]),
                rate=mine,
                target=f">= {least:g} x arv-mount ({other:.1f})",
                met=mine >= least * other,
                client=ours.median_busy(name) * 1000,
                note=f"processor of arv-mount {theirs.median_busy(name) * 1000:.0f} ms",
            )
        )
    taken = ours.median("open")
    rows.append(
        Figure(
            name=f"mount: open {_MANY} files",
            unit="ms",
            count=len(ours.seconds["open"]),
            p50=taken * 1000,
            target=f"< {_OPEN_LIMIT:g} s, < {_MEMORY_LIMIT // _MIB} MiB",
            met=taken < _OPEN_LIMIT and ours.memory < _MEMORY_LIMIT,
            client=ours.median_busy("open") * 1000,
            note=f"{ours.memory >> 20} MiB; arv-mount {theirs.median('open'):.2f} s, "
            f"{theirs.memory >> 20} MiB",
        )
    )
    return rows
