"""Storing and fetching one large file: `lading put` and `lading get` beside `md5sum` and `cp`.

All are whole programs, in turns, with a new file of random bytes each time. The floor is the sum of
`md5sum` and `cp`. The processor time of a command is its own and that of the server.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.figures import Figure, percentile
from bench.service import SERVER_PID, serving

TIMES = 1.2
_LADING = (sys.executable, "-m", "lading")
_LIMIT = 600.0
_PIECE = 1 << 24
_TICK = os.sysconf("SC_CLK_TCK")


class _Taken(msgspec.Struct):
    """Seconds of each run of a program, and of processor time."""

    seconds: list[float]
    processor: list[float]


def measure(*, size: int, rounds: int) -> list[Figure]:
    """The figures of files of `size` bytes. Raises RuntimeError when a program fails, or a file
    that came back differs.
    """
    floor, put, get = (_Taken([], []) for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            server = int(environment[SERVER_PID])
            for number in range(rounds):
                source, copy, target = work / "source", work / "copy", work / "target"
                _make(source, size)
                begun = time.perf_counter()
                used = _children()
                _run(("md5sum", str(source)), environment)
                _run(("cp", str(source), str(copy)), environment)
                floor.seconds.append(time.perf_counter() - begun)
                floor.processor.append(_children() - used)
                copy.unlink()
                kept = {**environment, "XDG_CACHE_HOME": str(work / f"cache{number}")}
                pdh = _timed(put, (*_LADING, "put", str(source)), kept, server)
                _timed(get, (*_LADING, "get", f"{pdh}/source", str(target)), kept, server)
                _run(("cmp", str(source), str(target)), environment)
                target.unlink()
    return _figures(size, floor=floor, put=put, get=get)


def _figures(size: int, *, floor: _Taken, put: _Taken, get: _Taken) -> list[Figure]:
    least = percentile(floor.seconds, 0.5)
    rows = (("md5sum and cp", floor), ("lading put", put), ("lading get", get))
    return [
        Figure(
            name=f"{name}, a file of {size / 2**30:.1f} GiB",
            unit="ms",
            count=len(taken.seconds),
            p50=percentile(taken.seconds, 0.5) * 1000,
            target="" if taken is floor else f"<= {TIMES:g} times md5sum and cp",
            met=None if taken is floor else percentile(taken.seconds, 0.5) <= TIMES * least,
            note=f"{percentile(taken.processor, 0.5):.2f} s of processor time, "
            f"{percentile(taken.seconds, 0.5) / least:.2f} times md5sum and cp",
        )
        for name, taken in rows
    ]


def _make(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, _PIECE):
            file.write(os.urandom(min(_PIECE, size - start)))
        # What is not on the disk yet is not written during the measurement.
        os.fsync(file.fileno())


def _timed(taken: _Taken, command: Sequence[str], environment: dict[str, str], server: int) -> str:
    begun, used = time.perf_counter(), _children() + _tree(server)
    answer = _run(command, environment)
    taken.seconds.append(time.perf_counter() - begun)
    taken.processor.append(_children() + _tree(server) - used)
    return answer.strip()


def _run(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def _children() -> float:
    """Seconds of processor time of the programs that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree(process: int) -> float:
    """Seconds of processor time of a process and its descendants."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    # utime and stime, the 14th and 15th field of the whole line.
    used = (int(fields[11]) + int(fields[12])) / _TICK
    for task in Path(f"/proc/{process}/task").iterdir():
        used += sum(_tree(int(child)) for child in (task / "children").read_text().split())
    return used
