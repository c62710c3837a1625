"""What a call of the command line costs before and beside its work, in processor time.

In turns with two floors: Python alone, and Python with the common HTTP library imported. A server
of its own runs meanwhile; its processor time does not count.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Figure, percentile
from bench.service import add_image, serving

# Milliseconds of processor time that a call may cost.
_LIMIT = 120.0
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
            "lading request list": [*lading, "request", "list"],
            "lading wait": [*lading, "wait", "first"],
            "lading run, reused": run,
            "lading map, reused": [*lading, "map", "-i", __file__, "--image", image, "--", "true"],
        }
        used: dict[str, list[float]] = {name: [] for name in (*_FLOORS, *commands)}
        for name in ("lading run, reused", "lading map, reused"):
            _processor_time(commands[name], environment)
        for _ in range(rounds):
            for name, command in (_FLOORS | commands).items():
                used[name].append(_processor_time(command, environment))
    return [
        _figure(name, found, is_promise=name in commands and name != "lading --version")
        for name, found in used.items()
    ]


def _processor_time(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Seconds of one call. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figure(name: str, seconds: Sequence[float], *, is_promise: bool) -> Figure:
    half, most = percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000
    return Figure(
        name=f"{name}, processor time",
        unit="ms",
        count=len(seconds),
        p50=half,
        p99=most,
        target=f"p50 <= {_LIMIT:g} ms" if is_promise else "",
        met=half <= _LIMIT if is_promise else None,
    )
