"""The way from this server to the gateway of a container, and the proof that it is that one (dispatch-contract D.2).

Directly, where the record names an address; through the tunnel that the gateway has opened to this server; or through
the other server that has the tunnel. The gateway's certificate is made by itself: what counts is that it knows the key
of the container for exactly the certificate that it showed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from lading.api.services import Services
from lading.client.piping import Pipe
from lading.client.switching import TIMEOUT, Way
from lading.core import sessions
from lading.core.container import Container
from lading.core.errors import Corrupt, Unavailable
from lading.core.httphead import Head

_NOBODY = "container.invalid"


@dataclass(frozen=True, slots=True)
class Gateway:
    """A connection to the gateway of a container, and what both sides have to say."""

    pipe: Pipe
    uuid: str
    proof: str
    expected: str

    @property
    def headers(self) -> Mapping[str, str]:
        """With which the server proves itself; for every request."""
        return {"X-Arvados-Authorization": self.proof, "X-Arvados-Container-Gateway-Uuid": self.uuid}

    def check(self, answer: Head) -> None:
        """Whether an answer came from the gateway. Raises Corrupt when somebody else is in the middle."""
        if not sessions.is_proof(answer.get(sessions.AUTHORIZATION_RESPONSE), self.expected):
            raise Corrupt("the gateway of the container did not prove to be it; nothing was sent to it")


async def reach(services: Services, container: Container) -> Gateway:
    """A connection to the gateway of a running container. Raises Unavailable."""
    if sessions.tunnel_url(container.gateway_address) is not None:
        plain = await services.tunnels.open(container.uuid)
    else:
        host, port = sessions.parse_gateway(container.gateway_address)
        plain = await Way(host=host, port=port).open()
    try:
        async with asyncio.timeout(TIMEOUT):
            pipe = await _encrypt(plain)
    except (OSError, TimeoutError) as error:
        await plain.close()
        raise Unavailable(f"the gateway of {container.uuid} does not answer; try again in a moment") from error
    tls = pipe.writer.get_extra_info("ssl_object")
    key = services.gateway_key(container.uuid)
    proof = sessions.request_proof(key, tls.getpeercert(binary_form=True) or b"")
    return Gateway(pipe, container.uuid, proof, sessions.response_proof(key, proof))


def elsewhere(services: Services, container: Container, *, forwarded: bool) -> str | None:
    """The address of the server that has the container's tunnel, when that is another one.

    Raises Unavailable when the call comes from another server: two that point at each other are one that is down.
    """
    url = sessions.tunnel_url(container.gateway_address)
    if not url or url == services.config.ExternalURL or services.tunnels.has(container.uuid):
        return None
    if forwarded:
        raise Unavailable("the tunnel to the container is down; try again in a moment")
    return url


async def _encrypt(plain: Pipe) -> Pipe:
    await plain.writer.start_tls(_unchecked(), server_hostname=_NOBODY)
    return plain


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
