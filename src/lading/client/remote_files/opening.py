"""Opens the files of the site that the client's configuration names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.remote_files.tree import CACHE, LIFE, RemoteFiles
from lading.client.servers.environment import default_data_directory, find_api_socket
from lading.client.servers.own_site import find_or_start, tell
from lading.client.servers.site_logins import SITE
from lading.client.transport import HttpTransport


@asynccontextmanager
async def opened_files(
    site: str = "", *, cache: int = CACHE, life: float = LIFE
) -> AsyncGenerator[RemoteFiles]:
    """The files of a site: that of the login `site`, else as `lading.connect`. `cache`: bytes of
    blocks in memory. Raises Invalid when there is no server, Unavailable when it does not start.
    """
    environ = {**os.environ, **({SITE: site} if site else {})}
    data = default_data_directory(environ)
    server = await asyncio.to_thread(find_or_start, environ, data, say=tell)
    local = find_api_socket(environ, data, server.address)
    async with AsyncExitStack() as stack:
        transport = await stack.enter_async_context(server.transport())
        near = transport
        if local is not None:
            # Blocks of a server on this machine come by its socket, past TLS.
            near = await stack.enter_async_context(HttpTransport(unix_socket=local))
        files = RemoteFiles(
            ApiClient(transport, server.token),
            BlockClient(near, server.token),
            cache=cache,
            life=life,
        )
        stack.push_async_callback(files.close)
        yield files
