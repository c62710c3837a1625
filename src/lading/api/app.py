"""The metadata server as one ASGI application: reads, routes, authenticates and answers calls.

Routes come from the record types (`core.records.record_types`). Each answer is JSON, each error
`{"errors": ["one line (request id)"]}` with the status of its class in `core.errors`. Source:
docs/spec/api, sections Addresses and methods, Parameters and attributes and Errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from lading.api import bootstrap
from lading.api.background.cascades import CascadeWorker
from lading.api.background.request_cancellation import CancellationWorker
from lading.api.container_access import log_files, published_ports
from lading.api.container_access.gateway_client import claimed, read_claim
from lading.api.container_access.log_spool import Spool
from lading.api.container_access.port_addresses import PREFIX, make_sites
from lading.api.events import timers
from lading.api.events.audit import Relay
from lading.api.events.websocket import serve_websocket
from lading.api.http import (
    ROUTE,
    TAKE_OVER,
    ApiCall,
    ApiResponse,
    BodyReader,
    TakeOver,
    announced,
    read_body,
    read_query,
)
from lading.api.logins import authentication
from lading.api.logins.provider_client import PROVIDER
from lading.api.mounts.git_cache import GIT
from lading.api.routes import ApiRoute, Routes
from lading.api.serializer import only
from lading.api.server.readiness import READINESS
from lading.api.server.upkeep import UPKEEP
from lading.api.services import ApiServices
from lading.api.webhooks.receivers import WEBHOOK_SENDER
from lading.api.webhooks.worker import WebhookWorker
from lading.core.errors import LadingError, MethodNotAllowed, NotFound, Unauthenticated, Unavailable
from lading.core.ids import make_request_id
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.core.quantities import bounded
from lading.core.records.access import Principal, check_scope, covers
from lading.core.records.filters import check_select
from lading.core.records.schema import JSON
from lading.core.webhooks.schedule import RetryRules
from lading.process.concurrency import cancel_all
from lading.process.telemetry import current_request, in_request, redact
from lading.store.database import TransactionInterrupted

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Times that a call whose transaction was interrupted by another one is carried out again.
_ATTEMPTS: Final = 3
OWNED_PATHS: Final = (
    "/arvados/",
    "/discovery/",
    "/sys/",
    "/websocket",
    "/events",
    "/_health/",
    "/login",
    "/logout",
    "/status.json",
    "/debug.json",
    "/metrics",
    PREFIX,
)
_CORS: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, PROPFIND, PUT, POST, PATCH, DELETE",
    # Workbench 2 sends Cache-Control when it lists log files, WebDAV clients send Depth.
    "Access-Control-Allow-Headers": "Authorization, Cache-Control, Content-Type, Depth, If-Match, "
    "Range, X-Http-Method-Override",
    "Access-Control-Expose-Headers": "Content-Range, X-Request-Id",
    "Access-Control-Max-Age": "86486400",
}
_READING: Final = frozenset({"GET", "HEAD", "PROPFIND"})
_BODIED: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Bytes of a body that is read before its path is looked up; a larger one is refused early.
_SMALL_BODY: Final = 64 << 10
# Seconds for which the principal of a request is not looked up again while its body comes.
_FRESH: Final = 1.0
_encode = msgspec.json.Encoder().encode
_logger = logging.getLogger("lading.api")


def _make_worker(services: ApiServices) -> WebhookWorker:
    settings = services.config.Webhooks
    return WebhookWorker(
        services,
        services.features[WEBHOOK_SENDER],
        rules=RetryRules(most_attempts=settings.MaxAttempts, pause_after=settings.PauseAfter),
        most=settings.MaxConcurrent,
        timeout=max(settings.Timeout, services.config.Mail.Timeout),
        chance=lambda: int.from_bytes(services.ids.entropy(4), "big") / (1 << 32),
    )


class Application:
    """The ASGI application."""

    def __init__(self, services: ApiServices) -> None:
        self.services = services
        self._routes = Routes()
        self._sites = make_sites(services.config)
        self._bodies = BodyReader(services.config.API)
        self.relay = Relay(services)
        self.webhooks = _make_worker(services)
        self.cancellations = CancellationWorker(services)
        self.cascades = CascadeWorker(services)

    async def bootstrap(self, tokens: bootstrap.FirstTokens) -> None:
        """Create missing first records (`bootstrap`), and mark the log row after which events are
        published.
        """
        await bootstrap.bootstrap(self.services, tokens)
        await self.relay.start()

    async def check_token(self, token: str, *, writing: bool) -> str:
        """`authentication.check_block_token` for the block store of this server."""
        return await authentication.check_block_token(self.services, token, writing=writing)

    async def tend(self) -> None:
        """Run the background tasks until cancelled: relay of events, sweeps, timers,
        webhooks."""
        try:
            await self._tend()
        finally:
            # Calls that are held would keep the server from ending.
            self.services.events.bus.end_waits()
            await self.services.features[GIT].close()
            await self.services.features[READINESS].close()
            provider = self.services.features[PROVIDER]
            if provider is not None:
                await provider.close()

    async def _tend(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.relay.run(), name="relay of events")
            tasks.create_task(timers.sweep_for_ever(self.services), name="sweeps")
            tasks.create_task(timers.keep_time(self.services), name="moments")
            tasks.create_task(timers.seek_for_ever(self.services), name="containers sought")
            tasks.create_task(self.webhooks.run(), name="webhooks")
            tasks.create_task(self.cancellations.run(), name="cancellations")
            tasks.create_task(self.cascades.run(), name="cascades")

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        match scope["type"]:
            case "http":
                if (place := self._sites.find(scope)) is not None:
                    await published_ports.serve(self.services, place, scope, receive, send)
                else:
                    await self._serve(scope, receive, send)
            case "websocket":
                await serve_websocket(self.services, scope, receive, send)
            case "lifespan":
                await _live(receive, send)

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        request_id = headers.get("x-request-id", "")
        # A client's id becomes part of log lines and of a response header.
        if not 0 < len(request_id) <= 1024 or not request_id.isprintable():
            request_id = current_request() or make_request_id(self.services.ids.entropy(20))
        # Large streams give way while calls are under way (`core.protocols.transfer_rates`).
        self.services.access.turns.note_call()
        with in_request(request_id):
            work = self._respond(scope, headers, request_id, receive)
            response = await self._respond_always(scope, request_id, work)
            if response.session is not None:
                await _hand_over(response, request_id, scope["extensions"][TAKE_OVER])
                return
            sending = _send_response(response, request_id, scope["method"], send)
            await (_while_read(receive, sending) if response.is_endless else sending)

    async def _respond_always(
        self, scope: Mapping[str, Any], request_id: str, work: Awaitable[ApiResponse]
    ) -> ApiResponse:
        """The response within the time limit, or the one that tells what went wrong."""
        try:
            async with asyncio.timeout(self.services.config.API.RequestTimeout):
                response = await work
                # The first part is fetched within the limit, so that its error gets a status.
                if response.stream is not None and scope["method"] != "HEAD":
                    response.stream = await _begun(response.stream)
                return response
        except LadingError as error:
            return _refusal(error, request_id)
        except TimeoutError:
            late = Unavailable("the request took too long; try again later")
            return _refusal(late, request_id)
        # The server cancels the task of a client that went away; that is no fault of the handler.
        except asyncio.CancelledError:
            raise
        except Exception:  # the boundary of a request: a fault of ours must not end the connection
            _logger.exception("request failed path=%s", redact(scope["path"]))
            return _refusal(LadingError("internal error: see the server's log"), request_id)

    async def _respond(
        self,
        scope: MutableMapping[str, Any],
        headers: Mapping[str, str],
        request_id: str,
        receive: Receive,
    ) -> ApiResponse:
        method: str = scope["method"]
        # Browsers ask before a call to another origin (CORS), without the token.
        if method == "OPTIONS":
            return ApiResponse(body=b"", headers=_CORS | log_files.offered(scope["path"]))
        http_head.check_call(method, headers, scheme=str(scope.get("scheme", "https")))
        raw, sender = await self._read_body(scope, headers, receive)
        for _ in range(_ATTEMPTS):
            # The transaction was rolled back with another one: try again.
            with suppress(TransactionInterrupted):
                return await self._attempt(scope, headers, request_id, raw, sender)
        return await self._attempt(scope, headers, request_id, raw, sender)

    async def _attempt(
        self,
        scope: MutableMapping[str, Any],
        headers: Mapping[str, str],
        request_id: str,
        raw: bytes,
        sender: Principal | None,
    ) -> ApiResponse:
        path: str = scope["path"]
        params = read_query(scope["query_string"])
        method, matched, document = self._read_call(scope["method"], path, headers, params, raw)
        route, uuid, subpath = matched or self._route(method, path)
        scope[ROUTE] = route.name
        select = (
            check_select(params.get("select"), route.shows) if route.shows is not None else None
        )
        call = ApiCall(
            services=self.services,
            method=method,
            path=path,
            headers=headers,
            principal=await self._principal(route, method, path, headers, params, sender),
            request_id=request_id,
            address=(scope.get("client") or ("",))[0],
            uuid=uuid,
            subpath=subpath,
            params=params,
            document=document,
            raw=raw,
            take_over=(scope.get("extensions") or {}).get(TAKE_OVER),
        )
        if call.principal is not None:
            authentication.note_caller(scope, call.principal)
            _check_disk(self.services.access.spool, call.principal, method, len(raw))
            self.services.features[UPKEEP].note(
                call.principal.token_uuid, self.services.clock.now(), call.address
            )
        response = await route.handler(call)
        # Only the selected attributes of the answer are sent, with kind and etag.
        if select is not None and route.shows is not None:
            response.body = only(response.body, select)
        return response

    def _read_call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        params: dict[str, JSON],
        raw: bytes,
    ) -> tuple[str, tuple[ApiRoute, str, str] | None, JSON]:
        """The method that is meant, the route if it takes the body unread, and the document in the
        body otherwise. Adds the parameters in the body to `params`.
        """
        if method not in _BODIED:
            return method, None, None
        # The body of a DELETE holds parameters, on every route.
        found = self._routes.find(method, path) if method != "DELETE" else None
        if found is not None and found[0].raw:
            return method, found, None
        form, document = read_body(raw, headers.get("content-type", ""))
        params |= form
        return _override(method, headers, params), None, document

    async def _read_body(
        self, scope: Mapping[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> tuple[bytes, Principal | None]:
        """The body, and its sender if the head has a token: the sender is looked up before the body
        is read.

        Raises as `authenticate` and `BodyReader.read` do, NotFound and Forbidden for a large body.
        """
        method, path, length = scope["method"], scope["path"], announced(headers)
        if method not in _BODIED:
            return b"", None
        if length == 0:
            return await self._bodies.read(receive, headers, is_known=False), None
        token = authentication.find_token(headers, read_query(scope["query_string"]))
        principal = await authentication.authenticate(self.services, token)
        is_known = principal is not None and not principal.is_anonymous
        if principal is not None:
            authentication.note_caller(scope, principal)
        # A large body is refused before it is read: for a path that does not exist, or a token
        # without the scope.
        if length is None or length > _SMALL_BODY:
            if not self._routes.knows(path):
                raise _nothing_at(path)
            if principal is not None and method != "POST":
                # POST may stand for another method.
                check_scope(principal, method, path)
        began = asyncio.get_running_loop().time()
        raw = await self._bodies.read(receive, headers, is_known=is_known)
        # A token that was checked long ago may have been revoked while the body was read: it is
        # looked up again.
        is_fresh = asyncio.get_running_loop().time() - began < _FRESH
        return raw, principal if is_fresh else None

    def _route(self, method: str, path: str) -> tuple[ApiRoute, str, str]:
        found = self._routes.find(method, path)
        if found is not None:
            return found
        if self._routes.knows(path):
            raise MethodNotAllowed("API endpoint not found: this path does not take this method")
        raise _nothing_at(path)

    async def _principal(
        self,
        route: ApiRoute,
        method: str,
        path: str,
        headers: Mapping[str, str],
        params: Mapping[str, JSON],
        sender: Principal | None,
    ) -> Principal | None:
        if route.open:
            return None
        claim = read_claim(self.services, headers, route.claims) if route.claims else None
        if claim is not None:
            return await claimed(self.services, claim)
        token = authentication.find_token(headers, params)
        is_sender = sender is not None and sender.token == token
        principal = sender if is_sender else await authentication.authenticate(self.services, token)
        # `reader_tokens` and the anonymous user apply to reads only: nobody may write with them.
        if method in _READING:
            principal = await self._reader(route, principal, params, path)
        if principal is None:
            raise Unauthenticated("Not logged in: send a token in the Authorization header")
        check_scope(principal, method, path)
        route.check_caller(principal)
        return principal

    async def _reader(
        self,
        route: ApiRoute,
        principal: Principal | None,
        params: Mapping[str, JSON],
        path: str,
    ) -> Principal | None:
        """Principal whose rights apply: the caller with the holders of `reader_tokens`, else the
        anonymous user, if there is one.
        """
        if "reader_tokens" in params:
            principal = await self._with_readers(principal, params, path)
        return self._anonymous() if principal is None and not route.anyone else principal

    async def _with_readers(
        self, principal: Principal | None, params: Mapping[str, JSON], path: str
    ) -> Principal | None:
        """The principal, with the users of `reader_tokens` as further readers; the first of them is
        the principal of a call without another token.
        """
        readers = [
            reader
            for reader in await authentication.find_readers(self.services, params)
            if reader.is_active and covers(reader, "GET", path)
        ]
        # The first valid reader stands in for a missing token.
        if principal is None and readers:
            principal = readers.pop(0)
        if principal is None or not readers:
            return principal
        return replace(principal, readers=tuple(readers))

    def _anonymous(self) -> Principal | None:
        """The anonymous user, where the configuration lets users without a token read."""
        return (
            authentication.nobody(self.services)
            if self.services.config.Users.AnonymousUserToken
            else None
        )


def _check_disk(spool: Spool, caller: Principal, method: str, size: int) -> None:
    """Check that the disk has room for a write of an ordinary user with a body of `size` bytes.
    Raises Full.
    """
    keeps_going = caller.is_admin or caller.is_dispatcher or caller.supervises is not None
    # DELETE frees space.
    if method in ("POST", "PUT", "PATCH") and not keeps_going:
        spool.check_records(size)


def _override(method: str, headers: Mapping[str, str], params: dict[str, JSON]) -> str:
    wanted = params.pop("_method", None) or headers.get("x-http-method-override")
    return str(wanted).upper() if method == "POST" and wanted else method


def _refusal(error: LadingError, request_id: str) -> ApiResponse:
    # A line feed in a message would break the form of one line for each error.
    text = " ".join(bounded(error.message).split())
    # Without it WebDAV clients do not ask for a password (docs/spec/api, section Errors).
    headers = {"WWW-Authenticate": 'Basic realm="collections"'} if error.status == 401 else {}
    return ApiResponse(
        body={"errors": [f"{text} ({request_id})"]}, status=error.status, headers=headers
    )


def _nothing_at(path: str) -> NotFound:
    return NotFound(f"API endpoint not found: there is nothing at {path[:200]}")


async def _begun(stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The stream, of which the first part has been read: an error until then is answered with its
    own status.
    """
    try:
        first = await anext(stream)
    except StopAsyncIteration:
        first = b""

    async def parts() -> AsyncGenerator[bytes]:
        async with aclosing(stream):
            yield first
            async for chunk in stream:
                yield chunk

    return parts()


