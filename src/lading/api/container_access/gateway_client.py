"""Connects this server to the gateway of a container, directly or by the server with the tunnel.

The connection is direct if the record names an address, or uses the tunnel that the gateway has
opened to this server, or goes through another server that has the tunnel. The certificate of the
gateway is self-signed: its key is verified, which is derived from the secret of the container.
Arvados' gateways have a random key; they must first answer an empty request with a proof that they
know the secret for exactly the certificate that they presented. No data of a caller is sent before.

All failures at an address give the same message, so that it reveals nothing about other services
there.

A call that is forwarded to the server with the tunnel carries a signed claim that names the caller
(`core.protocols.forwarding_claims`); the caller's token stays on this server. The other server
looks the user up, and checks again whether the user may make the call.

Source: docs/spec/shell, section Authentication.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.api.container_access.access import ContainerAccess
from lading.api.logins.authentication import authenticate, nobody
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core import ids
from lading.core.containers import sessions
from lading.core.containers.container import TUNNEL, Container
from lading.core.containers.sessions import Places
from lading.core.errors import Corrupt, LadingError, Unauthenticated, Unavailable
from lading.core.protocols import forwarding_claims, http_head
from lading.core.protocols.forwarding_claims import HEADER, LIFE, ForwardingClaim, Purpose
from lading.core.protocols.http_head import HttpHead
from lading.core.records.access import Principal, check_active
from lading.core.records.record_types import USERS
from lading.net.certificates import is_key_of
from lading.net.http_upgrade import TIMEOUT, Way
from lading.net.pipes import Pipe, read_head
from lading.store import records
from lading.store.database import Database

# Seconds of an attempt to reach the gateways of a machine.
_ATTEMPT = 3.0
_NOBODY = "container.invalid"
# Bytes of a refusal that are read, so that its connection can be used again.
_MOST_ANSWER = 1 << 16


@dataclass(frozen=True, slots=True)
class Gateway:
    """A connection to the gateway of a container, and the headers by which both sides prove
    themselves.
    """

    pipe: Pipe
    uuid: str
    proof: str
    expected: str
    is_ours: bool = False
    """Whether the supervisor is one of Lading, not Arvados' crunch-run."""
    key: str = field(default="", repr=False)
    """The secret that both sides share."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by which the server proves itself, for each request."""
        return {
            "X-Arvados-Authorization": self.proof,
            "X-Arvados-Container-Gateway-Uuid": self.uuid,
        }

    def check(self, response: HttpHead) -> None:
        """Check that a response came from the gateway. Raises Corrupt when it did not."""
        if not sessions.is_proof(response.get(sessions.AUTHORIZATION_RESPONSE), self.expected):
            raise Corrupt(
                "the gateway of the container did not prove to be it; nothing was sent to it"
            )


async def reach(container_access: ContainerAccess, container: Container) -> Gateway:
    """A connection to the gateway of a running container, which has proved itself. Raises
    Unavailable.
    """
    *others, last = container_access.gateway_keys(container)
    for key in others:
        # Then through a tunnel, below.
        with contextlib.suppress(Unavailable):
            return await _reach(container_access, container, key)
    return await _reach(container_access, container, last)


async def choose_address(
    services: ApiServices, container: Container, address: str, places: Places
) -> str:
    """The gateway address of a container whose supervisor offers `address`: itself if the gateway
    of the container answers there, else a tunnel.

    Servers that share a database use tunnels: an address that one of them reaches may be out of
    reach for another one.
    """
    if services.config.PostgreSQL.Connection or not sessions.may_be_tried(address, places):
        return TUNNEL
    host, port = sessions.parse_gateway(address)

    async def attempt() -> bool:
        try:
            async with asyncio.timeout(_ATTEMPT):
                plain = await Way(host=host, port=port).open()
                try:
                    await _meet(container.uuid, services.access.gateway_key(container.uuid), plain)
                finally:
                    _drop(plain)
        except (OSError, TimeoutError, LadingError, EOFError):
            return False
        return True

    return address if await services.access.direct_hosts.is_reached(host, attempt) else TUNNEL


async def _reach(container_access: ContainerAccess, container: Container, key: str) -> Gateway:
    if sessions.tunnel_url(container.gateway_address) is not None:
        plain = await container_access.tunnels.open(container.uuid)
    else:
        host, port = sessions.parse_gateway(container.gateway_address)
        try:
            plain = await Way(host=host, port=port).open()
        except Unavailable as error:
            container_access.direct_hosts.miss(host)
            raise _silent(container.uuid) from error
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _meet(container.uuid, key, plain)
    # Another program at the address must not learn how far the attempt came.
    except (OSError, TimeoutError, LadingError, EOFError) as error:
        _drop(plain)
        raise _silent(container.uuid) from error
    except BaseException:
        # Cancelled: the client has gone.
        _drop(plain)
        raise


