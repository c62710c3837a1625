"""The progress that the user's code tells in its log.

The code may report its progress by a number in `/hpcaas/updates/percentComplete`, or on each line
of a connection to `/hpcaas/updates/sock`; the last line counts where the file has no number. Other
text is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from lading.core.hpc import daemon_states
from lading.hpc.layout import DaemonLayout, read_text

# Bytes of a progress report.
_MOST_LINE = 100


class Progress:
    """Progress of the code. `tell` is called when a line has changed it."""

    def __init__(self, layout: DaemonLayout, *, tell: Callable[[], None]) -> None:
        self._layout, self._tell = layout, tell
        self._percent: float | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on the socket. Raises OSError."""
        path = self._layout.progress.with_name("sock")
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        # The code may run as any user, and a user who may write the directory could replace the
        # socket before a chmod.
        before = os.umask(0)
        try:
            listening.bind(str(path))
            self._server = await asyncio.start_unix_server(
                self._take, sock=listening, limit=_MOST_LINE
            )
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(before)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def percent(self) -> float | None:
        """0 to 100; None while the code has reported none."""
        written = daemon_states.percent(read_text(self._layout.progress, most=_MOST_LINE))
        return self._percent if written is None else written

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # ValueError: a line that is too long.
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                said = daemon_states.percent(line.decode("ascii", "replace"))
                if said not in (None, self._percent):
                    self._percent = said
                    self._tell()
        writer.close()
