"""The block store's HTTP service (api-contract 6.3).

    PUT /<md5>              200 and the signed locator; 400 hash differs, 413 over 64 MiB, 507 no room, 503 busy
    GET /<locator>          200 and the bytes; 405 no size, 400 signature missing or forged, 401 expired or no token,
                            404 absent, 502 damaged
    HEAD /<locator>         the same without the bytes; the size is not needed
    OPTIONS                 what other origins may send

Errors are plain text. A token is asked for on every request and checked by whoever makes the application; the
signature is bound to it as it was presented. A block is read and verified whole before its first byte is sent. At
most sixteen large blocks are in memory at once; requests for more wait for their turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lading.blobs.volume import Volume
from lading.config import Collections
from lading.core import locator as locators
from lading.core.errors import (
    Corrupt,
    Full,
    LadingError,
    Malformed,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lading.core.locator import Locator
from lading.telemetry import event

CheckToken = Callable[[str], Awaitable[None]]
"""Returns for a token that may use the store, raises Unauthenticated or Forbidden for others."""

_IN_MEMORY = 16
_SMALL = 1 << 20
_TURN = 60.0
_TRANSFER = 600.0
_IN_THREAD = 1 << 18
_CHUNK = 1 << 18
_HASH = re.compile(r"[0-9a-f]{32}")
_DIGITS = re.compile(r"[0-9]{1,15}")
_CLASSES = re.compile(r"[\w.-]+")
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, PUT, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Length, Content-Type, X-Keep-Desired-Replicas, "
    "X-Keep-Signature, X-Keep-Storage-Classes",
    "Access-Control-Max-Age": "86486400",
}
_ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}
_logger = logging.getLogger("lading.blobs")


def make_app(
    volumes: Sequence[Volume], config: Collections, *, clock: Callable[[], float], check_token: CheckToken
) -> ASGIApp:
    """The ASGI application over the volumes, the first with room being written; `clock` gives Unix seconds."""
    store = _Store(volumes, config, clock=clock, check_token=check_token)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await store.answer(request)
        except ClientDisconnect:
            return
        except LadingError as error:
            answer = _refusal(error)
        await answer(scope, receive, send)

    return app


class _Store:
    def __init__(
        self,
        volumes: Sequence[Volume],
        config: Collections,
        *,
        clock: Callable[[], float],
        check_token: CheckToken,
    ) -> None:
        self._volumes = tuple(volumes)
        self._key = config.BlobSigningKey if config.BlobSigning else ""
        self._ttl = int(config.BlobSigningTTL)
        self._clock = clock
        self._check_token = check_token
        self._turns = asyncio.Semaphore(_IN_MEMORY)

    async def answer(self, request: Request) -> Response:
        # The clients' own paths may begin with two slashes.
        name = request.scope["path"].lstrip("/")
        match request.method:
            case "OPTIONS":
                return Response(headers=_CORS)
            case "PUT" if _HASH.fullmatch(name):
                return await self._put(request, name)
            case "GET" | "HEAD" if _HASH.match(name):
                return await self._read(request, locators.parse(name))
        raise Malformed(f"{request.method} /{name}: not a block; use GET, HEAD or PUT /<md5>")

    async def _put(self, request: Request, name: str) -> Response:
        token = await self._token(request)
        length = _number(request.headers.get("content-length", ""), locators.MAX_BLOCK)
        if length > locators.MAX_BLOCK:
            raise TooLarge(f"{name}: a block has at most {locators.MAX_BLOCK} bytes")
        turn = await self._take_turn(name, length)
        try:
            data = await _body(request, name)
            if await _md5(data) != name:
                raise Malformed(f"{name}: the {len(data)} bytes that came do not match this hash")
            await self._keep(name, data)
        finally:
            turn()
        stored = self._signed(Locator(name, len(data)), token)
        return PlainTextResponse(f"{stored}\n", headers={**_ANY_ORIGIN, **_confirmation(request.headers)})

    async def _read(self, request: Request, wanted: Locator) -> Response:
        if request.method == "GET" and wanted.size is None:
            raise MethodNotAllowed(f"{wanted}: a locator without a size cannot be read")
        token = await self._token(request)
        if self._key:
            locators.verify(str(wanted), token=token, ttl=self._ttl, key=self._key, now=int(self._clock()))
        headers = dict(_ANY_ORIGIN)
        if request.headers.get("x-keep-signature", "").startswith("local"):
            headers["X-Keep-Locator"] = self._signed(wanted, token)
        if wanted.hash == locators.EMPTY_HASH:
            return _BlockAnswer(b"", 0, headers)
        if request.method == "HEAD":
            return _BlockAnswer(b"", await self._size(wanted), headers)
        turn = await self._take_turn(wanted.bare, wanted.size or 0)
        try:
            data = await self._load(wanted)
        except BaseException:
            turn()
            raise
        return _BlockAnswer(data, len(data), headers, sent=turn)

    async def _token(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() not in ("bearer", "oauth2") or not token.strip():
            raise Unauthenticated("no token; send 'Authorization: Bearer <token>'")
        await self._check_token(token.strip())
        return token.strip()

    async def _take_turn(self, name: str, size: int) -> Callable[[], None]:
        """Wait until a large block may be in memory; what to call when it no longer is."""
        if size <= _SMALL:
            return lambda: None
        try:
            async with asyncio.timeout(_TURN):
                await self._turns.acquire()
        except TimeoutError as error:
            raise Unavailable(f"{name}: the store is busy; try again") from error
        return self._turns.release

    def _signed(self, locator: Locator, token: str) -> str:
        expiry = int(self._clock()) + self._ttl
        return locators.signed(str(locator), token=token, expiry=expiry, ttl=self._ttl, key=self._key)

    async def _keep(self, name: str, data: bytearray) -> None:
        fault: LadingError = Full("no volume is configured")
        for volume in self._volumes:
            try:
                return await volume.put(name, data)
            except Unavailable as error:
                fault = error
                event(_logger, "block not kept", block=name, fault=error)
        raise fault

    async def _load(self, wanted: Locator) -> bytes:
        fault: LadingError = NotFound(f"{wanted.bare}: no such block")
        for volume in self._volumes:
            try:
                return await volume.get(wanted.hash)
            except NotFound:
                continue
            except (Corrupt, Unavailable) as error:
                # Another volume may have it whole.
                fault = error
                event(_logger, "block not read", block=wanted.bare, fault=error)
        raise fault

    async def _size(self, wanted: Locator) -> int:
        fault: LadingError = NotFound(f"{wanted.bare}: no such block")
        for volume in self._volumes:
            try:
                return (await volume.head(wanted.hash)).size
            except NotFound:
                continue
            except Unavailable as error:
                fault = error
        raise fault


def _refusal(error: LadingError) -> Response:
    # Part of a body may still be under way: end the connection rather than read it.
    close = {"Connection": "close"} if isinstance(error, TooLarge) else {}
    return PlainTextResponse(f"{error.message}\n", status_code=error.status, headers={**_ANY_ORIGIN, **close})


def _confirmation(headers: Mapping[str, str]) -> dict[str, str]:
    # This store is one service for all copies (service type "proxy"): it answers for as many as were asked.
    copies = max(1, _number(headers.get("x-keep-desired-replicas", ""), 1))
    classes = _CLASSES.findall(headers.get("x-keep-storage-classes", "")) or ["default"]
    return {
        "X-Keep-Replicas-Stored": str(copies),
        "X-Keep-Storage-Classes-Confirmed": ", ".join(f"{name}={copies}" for name in classes),
    }


class _BlockAnswer(Response):
    """A block, sent in pieces; `sent` is called once it no longer takes memory, whatever happens."""

    def __init__(self, data: bytes, size: int, headers: dict[str, str], *, sent: Callable[[], None] | None = None):
        super().__init__(b"", headers={**headers, "Content-Length": str(size)}, media_type="application/octet-stream")
        self._data = memoryview(data)
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            # A reader that stands still must not keep others from their turn.
            async with asyncio.timeout(_TRANSFER):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                for start in range(0, len(self._data), _CHUNK):
                    piece = bytes(self._data[start : start + _CHUNK])
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._sent is not None:
                self._sent()


def _number(text: str, default: int) -> int:
    return int(text) if _DIGITS.fullmatch(text) else default


async def _body(request: Request, name: str) -> bytearray:
    data = bytearray()
    try:
        async with asyncio.timeout(_TRANSFER):
            async for chunk in request.stream():
                data += chunk
                if len(data) > locators.MAX_BLOCK:
                    raise TooLarge(f"{name}: a block has at most {locators.MAX_BLOCK} bytes")
    except TimeoutError as error:
        raise Unavailable(f"{name}: only {len(data)} bytes came within {_TRANSFER:g} s") from error
    return data


async def _md5(data: bytearray) -> str:
    if len(data) > _IN_THREAD:
        return await asyncio.to_thread(_hexdigest, data)
    return _hexdigest(data)


def _hexdigest(data: bytearray) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