def _drop(plain: Pipe) -> None:
    """Abort a connection: an orderly end would take a time that reveals the service there."""
    plain.writer.transport.abort()


async def _meet(uuid: str, key: str, plain: Pipe) -> Gateway:
    """Start TLS on a connection, and verify that the gateway of this container is at its other end.
    Raises Corrupt.
    """
    pipe = await _encrypt(plain)
    certificate = pipe.writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    proof = sessions.request_proof(key, certificate)
    is_ours = is_key_of(certificate, sessions.identity_seed(key))
    gateway = Gateway(pipe, uuid, proof, sessions.response_proof(key, proof), is_ours, key)
    # A gateway of Lading has the key that follows from the secret: no request is needed to prove
    # it.
    if not is_ours:
        await _challenge(gateway)
    return gateway


async def _challenge(gateway: Gateway) -> None:
    """Let a gateway prove itself before anything is asked of it. Raises Corrupt."""
    pipe = gateway.pipe
    pipe.writer.write(
        HttpHead("GET / HTTP/1.1", (("Host", gateway.uuid), *gateway.headers.items())).encode()
    )
    response = http_head.parse_answer(await read_head(pipe, timeout=TIMEOUT))
    gateway.check(response)
    length = response.get("content-length")
    if response.says("connection", "close") or not length.isdigit() or int(length) > _MOST_ANSWER:
        raise Corrupt(
            "the gateway of the container ends the connection on which it has proven itself"
        )
    # The answer to the challenge has to be read to its end: requests follow on this connection.
    await pipe.reader.readexactly(int(length))


def _silent(uuid: str) -> Unavailable:
    return Unavailable(
        f"the gateway of {uuid} does not answer, or is not that of this container; "
        "try again in a moment"
    )


def elsewhere(
    config: Config, container_access: ContainerAccess, container: Container, *, forwarded: bool
) -> str | None:
    """The address of the server that has the container's tunnel, None when that is this one.

    Raises Unavailable when the call was forwarded already: two servers that name each other have no
    tunnel.
    """
    url = sessions.tunnel_url(container.gateway_address)
    if not url or url == config.ExternalURL or container_access.tunnels.has(container.uuid):
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
    # The name and the authority are not checked: the key of the certificate is, by `_meet`.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def make_claim(
    clock: ApiClock,
    container_access: ContainerAccess,
    url: str,
    principal: Principal | None,
    container_uuid: str,
    purpose: Purpose,
    *,
    address: str,
) -> dict[str, str]:
    """The header of a call that is forwarded to the server at `url`; `address` is that of the
    caller.
    """
    claim = ForwardingClaim(
        user_uuid=principal.user_uuid if principal else "",
        container_uuid=container_uuid,
        purpose=purpose,
        audience=url,
        expires=int(clock.time().timestamp()) + LIFE,
        address=address,
    )
    return {HEADER: forwarding_claims.sign(container_access.forward_key, claim)}


def read_claim(
    services: ApiServices, headers: Mapping[str, str], purpose: Purpose
) -> ForwardingClaim | None:
    """The claim of a call, None when the call was not forwarded. Raises Unauthenticated."""
    if HEADER not in headers:
        return None
    return forwarding_claims.verify(
        services.access.forward_key,
        headers[HEADER],
        purpose=purpose,
        audience=services.config.ExternalURL,
        now=services.clock.time().timestamp(),
    )


async def claimed(services: ApiServices, claim: ForwardingClaim) -> Principal | None:
    """The present principal of a claim; None for a claim without a caller.

    Raises Unauthenticated when the user was deleted, Forbidden when the user is inactive.
    """
    if not claim.user_uuid:
        return None
    if claim.user_uuid == ids.anonymous_user(services.config.ClusterID):
        return nobody(services)
    principal = await _user(services.database, claim.user_uuid)
    check_active(principal)
    return principal


async def renewed(services: ApiServices, principal: Principal) -> Principal:
    """A principal as it is now: that of its token, or of its user where a claim stood for the
    token. Raises Unauthenticated.
    """
    if principal.is_anonymous:
        return nobody(services)
    if not principal.token:
        return await _user(services.database, principal.user_uuid)
    found = await authenticate(services, principal.token)
    if found is None:
        raise Unauthenticated
    return found


async def _user(database: Database, uuid: str) -> Principal:
    """The principal of a user, without a token. Raises Unauthenticated."""
    async with database.reading() as tx:
        user = await records.get(tx, USERS, uuid)
    if user is None:
        raise Unauthenticated
    return Principal(
        user_uuid=uuid,
        token_uuid="",
        token="",
        is_admin=bool(user["is_admin"]),
        is_active=bool(user["is_active"]),
    )
