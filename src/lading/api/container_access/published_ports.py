"""Serves published ports of running containers, over HTTP and WebSocket.

`port_addresses` finds the port and container of a request.

- A port with access `public` is open to everybody; all others are for users who may enter the
  container. They present a token in Authorization, in the cookie `arvados_api_token`, or once as a
  parameter of that name, which becomes the cookie. No token is forwarded, not even to the server
  that has the tunnel of the container.
- By path, all containers and this API share one origin: pages are sandboxed, so that a page of one
  container cannot use the cookie of another.
- By host each container has its own origin. When an origin changes from one container to another,
  because a name or a port does, the browser's data of the former is not sent to the latter; a
  cookie records the owner of the data.

Source: docs/spec/shell, section Published ports.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from lading.api import authorization
from lading.api.container_access import entering, port_addresses
from lading.api.container_access.entering import Entrance
from lading.api.container_access.gateway_client import (
    Gateway,
    claimed,
    elsewhere,
    make_claim,
    reach,
    read_claim,
)
from lading.api.container_access.port_addresses import PortAddress
from lading.api.http import TAKE_OVER
from lading.api.logins.authentication import authenticate, find_token, note_caller
from lading.api.services import ApiServices
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.sessions import Target
from lading.core.errors import Forbidden, Gone, LadingError, NotFound, Unauthenticated, Unavailable
from lading.core.protocols import http_head
from lading.core.protocols.forwarding_claims import (
    HEADER,
    ForwardingClaim,
    Purpose,
    check_container,
)
from lading.core.protocols.http_head import HttpHead
from lading.core.records.access import Principal, check_active, check_scope
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.net.acceptor import note_holder
from lading.net.http_bodies import read_body
from lading.net.http_upgrade import parse_url, trusting
from lading.net.pipes import Pipe, join, read_head
from lading.process.concurrency import cancel_all
from lading.store import records
from lading.store.database import Transaction

COOKIE: Final = "arvados_api_token"
OWNER: Final = "arvados_container_uuid"
_RESERVED: Final = (COOKIE, OWNER, http_head.PAGE_COOKIE)
"""Prefixes of the cookies that containers neither see nor set."""
# Seconds until a service in a container must begin its response.
_ANSWER_TIMEOUT: Final = 300.0
_SANDBOX: Final = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"
_FORWARDED: Final = "x-arvados-no-forward"
_KEPT_HERE: Final = frozenset(
    {"authorization", "content-length", "cookie", HEADER, *http_head.HOP_BY_HOP}
)
# Headers that the service in the container does not get from the client.
_OURS: Final = frozenset({"host", *_KEPT_HERE})
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def serve(
    services: ApiServices, port_address: PortAddress, scope: Message, receive: Receive, send: Send
) -> None:
    """Answer one request for a port."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        if not await _redirect(port_address, scope, headers, send):
            await _serve(services, port_address, scope, headers, receive, send)
    except LadingError as error:
        headers_out = {
            "Content-Type": "text/plain; charset=utf-8",
            "X-Content-Type-Options": "nosniff",
        }
        # RFC 6750 requires the challenge with 401; browsers show no prompt for Bearer.
        if error.status == 401:
            headers_out["WWW-Authenticate"] = 'Bearer realm="containers"'
        await _say(send, error.status, f"{error.message}\n".encode(), headers_out.items())


async def _redirect(
    port_address: PortAddress, scope: Message, headers: Mapping[str, str], send: Send
) -> bool:
    """Answer a request that leads to another address of the port, if it is one. Raises
    Forbidden.
    """
    moved = _moved(port_address, scope, secure=scope.get("scheme") == "https")
    if moved is not None:
        await _say(send, 303, b"", moved.items())
        return True
    # Relative links of a page resolve below the port only if its address ends in a slash.
    if port_address.by_path and scope["path"] == port_address.base:
        await _say(send, 308, b"", [("Location", f"{port_address.base}/")])
        return True
    if port_address.by_path and headers.get("service-worker"):
        raise Forbidden(
            "Forbidden: a service worker would serve all pages of this origin; give ports their own"
        )
    return False


