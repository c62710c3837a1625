"""The tunnel to the server, for gateways that the server cannot reach.

The supervisor connects with its own token and its container's key. The server that accepts it
records that it has the tunnel. Each stream that the server opens is a connection to the gateway.
When the tunnel ends, as after a restart of the server, a new one is made, which may be to another
server. Source: docs/spec/shell, section Tunnel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from lading.core.containers.container import TUNNEL
from lading.core.errors import LadingError, RequestError
from lading.net.http_upgrade import Way, parse_url, switch, trusting
from lading.net.tunnel import Tunnel
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

# Seconds between two attempts; doubled after each failure.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
# The server will never accept this container's tunnel.
_FINAL = (401, 403, 404, 410)


async def keep_tunnel(
    config: SupervisorConfig, session: SupervisorSession, port: int, say: Callable[[str], None]
) -> None:
    """Keep a tunnel to the gateway on this port of the loopback interface until cancelled, or until
    the server refuses.
    """
    pause, is_first = FIRST_PAUSE, True
    while True:
        try:
            tunnel = await _connect(config, session, port)
        except RequestError as error:
            if error.status in _FINAL:
                say(f"nobody can enter this container: {error.message}")
                return
        except LadingError:
            # The server is away: try again.
            pass
        else:
            pause = FIRST_PAUSE
            if not is_first:
                session.reconnected.set()
                # The line is growth of the log, which wakes the live view.
                say("the connection to the server broke; there is a new one")
            is_first = False
            try:
                await tunnel.run()
            finally:
                await tunnel.close()
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, pause * 2)


async def _connect(config: SupervisorConfig, session: SupervisorSession, port: int) -> Tunnel:
    way, host = server_way(config)
    pipe = await way.open()
    await switch(
        pipe,
        f"/arvados/v1/containers/{config.container_uuid}/gateway_tunnel",
        TUNNEL,
        host=host,
        headers={"Authorization": f"Bearer {config.supervisor_token}"},
        form={"auth_secret": session.gateway_key},
    )
    gateway = Way(host="127.0.0.1", port=port)
    return Tunnel(pipe, connected=True, accept=gateway.open)


def server_way(config: SupervisorConfig) -> tuple[Way, str]:
    """The way to the server, and its name in the head of a request."""
    if config.api_socket:
        return Way(unix_socket=config.api_socket), "localhost"
    authorities = Path(config.api_ca_file) if config.api_ca_file else None
    tls = trusting(authorities, insecure=config.api_insecure)
    return parse_url(config.api_url, tls), config.api_url.removeprefix("https://").rstrip("/")
