"""How much memory commands take for what is large: a log of 1.4 GB, a million files.

Each command is a whole process; the kernel says how much it had at most (`VmHWM`). The large log is
one that a container has written; the files are on a file system of their own where there is a loop
device, gone afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure
from bench.requests import submit
from bench.service import connected, serving

MOST_PUT: Final = 300.0
MOST_LOG: Final = 150.0
_LADING: Final = (sys.executable, "-m", "lading")
_LINE: Final = 100
_STAMP: Final = 31
_PATIENCE: Final = 900.0
_LOOK: Final = 0.02
_INODE: Final = 512
_BLOCK: Final = 1024
_LARGER: Final = 4096


def measure(*, files: int, log_size: int) -> list[Figure]:
    """The most memory of each command. Raises RuntimeError when one fails."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            kept = {**environment, "XDG_CACHE_HOME": str(work / "cache"), "HOME": folder}
            if log_size:
                figures += _logs(kept, log_size)
            if files:
                with _file_system(work / "files", files) as place:
                    figures += _puts(place, kept, files)
    return figures


def _logs(environment: dict[str, str], size: int) -> list[Figure]:
    uuid = asyncio.run(_write_log(environment, size))
    asked = {
        "logs": (),
        "logs -t": ("-t",),
        "logs --json": ("--json",),
        "logs --file stdout.txt": ("--file", "stdout.txt"),
        "logs -f": ("-f",),
    }
    return [
        _figure(
            f"lading request {what}, {size >> 20} MiB",
            ("request", "logs", *more, uuid),
            environment,
            MOST_LOG,
        )
        for what, more in asked.items()
    ]


async def _write_log(environment: dict[str, str], size: int) -> str:
    """The uuid of a request whose container has written a log of that size."""
    image = await asyncio.to_thread(_add_image, environment)
    command = [
        "sh",
        "-c",
        f"yes {'x' * (_LINE - 1)} | head -n {size // (_LINE + _STAMP)}; echo end >&2",
    ]
    async with connected(environment) as client:
        uuid = await submit(client, image, command)
        async with asyncio.timeout(_PATIENCE):
            while (await client.get("container_requests", uuid))["state"] != "Final":
                await asyncio.sleep(1.0)
    return uuid


def _add_image(environment: dict[str, str]) -> str:
    command = [
        *_LADING,
        "image",
        "add",
        "--from-host",
        "sh",
        "yes",
        "head",
        "--name",
        "bench:2",
        "--json",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["pdh"])


def _puts(place: Path, environment: dict[str, str], files: int) -> list[Figure]:
    many, wide = place / "many", place / "wide"
    _make(many, files, per_folder=1000)
    figures = [
        _figure(f"lading put, {files:,} files", ("put", str(many)), environment, MOST_PUT),
        _figure("lading put, the same again", ("put", str(many)), environment, MOST_PUT),
    ]
    _make(wide, files // 5, per_folder=files, size=_LARGER)
    what = f"lading put, {files // 5:,} files of {_LARGER >> 10} KiB in one directory"
    return [*figures, _figure(what, ("put", str(wide)), environment, MOST_PUT)]


def _make(folder: Path, count: int, *, per_folder: int, size: int = 0) -> None:
    """Write files with their number, of at least `size` bytes."""
    for number in range(count):
        if number % per_folder == 0:
            here = folder / f"folder {number // per_folder}"
            here.mkdir(parents=True)
            descriptor = os.open(here, os.O_RDONLY)
        name = f"sample-{number:09}.txt"
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=descriptor)
        os.write(file, b"%d\n" % number + bytes(size))
        os.close(file)
        if number % per_folder == per_folder - 1 or number == count - 1:
            os.close(descriptor)


def _figure(
    name: str, arguments: Sequence[str], environment: dict[str, str], most: float
) -> Figure:
    began = time.perf_counter()
    peak = _peak(arguments, environment)
    return Figure(
        name=name,
        unit="MB",
        count=1,
        rate=peak,
        target=f"<= {most:g} MB",
        met=peak <= most,
        note=f"{time.perf_counter() - began:.0f} s",
    )


def _peak(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """The most memory that a command had, MB. Raises RuntimeError when it fails."""
    most = 0.0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            (*_LADING, *arguments),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        # What the kernel tells of an ended process counts what it had of ours before its program
        # began.
        while process.poll() is None:
            most = max(most, _high_water(process.pid))
            time.sleep(_LOOK)
        if process.returncode:
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-500:]
            raise RuntimeError(f"lading {' '.join(arguments)} failed: {words}")
    return most


def _high_water(pid: int) -> float:
    """The most memory that a process has had so far (VmHWM), MB; 0.0 for one that ends."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    return 0.0


@contextlib.contextmanager
def _file_system(place: Path, files: int) -> Iterator[Path]:
    """A file system for so many small files; a directory where none can be mounted."""
    place.mkdir()
    image = place.with_suffix(".img")
    room = int(files * 1.3 * (2 * _BLOCK + _INODE)) + (64 << 20)
    with image.open("wb") as file:
        file.truncate(room)
    made = ["mkfs.ext4", "-q", "-O", "^has_journal", "-b", str(_BLOCK), "-I", "256"]
    try:
        subprocess.run(
            [*made, "-N", str(int(files * 1.3) + 10_000), str(image)],
            check=True,
            capture_output=True,
        )
        subprocess.run(
            ["mount", "-o", "loop", str(image), str(place)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        image.unlink()
        yield place
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        image.unlink()
