"""How far the code is, as it says itself: a number in a file, or a line on a socket.

The file is `/hpcaas/updates/percentComplete`. Code that would rather keep a connection writes lines
to `/hpcaas/updates/sock`, each a number; the last one counts where the file has none. What is no
number is left out. Source: docs/spec/hpc-daemon, section Progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from lading.core.hpc import daemon_states
from lading.hpc.layout import Layout, read_text

# Bytes of a progress report.
_MOST_LINE = 100


class Progress:
    """Knows it. `tell` is called when a line has changed it."""

    def __init__(self, layout: Layout, *, tell: Callable[[], None]) -> None:
        self._layout, self._tell = layout, tell
        self._said: float | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on the socket. Raises OSError."""
        place = self._layout.progress.with_name("sock")
        place.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        # The code may be anybody's; and whoever may write the directory could put something else
        # there for a chmod.
        before = os.umask(0)
        try:
            listening.bind(str(place))
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
        """0 to 100; None while the code has said nothing."""
        written = daemon_states.percent(read_text(self._layout.progress, most=_MOST_LINE))
        return self._said if written is None else written

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # ValueError: a line that is too long.
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                said = daemon_states.percent(line.decode("ascii", "replace"))
                if said not in (None, self._said):
                    self._said = said
                    self._tell()
        writer.close()