async def _serve(
    services: ApiServices,
    port_address: PortAddress,
    scope: Message,
    headers: Mapping[str, str],
    receive: Receive,
    send: Send,
) -> None:
    """Pass a request on to the gateway of the container, or to the server that has its tunnel."""
    # A page of another origin may send a request, but must not use the cookies of this browser for
    # it.
    if http_head.is_foreign(scope["method"], headers, scheme=str(scope.get("scheme", "https"))):
        headers = _without_ambient(headers)
    async with services.database.reading() as tx:
        target = await port_addresses.resolve(tx, port_address)
    claim = read_claim(services, headers, Purpose.PORT)
    principal, container = await _find(services, target, headers, claim)
    entrance = (
        Entrance(principal=principal, container_uuid=container.uuid, port=target.port)
        if principal is not None
        else None
    )
    if principal is not None:
        note_caller(scope, principal)
    else:
        # Strangers at a public port count together, apart from the user of the container.
        note_holder(scope, f"ports of {container.runtime_user_uuid}")
    sessions.check_state(container.uuid, container.state)
    inherited = not port_address.by_path and _inherited(headers, container.uuid)
    if inherited:
        await _forget(send, scope, inherited, container.uuid)
        return
    exchange = _Exchange(scope, headers, receive, send, services)
    url = elsewhere(
        services.config,
        services.access,
        container,
        forwarded=claim is not None or _FORWARDED in headers,
    )
    if url is not None:
        address = (scope.get("client") or ("",))[0]
        claim_headers = make_claim(
            services.clock,
            services.access,
            url,
            principal,
            container.uuid,
            Purpose.PORT,
            address=address,
        )
        pipe = await parse_url(url, trusting(services.access.certificate)).open()
        # The server with the tunnel answers with checked headers already: they are not changed
        # again.
        async with entering.watched(services, entrance, pipe):
            await _pass_on(
                pipe, _forwarded_head(exchange, claim_headers), exchange, _Rules(lambda _: None)
            )
        return
    gateway = await reach(services.access, container)
    rules = _Rules(
        functools.partial(_check, gateway),
        True,
        port_address.by_path,
        ""
        if port_address.by_path or OWNER in headers.get("cookie", "")
        else _owner(container.uuid),
    )
    head = _request_head(gateway, target, port_address, exchange)
    async with entering.watched(services, entrance, gateway.pipe):
        await _pass_on(gateway.pipe, head, exchange, rules)


