"""The log of one container while it grows: files in the run directory (dispatch-contract A.7, A.8).

Each line starts with a UTC timestamp of nine fractional digits and a blank, put there when the line starts; parts of
lines are written through at once. The data is on disk, so the size of a log does not matter to memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lading.core.timestamps import format_time
from lading.telemetry import redact

Clock = Callable[[], datetime]
SUPERVISOR = "crunch-run.txt"
STDOUT = "stdout.txt"
STDERR = "stderr.txt"
USAGE = "crunchstat.txt"
NODE = "node-info.txt"
RECORD = "container.json"
LIVE = (SUPERVISOR, STDOUT, STDERR, USAGE)
"""The files that grow, and are shown while they do."""
_CHUNK = 1 << 16


class StampedFile:
    """A file whose lines get the time when they begin."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = path.open("ab", buffering=0)
        self._clock = clock
        self._at_start = True
        self.size = 0

    def write(self, data: bytes) -> None:
        """Add bytes as they come."""
        if not data:
            return
        stamp = format_time(self._clock()).encode() + b" "
        body = data.removesuffix(b"\n")
        ended = len(body) < len(data)
        text = body.replace(b"\n", b"\n" + stamp) + (b"\n" if ended else b"")
        if self._at_start:
            text = stamp + text
        self._at_start = ended
        self._file.write(text)
        self.size += len(text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Log:
    """The log directory of one container."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self._clock = clock
        self._streams: dict[str, StampedFile] = {}
        self.grown = asyncio.Event()
        """Set whenever one of the files has grown."""

    def stream(self, name: str) -> StampedFile:
        """The growing file `name`; made when it is first asked for."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = StampedFile(self.directory / name, self._clock)
        return found

    def say(self, text: str) -> None:
        """Add a line to the supervisor's own log. Tokens are blotted out."""
        self.stream(SUPERVISOR).write(redact(text).encode("utf-8", "backslashreplace") + b"\n")
        self.grown.set()

    def put(self, name: str, content: bytes) -> None:
        """Write a file that does not grow."""
        (self.directory / name).write_bytes(content)

    def size(self, name: str) -> int:
        """Bytes of the growing file `name` so far."""
        found = self._streams.get(name)
        return found.size if found else 0

    def close(self) -> None:
        """Close all files."""
        for one in self._streams.values():
            one.close()


class Pump:
    """Moves what arrives in a pipe to a growing file of the log, from the event loop, until the other end closes."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._stream = log.stream(name)
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def handed_over(self) -> None:
        """Close this process's copy of the writing end, once the container has its own."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    async def finish(self, timeout: float) -> bool:
        """Wait until all has been read; False when somebody still holds the other end after `timeout` seconds."""
        self.handed_over()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), timeout)
        ended = self._ended.is_set()
        if not ended:
            self._end()
        return ended

    def _read(self) -> None:
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._end()
            return
        self._stream.write(data)
        self._log.grown.set()

    def _end(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self._ended.set()
