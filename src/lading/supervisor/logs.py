"""The log of one container during its run: files in the run directory.

Output of the command is kept up to the configured limit and as long as the disk has space. Further
output is read and dropped, so that the command can continue, and the log says so. Lines of the
supervisor are kept whenever there is space.

Each line begins with a UTC timestamp of nine fractional digits and a blank, taken at the beginning
of the line; parts of lines are written through at once. The data is on disk, so a large log needs
no memory.

Source: docs/spec/containers, section Log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from lading.client.api import Record
from lading.client.caches.disk_space import lacks_room
from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.quantities import format_time
from lading.process.concurrency import wait_at_most
from lading.process.telemetry import redact

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
"""The growing files, which the live view shows."""
# Bytes of one read; Linux pipes hold as much (pipe(7)).
_CHUNK = 1 << 16
# Bytes of a file between two checks of the free space.
_LOOK_EVERY = 1 << 20
# Bytes kept in memory when the disk takes no more.
_TAIL = 1 << 16


def _open_private(path: Path, flags: int) -> int:
    """Open a file for writing, readable by its owner only: the umask of this process is for the
    trees of containers.
    """
    return os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _ends_line(path: Path) -> bool:
    """Whether the last byte of a file, which is not empty, ends a line."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


class StampedFile:
    """A file in which each line begins with its time."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = os.fdopen(_open_private(path, os.O_APPEND), "ab", buffering=0)
        self._clock = clock
        # An earlier supervisor of the container may have begun the file.
        self.size = os.fstat(self._file.fileno()).st_size
        self._at_start = not self.size or _ends_line(path)
        self.tail = b""
        """The beginning of the data that the disk did not take: it often has the reason of a
        failure.
        """

    @property
    def closed(self) -> bool:
        """Whether neither disk nor memory takes more."""
        return len(self.tail) >= _TAIL

    def end_line(self) -> None:
        """Let the next write begin a line."""
        if not self._at_start:
            self.write(b"\n")

    def write(self, data: bytes) -> None:
        """Add bytes as they arrive."""
        if not data:
            return
        stamp = format_time(self._clock()).encode() + b" "
        body = data.removesuffix(b"\n")
        # Only the beginning of a line is stamped; `_at_start` remembers it between writes.
        ended = len(body) < len(data)
        stamped = body.replace(b"\n", b"\n" + stamp) + (b"\n" if ended else b"")
        if self._at_start:
            stamped = stamp + stamped
        self._at_start = ended
        written = 0
        if not self.tail:
            # A full disk ends the log, not the container.
            with contextlib.suppress(OSError):
                written = self._file.write(stamped) or 0
        self.size += written
        self.tail += stamped[written : written + _TAIL - len(self.tail)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Log:
    """The log directory of one container."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        limit: int = 0,
        reserve: Amount | None = None,
        look_every: int = _LOOK_EVERY,
    ) -> None:
        """`limit`: bytes kept of each stream, 0 for no limit; `reserve`: the configured reserve of
        the disk, checked again after `look_every` bytes of a stream.
        """
        directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self._clock = clock
        self._streams: dict[str, StampedFile] = {}
        self.grown = asyncio.Event()
        """Set when one of the files has grown."""
        self._limit, self._look_every = limit, look_every
        self._reserve = reserve or Amount(AUTOMATIC, AUTOMATIC)
        self._looked: dict[str, int] = {}
        self._has_record = False

    def now(self) -> str:
        """The present time, as it stands in the log."""
        return format_time(self._clock())

    def stream(self, name: str) -> StampedFile:
        """The growing file `name`; made on first use."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = StampedFile(self.directory / name, self._clock)
        return found

    def say(self, line: str) -> None:
        """Add a line to the supervisor's own log. Tokens are redacted."""
        self.stream(SUPERVISOR).write(redact(line).encode("utf-8", "backslashreplace") + b"\n")
        self.grown.set()

    def put(self, name: str, content: bytes) -> None:
        """Write a file of fixed content."""
        # A full disk: the container runs without this file.
        with (
            contextlib.suppress(OSError),
            os.fdopen(_open_private(self.directory / name, os.O_TRUNC), "wb") as file,
        ):
            file.write(content)

    def put_record(self, record: Record) -> None:
        """Write the record of the container; only the first call does.

        The supervisor calls this beside the running command, and again before it saves the log of a
        container whose command was not started: encoding takes 0.1 ms.
        """
        if record and not self._has_record:
            self._has_record = True
            self.put(RECORD, msgspec.json.format(msgspec.json.encode(record), indent=4))

    def size(self, name: str) -> int:
        """Bytes written to the growing file `name`."""
        found = self._streams.get(name)
        return found.size if found else 0

    def tails(self) -> dict[str, bytes]:
        """Data that belongs at the end of files and is in memory only."""
        return {name: stream.tail for name, stream in self._streams.items() if stream.tail}

    def no_room(self, name: str) -> str:
        """Reason for which the command's stream `name` is not kept further; "" while it is."""
        size = self.size(name)
        if self._limit and size >= self._limit:
            return f"the log keeps {self._limit} bytes of this with its time stamps"
        if size - self._looked.get(name, 0) >= self._look_every:
            self._looked[name] = size
            if lacks_room(self.directory, self._reserve, need=self._look_every):
                # Check again with the next write: a line is written after this.
                self._looked[name] = 0
                return "the disk has no room for a longer log"
        return ""

    def close(self) -> None:
        """Close all files."""
        for stream in self._streams.values():
            stream.close()


