"""The kernel's log of this machine, read from where the last reader of the machine ended."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

# A record of /dev/kmsg: priority, number, time, flags; then the message. Records of programs have
# priorities from 8 on.
_RECORD: Final = re.compile(r"[0-7],(\d+),[^;]*;(.*)")
_MOST_BYTES: Final = 16 << 20
_PIECE: Final = 8192


class KernelLog:
    """The records of `<root>/dev/kmsg` after those that were read before.

    `memory` is a file that keeps the number of the last record and the boot that it belongs to, so
    that no record is taken twice.
    """

    def __init__(self, root: Path, memory: Path) -> None:
        self._path = root / "dev/kmsg"
        self._memory = memory
        self.boot = _read(root / "proc/sys/kernel/random/boot_id")

    def read(self) -> list[str]:
        """The messages of new records; none where this user may not read the log."""
        boot, _, number = _read(self._memory).rpartition(" ")
        last = int(number) if boot == self.boot and number.isdecimal() else -1
        messages = []
        for line in self._lines():
            if (match := _RECORD.match(line)) and int(match[1]) > last:
                messages.append(match[2])
                last = int(match[1])
        if messages:
            self._remember(last)
        return messages

    def _lines(self) -> list[str]:
        pieces: list[bytes] = []
        size = 0
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            while size < _MOST_BYTES:
                try:
                    piece = os.read(descriptor, _PIECE)
                # The kernel has overwritten a record meanwhile.
                except BrokenPipeError:
                    continue
                # There is no further one.
                except OSError:
                    break
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        finally:
            os.close(descriptor)
        return b"".join(pieces).decode(errors="replace").splitlines()

    def _remember(self, number: int) -> None:
        # A reader that cannot write it reads the records again.
        with suppress(OSError):
            self._memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside = self._memory.with_name(f".{self._memory.name}-{os.getpid()}")
            aside.write_text(f"{self.boot} {number}")
            aside.replace(self._memory)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
