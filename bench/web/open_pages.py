"""A thousand open pages: each has a stream of events, and its own session."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import AsyncExitStack
from typing import Final

from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import OTHERS, body
from bench.figures import Figure, percentile
from bench.web.visitor import log_in
from lading.client.api import ApiClient
from lading.client.transport import HttpTransport

MEMORY: Final = 150.0
"""MB of the server with all pages open."""
_PAGES: Final = 1000
_OF_ONE: Final = 50
"""Pages that one login may have open."""
_AT_ONCE: Final = 10
_REQUEST: Final = (
    "GET /ui/events?topics=new HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n"
    "Accept: text/event-stream\r\nSec-Fetch-Site: same-origin\r\n\r\n"
)
_PATIENCE: Final = 60.0
_SETTLED: Final = 3.0


async def measure(place: Place, server: Server) -> list[Figure]:
    """Memory of the server with all pages of a few users open, and the time until all have heard of
    a new request.
    """
    return await _open_all(place, server, _PAGES // _OF_ONE)


async def measure_users(place: Place, server: Server) -> list[Figure]:
    """As `measure`, with one page of each of so many users."""
    return await _open_all(place, server, min(_PAGES, OTHERS))


async def _open_all(place: Place, server: Server, users: int) -> list[Figure]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with HttpTransport(unix_socket=server.socket) as transport, AsyncExitStack() as opened:
        before = server.memory()
        cookies = [
            await log_in(transport, place.site.token(f"other {one}")) for one in range(users)
        ]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def open_page(cookie: str) -> asyncio.StreamReader:
            async with turns:
                host, _, port = server.address.partition(":")
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                opened.callback(writer.close)
                writer.write(_REQUEST.format(host=server.address, cookie=cookie).encode())
                async with asyncio.timeout(_PATIENCE):
                    await reader.readuntil(b"retry: ")
                return reader

        readers = await asyncio.gather(
            *(open_page(cookies[number % users]) for number in range(_PAGES))
        )
        await asyncio.sleep(_SETTLED)
        memory = server.memory()
        spent, began = server.spent(), time.perf_counter()
        # A request in a project that all members of the laboratory can read, by its owner.
        owner = ApiClient(transport, place.site.token("other 0"))
        given = {**body("told", 1, use_existing=False), "owner_uuid": place.site.project(0)}
        await owner.create("container_requests", given)
        heard = await asyncio.gather(*(_hear(reader, began) for reader in readers))
        told = [one for one in heard if one >= 0]
        cost = server.spent()[0] - spent[0]
    share = f"{(memory - before) * 1000 / _PAGES:.0f} kB a page"
    others = f"{len(told)} of them told of a request that they may see"
    when = f" within {percentile(told, 0.99):.2f} s" if told else ""
    return [
        Figure(
            name=f"pages: memory with {_PAGES:,} open, of {users:,} users", unit="MB", count=_PAGES,
            target=f"< {MEMORY:g} MB", met=memory < MEMORY,
            note=f"{memory:.0f} MB, {before:.0f} before; {share}; {others}{when}, "
            f"{cost:.2f} s of processor time",
        )
    ]  # fmt: skip


async def _hear(reader: asyncio.StreamReader, began: float) -> float:
    """Seconds until the page is told of something new; -1 if it is not."""
    try:
        async with asyncio.timeout(_SETTLED):
            await reader.readuntil(b"event: new")
    except TimeoutError:
        return -1.0
    return time.perf_counter() - began