class Pump:
    """Moves data from a pipe to a growing file of the log, in the event loop, until the writing end
    is closed.

    `copy` is the descriptor of a file that gets the same bytes, without limit; the pump closes it.
    `reading` is the reading end of a pipe that another process writes to; the pump closes it. By
    default a pipe is made.
    """

    def __init__(self, log: Log, name: str, *, copy: int = -1, reading: int = -1) -> None:
        self._copy = copy
        self._log = log
        self.name = name
        self._stream = log.stream(name)
        self._reading, self.writing = (reading, -1) if reading >= 0 else os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._ended = asyncio.Event()
        self._null = -1
        self.dropped = 0
        """Number of dropped bytes."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    @property
    def reading(self) -> int:
        """The reading end, -1 when it is closed."""
        return -1 if self._ended.is_set() else self._reading

    def handed_over(self) -> None:
        """Close this process's copy of the writing end, once the container has its own. The end of
        file arrives when all copies are closed.
        """
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    async def finish(self, timeout: float) -> bool:
        """Wait until everything is read; False when another process still holds the writing end
        after `timeout` seconds.
        """
        self.handed_over()
        # Another process may keep the pipe open; the result is False then.
        await wait_at_most(self._ended, timeout)
        ended = self._ended.is_set()
        if not ended:
            self._end()
        return ended

    def _read(self) -> None:
        # The log is full: the pipe is emptied so that the command does not block.
        if self._null >= 0 and self._copy < 0:
            self._drop()
            return
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            # Woken without data.
            return
        if not data:
            self._end()
            return
        if self._copy >= 0:
            self._write_copy(data)
        if self._null >= 0:
            self.dropped += len(data)
            return
        self._stream.write(data)
        self._log.grown.set()
        why = "the disk is full" if self._stream.closed else self._log.no_room(self.name)
        if why:
            self._stream.end_line()
            self._stream.write(f"[{why}: further output is not kept]\n".encode())
            self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _write_copy(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._copy, data) :]
        except OSError as error:
            # As a shell would: the command goes on, and the file lacks the rest.
            self._log.say(f"the file of {self.name} cannot be written: {error.strerror}")
            self._close_copy()

    def _close_copy(self) -> None:
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _drop(self) -> None:
        # splice(2) moves the data to /dev/null inside the kernel, without a copy to this process.
        try:
            count = os.splice(self._reading, self._null, _CHUNK * 16)
        except BlockingIOError:
            # Woken without data.
            return
        self.dropped += count
        if not count:
            self._end()

    def _end(self) -> None:
        self._close_copy()
        if self._null >= 0:
            os.close(self._null)
            self._log.say(f"{self.dropped} bytes of {self.name} were not kept")
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self._ended.set()