def _without_ambient(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request that a page of another origin caused, without cookies and other
    headers that a browser adds by itself.
    """
    cookies = _cookies(headers, without=(COOKIE, http_head.PAGE_COOKIE))
    kept = {**headers, "cookie": cookies[0][1] if cookies else ""}
    if not http_head.is_explicit(headers):
        kept.pop("authorization", None)
    return kept


def _inherited(headers: Mapping[str, str], uuid: str) -> list[str]:
    """The names of cookies that a browser got from another container at the same address."""
    cookies = dict(http_head.read_cookies(headers.get("cookie", "")))
    # Without an owner no cookie is known to be of another container.
    if cookies.get(OWNER, uuid) == uuid:
        return []
    return [name for name in cookies if name not in (COOKIE, http_head.PAGE_COOKIE)]


async def _forget(send: Send, scope: Mapping[str, Any], names: list[str], uuid: str) -> None:
    """Let the browser delete these cookies and repeat the request. Raises Gone for a request that
    cannot be repeated.
    """
    # Redirecting another method would repeat its effect, or lose its body.
    if scope["method"] not in ("GET", "HEAD"):
        raise Gone("this page is that of a container which had the address before; load it again")
    query = scope["query_string"].decode("latin-1")
    raw = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    expired = [f"{name}=; Path=/; Max-Age=0" for name in names if name != OWNER]
    headers = [
        ("Location", "/" + raw.lstrip("/") + (f"?{query}" if query else "")),
        # Cookies are expired by name: Clear-Site-Data "cookies" would end those of all ports of a
        # domain.
        ("Clear-Site-Data", '"cache", "storage"'),
        ("Cache-Control", "no-store"),
        *(("Set-Cookie", cookie) for cookie in (*expired, _owner(uuid))),
    ]
    await _say(send, 303, b"", headers)


def _owner(uuid: str) -> str:
    return f"{OWNER}={uuid}; Path=/; HttpOnly; SameSite=Lax"


@dataclass(frozen=True, slots=True)
class _Exchange:
    scope: Message
    headers: Mapping[str, str]
    receive: Receive
    send: Send
    services: ApiServices


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules for passing a response on: `check` verifies its sender; of a container's response
    (`is_container`) unsafe headers are left out, `by_path` adds a sandbox, and `cookie` is set.
    """

    check: Callable[[HttpHead], None]
    is_container: bool = False
    by_path: bool = False
    cookie: str = ""

    def shown(self, response: HttpHead) -> HttpHead:
        """The answer with those fields that may pass."""
        if not self.is_container:
            return response
        found = http_head.passed_on(response, by_path=self.by_path, reserved=_RESERVED)
        more = [("Content-Security-Policy", _SANDBOX)] if self.by_path else []
        more += [("Set-Cookie", self.cookie)] if self.cookie else []
        return HttpHead(found.start, (*found.fields, *more))


def _moved(
    port_address: PortAddress, scope: Mapping[str, Any], *, secure: bool
) -> dict[str, str] | None:
    """The redirection of an address with a token: the address without it, and the token as a cookie
    of that port.
    """
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    token = next((value for name, value in pairs if name == COOKIE), "")
    if not token:
        return None
    query = urlencode([pair for pair in pairs if pair[0] != COOKIE])
    raw = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    cookie = SimpleCookie({COOKIE: token})
    for name, value in (
        ("path", f"{port_address.base}/"),
        ("httponly", True),
        ("samesite", "Lax"),
        ("secure", secure),
    ):
        cookie[COOKIE][name] = value
    # The token leaves the address at once, so that it is in no history, bookmark or Referer header.
    location = "/" + raw.lstrip("/") + (f"?{query}" if query else "")
    return {
        "Location": location,
        "Set-Cookie": cookie[COOKIE].OutputString(),
        "Cache-Control": "no-store",
    }


async def _find(
    services: ApiServices, target: Target, headers: Mapping[str, str], claim: ForwardingClaim | None
) -> tuple[Principal | None, Container]:
    """The caller, None for a public port, and the container, if the caller may use the port. Raises
    as `entering` and `authorization` do.
    """
    async with services.database.reading() as tx:
        row = await _row(tx, target)
        if row is not None:
            container = Container.from_record(row)
            if claim is not None:
                check_container(claim, container.uuid)
            published = container.published_ports.get(str(target.port))
            if isinstance(published, dict) and published.get("access") == "public":
                return None, container
    if claim is not None:
        principal = await claimed(services, claim)
    else:
        principal = await authenticate(services, find_token(headers, {}) or _cookie(headers))
    if principal is None:
        raise Unauthenticated(
            "Not logged in: send a token, or open the address once with ?arvados_api_token=TOKEN"
        )
    check_active(principal)
    kind = REQUESTS if sessions.is_request(target) else CONTAINERS
    check_scope(principal, "GET", f"/arvados/v1/{kind.plural}/{target.uuid}")
    async with services.database.reading() as tx:
        row = await _row(tx, target)
        await authorization.find_readable(
            tx, services.clock, services.config, kind, target.uuid, principal
        )
        if row is None:
            raise Unavailable(f"{target.uuid}: has no container yet; try again when it runs")
        container = Container.from_record(row)
        if claim is not None:
            check_container(claim, container.uuid)
        await entering.check_port(tx, services.access, container, target.port, principal)
    return principal, container


async def _row(tx: Transaction, target: Target) -> dict[str, Any] | None:
    if not sessions.is_request(target):
        return await records.get(tx, CONTAINERS, target.uuid)
    request = await records.get(tx, REQUESTS, target.uuid)
    uuid = request["container_uuid"] if request else None
    return await records.get(tx, CONTAINERS, uuid) if uuid else None


def _cookie(headers: Mapping[str, str]) -> str:
    cookies = http_head.read_cookies(headers.get("cookie", ""))
    return next((value for name, value in reversed(cookies) if name == COOKIE), "")


def _request_head(
    gateway: Gateway, target: Target, port_address: PortAddress, exchange: _Exchange
) -> HttpHead:
    scope, headers = exchange.scope, exchange.headers
    raw = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    path = "/" + raw[len(port_address.base) :].lstrip("/")
    query = scope["query_string"].decode("latin-1")
    fields = [
        ("Host", headers.get("host", gateway.uuid)),
        *(
            (name, value)
            for name, value in headers.items()
            if name not in _OURS and not name.startswith("x-arvados-")
        ),
        *_cookies(headers, without=_RESERVED),
        ("X-Forwarded-Proto", str(scope.get("scheme", "https"))),
        ("X-Forwarded-Prefix", port_address.base),
        ("X-Arvados-Container-Target-Port", str(target.port)),
        *gateway.headers.items(),
    ]
    fields += _framing(exchange)
    start = f"{scope['method']} {path}{'?' if query else ''}{query} HTTP/1.1"
    return http_head.parse_request(HttpHead(start, tuple(fields)).encode())


def _cookies(headers: Mapping[str, str], *, without: tuple[str, ...]) -> list[tuple[str, str]]:
    """The header with the cookies whose names begin with none of these."""
    cookies = (cookie.strip() for cookie in headers.get("cookie", "").split(";"))
    value = "; ".join(cookie for cookie in cookies if cookie and not cookie.startswith(without))
    return [("Cookie", value)] if value else []


def _forwarded_head(exchange: _Exchange, claim_headers: Mapping[str, str]) -> HttpHead:
    """The head of the request without the token, for another server of this installation."""
    scope, headers = exchange.scope, exchange.headers
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    forwarded = [(name, value) for name, value in headers.items() if name not in _KEPT_HERE]
    fields = (
        *forwarded,
        *_cookies(headers, without=(COOKIE, http_head.PAGE_COOKIE)),
        *claim_headers.items(),
        *_framing(exchange),
    )
    start = f"{scope['method']} {path}{'?' if query else ''}{query} HTTP/1.1"
    return http_head.parse_request(HttpHead(start, fields).encode())


def _framing(exchange: _Exchange) -> list[tuple[str, str]]:
    """Use of the connection after the head, and the end of the body."""
    headers = exchange.headers
    fields = []
    if headers.get("upgrade") and TAKE_OVER in (exchange.scope.get("extensions") or {}):
        fields += [("Connection", "upgrade"), ("Upgrade", headers["upgrade"])]
    if "content-length" in headers:
        fields.append(("Content-Length", headers["content-length"]))
    elif "transfer-encoding" in headers:
        fields.append(("Transfer-Encoding", "chunked"))
    return fields


async def _pass_on(pipe: Pipe, head: HttpHead, exchange: _Exchange, rules: _Rules) -> None:
    try:
        pipe.writer.write(head.encode())
        feeding = asyncio.create_task(
            _feed(pipe, exchange, chunked="Transfer-Encoding" in dict(head.fields))
        )
        leaving = asyncio.create_task(_leave(feeding, pipe, exchange))
        try:
            response = http_head.parse_answer(await read_head(pipe, timeout=_ANSWER_TIMEOUT))
            rules.check(response)
            if response.status == 101:
                # Both ends of the taken-over connection are read from now on.
                await cancel_all(leaving)
                await _switch(pipe, rules.shown(response), exchange)
            else:
                await _answer(pipe, response, exchange, rules)
        finally:
            await cancel_all(leaving, feeding)
    except OSError as error:
        raise Unavailable("the connection to the container broke; try again") from error
    finally:
        await pipe.close()


def _check(gateway: Gateway, response: HttpHead) -> None:
    """Check the sender of a response. Raises NotFound when nothing listens at the port, Corrupt
    when it is not the gateway.
    """
    if response.status == 422 and not response.get(sessions.AUTHORIZATION_RESPONSE):
        raise NotFound("nothing of this container listens at that port")
    gateway.check(response)


async def _feed(pipe: Pipe, exchange: _Exchange, *, chunked: bool) -> None:
    writer, more, stream = pipe.writer, True, exchange.services.access.turns.stream()
    # The container closed its side; its answer is still read by the other way.
    with contextlib.suppress(OSError):
        while more:
            message = await exchange.receive()
            if message["type"] != "http.request":
                writer.transport.abort()
                return
            data, more = message.get("body", b""), bool(message.get("more_body"))
            if data:
                async with stream.turn(len(data)):
                    writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            if not more and chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()


async def _leave(feeding: asyncio.Task[None], pipe: Pipe, exchange: _Exchange) -> None:
    """Abort the connection to the container when the client has gone after its whole request: the
    container may not answer for long.
    """
    await asyncio.wait((feeding,))
    # After the body there is no other message (ASGI, section HTTP).
    if (await exchange.receive())["type"] == "http.disconnect":
        pipe.writer.transport.abort()


async def _switch(pipe: Pipe, response: HttpHead, exchange: _Exchange) -> None:
    """Pass bytes in both directions, after a WebSocket or another protocol was agreed upon."""
    near = await exchange.scope["extensions"][TAKE_OVER](response.encode())
    await join(near, pipe, exchange.services.access.turns)


async def _answer(pipe: Pipe, response: HttpHead, exchange: _Exchange, rules: _Rules) -> None:
    shown = rules.shown(response).without(http_head.HOP_BY_HOP)
    fields = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in shown.fields
    ]
    await exchange.send(
        {"type": "http.response.start", "status": response.status, "headers": fields}
    )
    body: AsyncGenerator[bytes] = read_body(pipe.reader, response, method=exchange.scope["method"])
    stream = exchange.services.access.turns.stream()
    async with aclosing(body) as pieces:
        async for piece in pieces:
            # A caller that does not read must not delay other callers: bytes are sent to it after
            # the turn.
            async with stream.turn(len(piece)):
                pass
            await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


async def _say(send: Send, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> None:
    fields = (*headers, ("Content-Length", str(len(body))))
    encoded = [
        (name.lower().encode(), value.encode("latin-1", "replace")) for name, value in fields
    ]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
