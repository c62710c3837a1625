"""Storing many small files: `lading put` beside the unmodified `arv-put`, against the same server.

Both are whole programs, from their start to their end, each with an empty cache and files that were
never stored, in turns. The floor is reading and hashing the files.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, percentile
from bench.service import serving
from tests.system.arvados_client.environment import client_environment

SIZE = 4096
TIMES = 2.0
_LADING = (sys.executable, "-m", "lading", "put")
_LIMIT = 600.0


def measure(*, files: int, rounds: int) -> list[Figure]:
    """Both programs, `rounds` times each. Raises RuntimeError when one of them fails."""
    arvados = str(client_environment() / "arv-put")
    ours: list[float] = []
    theirs: list[float] = []
    again: list[float] = []
    floors: list[float] = []
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with serving(work / "data") as environment:
            for number in range(rounds):
                mine, other = work / f"ours{number}", work / f"theirs{number}"
                floors.append(_timed_floor(_make(mine, files)))
                _make(other, files)
                kept = {
                    **environment,
                    "XDG_CACHE_HOME": str(work / f"cache{number}"),
                    "HOME": str(work),
                }
                ours.append(_run((*_LADING, str(mine)), kept))
                theirs.append(_run((arvados, "--no-progress", "--no-resume", str(other)), kept))
                again.append(_run((*_LADING, str(mine)), kept))
    return _figures(files, ours=ours, theirs=theirs, again=again, floors=floors)


def _figures(
    files: int,
    *,
    ours: Sequence[float],
    theirs: Sequence[float],
    again: Sequence[float],
    floors: Sequence[float],
) -> list[Figure]:
    rate, peer = files / percentile(ours, 0.5), files / percentile(theirs, 0.5)
    what = f"{files} files of {SIZE // 1024} KiB"
    return [
        Figure(
            name=f"reading and hashing {what}", unit="files/s", count=files,
            rate=files / percentile(floors, 0.5),
        ),
        Figure(name=f"arv-put, {what}", unit="files/s", count=files, rate=peer),
        Figure(
            name=f"lading put, {what}",
            unit="files/s",
            count=files,
            rate=rate,
            target=f">= {TIMES:g} times arv-put",
            met=rate >= TIMES * peer,
            note=f"{rate / peer:.1f} times arv-put, the start of both programs included",
        ),
        Figure(
            name="lading put, the same again", unit="files/s", count=files,
            rate=files / percentile(again, 0.5),
            note="nothing has changed: nothing is read or sent",
        ),
    ]  # fmt: skip


def _make(folder: Path, count: int) -> list[Path]:
    made = []
    for number in range(count):
        path = folder / f"{number // 1000}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(SIZE))
        made.append(path)
    return made


def _timed_floor(paths: Sequence[Path]) -> float:
    began = time.perf_counter()
    for path in paths:
        hashlib.md5(path.read_bytes(), usedforsecurity=False)
    return time.perf_counter() - began


def _run(command: Sequence[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")
    return seconds
