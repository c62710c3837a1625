"""The log of one container while it grows: files in the run directory (docs/spec/containers,
section Log).

Of what the command writes only so much is kept as the limit allows, and the disk: the rest is read
and dropped, so that the command goes on, and the log says so. What the supervisor says is always
kept if there is room.

Each line starts with a UTC timestamp of nine fractional digits and a blank, put there when the line
starts; parts of lines are written through at once. The data is on disk, so the size of a log does
not matter to memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lading.client.disk_space import lacks_room
from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.timestamps import format_time
from lading.telemetry import redact

Clock = Callable[[], datetime]
SUPERVISOR = "crunch-run.txt"
STDOUT = "stdout.txt"
STDERR = "stderr.txt"
USAGE = "crunchstat.txt"
HOST = "hoststat.txt"
NODE = "node-info.txt"
INSTANCE = "node.json"
RECORD = "container.json"
KEEP_MOUNT = "arv-mount.txt"
RANKS = "ranks.txt"
LIVE = (SUPERVISOR, STDOUT, STDERR, USAGE, HOST, RANKS)
"""The files that grow, and are shown while they do."""
_CHUNK = 1 << 16
_LOOK_EVERY = 1 << 20
_TAIL = 1 << 16


def _open_private(path: Path, flags: int) -> int:
    """A descriptor to write a file of its owner's only, whatever the umask, which is that of the
    containers' trees.
    """
    return os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)


class StampedFile:
    """A file whose lines get the time when they begin."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = os.fdopen(_open_private(path, os.O_APPEND), "ab", buffering=0)
        self._clock = clock
        self._at_start = True
        self.size = 0
        self.tail = b""
        """The beginning of what it did not take: what went wrong then is worth knowing."""

    @property
    def closed(self) -> bool:
        """Whether no more is kept, on disk or elsewhere."""
        return len(self.tail) >= _TAIL

    def end_line(self) -> None:
        """Have the next write begin a line."""
        if not self._at_start:
            self.write(b"\n")

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
        written = 0
        if not self.tail:
            # The log of a full disk ends early; the container need not.
            with contextlib.suppress(OSError):
                written = self._file.write(text) or 0
        self.size += written
        self.tail += text[written : written + _TAIL - len(self.tail)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Log:
    """The log directory of one container."""

    def __init__(
        self, directory: Path, clock: Clock, *, limit: int = 0, kept: Amount | None = None
    ) -> None:
        """`limit`: bytes that each stream keeps, 0 is all; `kept`: the reserve of the disk as it is
        configured.
        """
        directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self._clock = clock
        self._streams: dict[str, StampedFile] = {}
        self.grown = asyncio.Event()
        """Set whenever one of the files has grown."""
        self._limit = limit
        self._kept = kept or Amount(AUTOMATIC, AUTOMATIC)
        self._looked: dict[str, int] = {}

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
        with (
            contextlib.suppress(OSError),
            os.fdopen(_open_private(self.directory / name, os.O_TRUNC), "wb") as file,
        ):
            file.write(content)

    def size(self, name: str) -> int:
        """Bytes of the growing file `name` so far."""
        found = self._streams.get(name)
        return found.size if found else 0

    def tails(self) -> dict[str, bytes]:
        """What belongs at the end of files and is not on disk."""
        return {name: one.tail for name, one in self._streams.items() if one.tail}

    def no_room(self, name: str) -> str:
        """Why no more of the command's stream `name` is kept; "" while it is."""
        size = self.size(name)
        if self._limit and size >= self._limit:
            return f"the log keeps {self._limit} bytes of this"
        if size - self._looked.get(name, 0) >= _LOOK_EVERY:
            self._looked[name] = size
            if lacks_room(self.directory, self._kept, need=_LOOK_EVERY):
                self._looked[name] = 0
                return "the disk has no room for a longer log"
        return ""

    def close(self) -> None:
        """Close all files."""
        for one in self._streams.values():
            one.close()


class Pump:
    """Moves what arrives in a pipe to a growing file of the log, from the event loop, until the
    other end closes.
    """

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self.name = name
        self._stream = log.stream(name)
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._ended = asyncio.Event()
        self._null = -1
        self.dropped = 0
        """Bytes that were not kept."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def handed_over(self) -> None:
        """Close this process's copy of the writing end, once the container has its own."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    async def finish(self, timeout: float) -> bool:
        """Wait until all has been read; False when somebody still holds the other end after
        `timeout` seconds.
        """
        self.handed_over()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), timeout)
        ended = self._ended.is_set()
        if not ended:
            self._end()
        return ended

    def _read(self) -> None:
        if self._null >= 0:
            self._drop()
            return
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._end()
            return
        self._stream.write(data)
        self._log.grown.set()
        why = "the disk is full" if self._stream.closed else self._log.no_room(self.name)
        if why:
            self._stream.end_line()
            self._stream.write(f"[{why}: what follows is not kept]\n".encode())
            self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _drop(self) -> None:
        try:
            count = os.splice(self._reading, self._null, _CHUNK * 16)
        except BlockingIOError:
            return
        self.dropped += count
        if not count:
            self._end()

    def _end(self) -> None:
        if self._null >= 0:
            os.close(self._null)
            self._log.say(f"{self.dropped} bytes of {self.name} were not kept")
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self._ended.set()
