"""The daemon of HPC containers: memory and processor time beside the code, its start, its end of
1,000 processes.

The daemon is the packed one, as images have it, on a plain Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, durations
from lading.hpc.conductor import FOLLOW_TIME, PERIOD
from lading.hpc.daemon_client import DaemonClient
from lading.hpc.package import write_package
from tests.hpc_daemon import Rig, until

MEMORY, IDLE, READY = 40.0, 0.1, 1000.0
"""MiB resident, percent of a core while the code runs, milliseconds."""
_CHILDREN = 1000


def measure(*, starts: int = 5, seconds: float = 30.0) -> list[Figure]:
    """The rows. `seconds`: how long the daemon is watched while the code runs."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "daemon"
        with program.open("wb") as file:
            write_package(file)
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
        command = (python, str(program))
        began = [_start(Path(folder) / f"start{number}", command) for number in range(starts)]
        rig = Rig(Path(folder) / "root", program=command)
        rig.up()
        try:
            used, memory = _beside(rig, seconds)
            rig.down()
            ended, left = _end_all(Path(folder) / "many", command)
        finally:
            rig.down()
    return rows(began, used=used, memory=memory, ended=ended, left=left)


def rows(
    began: list[float], *, used: float, memory: float, ended: float, left: int
) -> list[Figure]:
    """The rows of the report: seconds of starts, percent of a core, MiB, seconds and processes left
    of the kill.
    """
    return [
        durations("HPC daemon: start to ready", began, p50_limit=READY),
        Figure(
            name="HPC daemon: resident memory beside the code", unit="MiB", count=1, rate=memory,
            target=f"<= {MEMORY:g} MiB", met=memory <= MEMORY,
        ),
        Figure(
            name="HPC daemon: of a core while the code runs, followed", unit="%", count=1,
            rate=used, target=f"< {IDLE:g} %", met=used < IDLE, note=f"{used:.4f} %",
        ),
        Figure(
            name=f"HPC daemon: kill of {_CHILDREN} descendants", unit="s", count=1, rate=ended,
            target="none left", met=left == 0, note=f"{left} left",
        ),
    ]  # fmt: skip


def _start(root: Path, command: tuple[str, ...]) -> float:
    rig = Rig(root, program=command)
    began = time.monotonic()
    rig.up()
    try:
        rig.query()
        return time.monotonic() - began
    finally:
        rig.down()


def _beside(rig: Rig, seconds: float) -> tuple[float, float]:
    """Percent of a core, and MiB resident, while code runs, followed all the time as a conductor
    does it.
    """
    rig.code("exec sleep 1000")
    rig.start()
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    return asyncio.run(_follow(rig, caller, seconds)), statistics.mean(
        [_resident(rig), _resident(rig)]
    )


async def _follow(rig: Rig, caller: DaemonClient, seconds: float) -> float:
    """Percent of a core that the daemon took meanwhile, without the making of the connection."""
    known, _ = await caller.follow("", wait=0)
    known, _ = await caller.follow(known, wait=1)
    before = _busy(rig)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                known, _ = await caller.follow(known, wait=FOLLOW_TIME)
                await asyncio.sleep(PERIOD)
    caller.close()
    return (_busy(rig) - before) / seconds * 100


def _end_all(root: Path, command: tuple[str, ...]) -> tuple[float, int]:
    """Seconds that the kill of many took that ignore TERM, and how many of them are left."""
    rig = Rig(root, program=command)
    rig.up()
    mark = f"100{os.getpid()}"
    rig.code(
        f"trap '' TERM; for i in $(seq {_CHILDREN // 2}); "
        f"do (setsid sleep {mark} & exec sleep {mark}) & done; "
        f"while [ $(pgrep -cf 'sleep {mark}') -lt {_CHILDREN} ]; do sleep 0.2; done; "
        f"touch {root}/all; wait"
    )
    rig.configure(childFailurePolicy="direct")
    try:
        rig.start()
        until((root / "all").exists, patience=120)
        began = time.monotonic()
        rig.command("kill")
        return time.monotonic() - began, _named(mark)
    finally:
        rig.down()


def _named(mark: str) -> int:
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += path.read_bytes() == f"sleep\0{mark}\0".encode()
        except OSError:
            continue
    return count


def _busy(rig: Rig) -> float:
    assert rig.process is not None
    # Nanoseconds, where the usual account has hundredths of a second.
    return int(Path(f"/proc/{rig.process.pid}/schedstat").read_text().split()[0]) / 1e9


def _resident(rig: Rig) -> float:
    assert rig.process is not None
    text = Path(f"/proc/{rig.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024
