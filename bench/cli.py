"""What a call of the command line costs beside its work: processor time and wall time.

In turns with two floors, Python alone and with the common HTTP library imported, and with two
peers where they are installed: `docker ps`, `uv --version`. A server of its own runs meanwhile; its
processor time does not count, its wall time does.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, percentile
from bench.service import add_image, serving

# Milliseconds of processor time, and of wall time, that a call may cost.
_LIMIT = 120.0
# Milliseconds of wall time for what needs no server.
_AT_ONCE = 60.0
_FLOORS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import aiohttp'": [sys.executable, "-c", "import aiohttp"],
}


def measure(*, rounds: int) -> list[Figure]:
    """The figures of `rounds` calls of each command."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as environment:
        image = add_image(environment)
        lading = [sys.executable, "-m", "lading"]
        # The first call computes; the others find its result.
        run = [*lading, "run", "--name", "first", "--image", image, "--", "true"]
        commands = {
            "lading --version": [*lading, "--version"],
            "lading --help": [*lading, "--help"],
            "lading run --help": [*lading, "run", "--help"],
            "completion": [*lading, "request", "l"],
            "lading request list": [*lading, "request", "list"],
            "lading wait": [*lading, "wait", "first"],
            "lading run, reused": run,
            "lading map, reused": [*lading, "map", "-i", __file__, "--image", image, "--", "true"],
        }
        peers = {" ".join(one): one for one in _PEERS if shutil.which(one[0])}
        programs = {**_FLOORS, **peers, **commands}
        calls: dict[str, list[_Call]] = {name: [] for name in programs}
        completing = {**environment, "_LADING_COMPLETE": "bash_complete", "COMP_CWORD": "2",
                      "COMP_WORDS": "lading request l"}  # fmt: skip
        for name in ("lading run, reused", "lading map, reused"):
            _call(commands[name], environment)
        for _ in range(rounds):
            for name, command in programs.items():
                variables = completing if name == "completion" else environment
                # A peer without its service says so, and exits with 1.
                calls[name].append(_call(command, variables, check=name not in peers))
    return [figure for name, made in calls.items() for figure in _figures(name, made, commands)]


_PEERS = (["docker", "ps"], ["uv", "--version"])
_NO_SERVER = ("lading --version", "lading --help", "lading run --help", "completion")


@dataclass(frozen=True, slots=True)
class _Call:
    """Seconds of one call."""

    processor: float
    wall: float


def _call(command: Sequence[str], environment: Mapping[str, str], *, check: bool = True) -> _Call:
    """Call it once. Raises CalledProcessError."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=environment, check=check, capture_output=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Call(used, wall)


def _figures(name: str, calls: Sequence[_Call], ours: Iterable[str]) -> list[Figure]:
    limit = (_AT_ONCE if name in _NO_SERVER else _LIMIT) if name in ours else 0.0
    return [
        _figure(f"{name}, processor time", [one.processor for one in calls], limit),
        _figure(f"{name}, wall time", [one.wall for one in calls], limit),
    ]


def _figure(name: str, seconds: Sequence[float], limit: float) -> Figure:
    half, most = percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000
    return Figure(
        name=name,
        unit="ms",
        count=len(seconds),
        p50=half,
        p99=most,
        target=f"p50 <= {limit:g} ms" if limit else "",
        met=half <= limit if limit else None,
    )