def _head(response: ApiResponse, request_id: str, length: int) -> list[tuple[bytes, bytes]]:
    """The headers of a response; `length` is that of a body which is no stream."""
    response_headers = response.headers
    headers = [
        (b"x-request-id", request_id.encode("latin-1", "replace")),
        (b"access-control-allow-origin", b"*"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if "Content-Type" not in response_headers:
        headers.append((b"content-type", b"application/json; charset=utf-8"))
    headers += [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in response_headers.items()
    ]
    if (
        response.stream is None
        and response.status != 204
        and "Content-Length" not in response_headers
    ):
        headers.append((b"content-length", b"%d" % length))
    return headers


async def _send_response(response: ApiResponse, request_id: str, method: str, send: Send) -> None:
    body = response.body if isinstance(response.body, bytes) else _encode(response.body)
    headers = _head(response, request_id, len(body))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is None:
        # HEAD has the headers of GET without its body, the length included (RFC 9110, 9.3.2).
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
        return
    async with aclosing(response.stream) as stream:
        if method != "HEAD":
            async for chunk in stream:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _while_read(receive: Receive, sending: Coroutine[Any, Any, None]) -> None:
    """Send until everything is sent, or the client has gone."""
    tasks = [
        asyncio.create_task(sending, name="endless answer"),
        # An endless stream sends nothing for long: only a read notices that the client has gone.
        asyncio.create_task(_left(receive), name="reader"),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(*tasks)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _hand_over(response: ApiResponse, request_id: str, take_over: TakeOver) -> None:
    assert response.session is not None
    fields = (*response.headers.items(), ("X-Request-Id", request_id))
    head = HttpHead(f"HTTP/1.1 {response.status} Switching Protocols", fields)
    await response.session(await take_over(head.encode()))


async def _live(receive: Receive, send: Send) -> None:
    # Cancelled where the server ends without an orderly shutdown.
    with suppress(asyncio.CancelledError):
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
