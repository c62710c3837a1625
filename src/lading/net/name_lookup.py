"""Addresses of names by the resolver of the machine, asked in threads of its own.

A name whose servers never answer holds a thread for half a minute, and a stranger may name many.
The threads that other work of the process shares (`asyncio.to_thread`) are not among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Final

_MOST: Final = 64


class NameLookup:
    """Looks up addresses, at most `most` names at a time; further ones wait for a place.

    The threads are no reason for the process to go on: they end with it.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._places = asyncio.Semaphore(most)

    async def __call__(self, host: str, port: int | None) -> list[str]:
        """The addresses of a host. Raises OSError, UnicodeError for a name that is none."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(addresses: list[str], fault: Exception | None) -> None:
            self._places.release()
            # The caller may have given up.
            if answer.done():
                return
            if fault is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(fault)

        def work() -> None:
            addresses: list[str] = []
            fault: Exception | None = None
            try:
                addresses = _ask(host, port)
            except (OSError, UnicodeError) as error:
                fault = error
            # The loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, addresses, fault)

        threading.Thread(target=work, name=f"resolver {host[:40]}", daemon=True).start()
        return await answer


def _ask(host: str, port: int | None) -> list[str]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))
