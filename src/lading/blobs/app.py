"""HTTP service of the block store for clients; `administration` has the other paths.

    PUT /<md5>              200 and the signed locator; 400 hash differs, 403 token may not store,
                            413 over 64 MiB, 503 busy, 507 no room
    POST /                  the same for a block of unknown hash
    GET /<locator>          200 and the bytes; 400 signature missing or forged, 401 expired or no
                            token, 403 token may not read, 404 absent, 405 no size, 502 damaged
    HEAD /<locator>         the same without the bytes; the size is optional
    OPTIONS                 methods and headers allowed for other origins

Errors are plain text. Each request needs a token, which the `CheckToken` of the application checks;
signatures are bound to the exact text of the token. A block is read and verified before its first
byte is sent. Blocks in transfer use at most `MaxKeepBlobBuffers` times 64 MiB of memory. Requests
beyond that wait for memory, and get 503 with Retry-After if none becomes free.

A body is hashed and written to its probable volume while it arrives. It is kept if the hash matches
and acknowledged when it is durable.

Source: docs/spec/api, section Blocks.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lading.blobs.administration import Administration
from lading.blobs.block_files import FileDraft
from lading.blobs.metrics import BlockMetrics
from lading.blobs.transfer import ANY_ORIGIN, BlockAnswer, refusal, take_in
from lading.blobs.transfer_memory import Memory, MemoryRoom
from lading.blobs.volume_set import VolumeSet
from lading.config.site import Config
from lading.core.data import locator as locators
from lading.core.data import placement
from lading.core.data.locator import Locator
from lading.core.data.placement import DesiredReplication, ReplicaPlace
from lading.core.errors import (
    Corrupt,
    LadingError,
    Malformed,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lading.net.acceptor import note_holder, note_known
from lading.process.telemetry import event


class CheckToken(Protocol):
    """Check that a token may read or write blocks; raises Unauthenticated or Forbidden
    otherwise.
    """

    async def __call__(self, token: str, /, *, writing: bool) -> str | None:
        """Check the token; the name that its connections count for, if any."""


# Larger pieces are hashed in a thread: the event loop would stand still.
_IN_THREAD = 1 << 18
# Part of the memory for blocks that requests with one token may have.
_TOKEN_SHARE = 0.5
# Copies that a client may request; more would only be refused later.
_MOST_COPIES = 1000
# First element of a path; decides whether a request is for the block store (`owns`).
_HASH = re.compile(r"[0-9a-f]{32}")
_PLACES = ("index", "mounts", "trash", "pull", "untrash")
# At most 15 digits: a longer number is no length of a block.
_DIGITS = re.compile(r"[0-9]{1,15}")
# Names of storage classes; any separator between them is accepted, as in Arvados' keepstore.
_CLASSES = re.compile(r"[\w.-]+")
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, PUT, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Length, Content-Type, "
    "X-Keep-Desired-Replicas, X-Keep-Signature, X-Keep-Storage-Classes",
    "Access-Control-Max-Age": "86486400",
}
_logger = logging.getLogger("lading.blobs")


def owns(method: str, path: str) -> bool:
    """Whether a request is for the block store: a block, an administrative path, or a POST of a
    block.
    """
    name = path.lstrip("/")
    if not name:
        return method == "POST"
    return _HASH.match(name) is not None or name.partition("/")[0] in _PLACES or method == "TOUCH"


def make_app(
    mounts: VolumeSet,
    config: Config,
    *,
    clock: Callable[[], float],
    check_token: CheckToken,
    metrics: BlockMetrics | None = None,
) -> ASGIApp:
    """The ASGI application over the volumes; `clock` returns Unix seconds."""
    store = _Store(mounts, config, metrics or BlockMetrics(), clock=clock, check_token=check_token)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await store.answer(request)
        except ClientDisconnect:
            return
        except LadingError as error:
            answer = refusal(error)
        await answer(scope, receive, send)

    return app


class _Store:
    def __init__(
        self,
        mounts: VolumeSet,
        config: Config,
        metrics: BlockMetrics,
        *,
        clock: Callable[[], float],
        check_token: CheckToken,
    ) -> None:
        self._metrics = metrics
        settings = config.Collections
        self._mounts = mounts
        self._key = settings.BlobSigningKey if settings.BlobSigning else ""
        self._ttl = int(settings.BlobSigningTTL)
        self._copies = settings.DefaultReplication
        self._classes = tuple(
            name for name, settings in config.StorageClasses.items() if settings.get("Default")
        ) or ("default",)
        self._clock = clock
        self._check_token = check_token
        api = config.API
        self._memory = Memory(api.MaxKeepBlobBuffers * locators.MAX_BLOCK, share=_TOKEN_SHARE)
        self._rate = api.MinTransferRate
        self._administration = Administration(mounts, self._memory, config, clock=clock)

    async def answer(self, request: Request) -> Response:
        # Paths from clients may begin with two slashes.
        name = request.scope["path"].lstrip("/")
        match request.method:
            case "OPTIONS":
                return Response(headers=_CORS)
            case "POST" if not name:
                return await self._put(request, None)
            case "PUT" if _HASH.fullmatch(name):
                with _naming(name):
                    return await self._put(request, name)
            case "GET" | "HEAD" if _HASH.match(name):
                with _naming(name[:32]):
                    return await self._read(request, locators.parse(name))
        answer = await self._administration.answer(request, name)
        if answer is None:
            fault = (
                f"{request.method} /{name[:200]}: blocks take GET, HEAD and PUT /<md5>, and POST /"
            )
            raise Malformed(fault) if _HASH.match(name) else NotFound(f"Path not found: {fault}")
        return answer

    async def _put(self, request: Request, hash: str | None) -> Response:
        """Store a body with this hash; None accepts any hash."""
        token, subject = await self._token(request, writing=True), hash or "a new block"
        length = _length(request.headers, subject)
        asked = _desired(request.headers, self._classes, self._copies)
        # Classes without a volume are told by the answer: they have no copy.
        desired = replace(
            asked,
            classes=placement.served(asked.classes, self._mounts.classes, self._classes),
        )
        # Without a Content-Length, memory for the largest block is reserved, but granted as bytes
        # arrive.
        largest = locators.MAX_BLOCK if length is None else length
        # The room is released last: the draft and the copies use its memory.
        with await self._memory.begin(largest, subject, holder=_holder(token)) as room:
            places = await self._mounts.places(hash) if hash else None
            draft = await self._begin(places, desired, len(room.view))
            try:
                name, size, draft = await self._receive(request, room, length, draft)
                if hash not in (None, name):
                    raise Malformed(f"{hash}: the {size} bytes that came do not match this hash")
                if places is None:
                    places = await self._mounts.places(name)
                    if draft is not None and any(target.holds for target in places):
                        # The block is stored already: compare that copy and update the time of its
                        # last put.
                        await draft[1].discard()
                        draft = None
                receipt = await self._mounts.put(
                    name, room.view[:size], desired=desired, places=places, draft=draft
                )
            except BaseException:
                # Cancelled, too: a draft takes space until it is discarded.
                if draft is not None:
                    await draft[1].discard()
                raise
        self._metrics.note_write(size)
        stored = self._signed(Locator(name, size), token)
        classes = ", ".join(f"{name}={receipt.classes.get(name, 0)}" for name in asked.classes)
        headers = {
            **ANY_ORIGIN,
            "X-Keep-Replicas-Stored": str(receipt.copies),
            "X-Keep-Storage-Classes-Confirmed": classes,
        }
        return PlainTextResponse(f"{stored}\n", headers=headers)

    async def _begin(
        self, places: Sequence[ReplicaPlace] | None, desired: DesiredReplication, size: int
    ) -> tuple[str, FileDraft] | None:
        """A draft on the volume that will probably keep the block; `places` is None while the hash
        is unknown.
        """
        # Without the hash the order of volumes is unknown, except if there is only one.
        if places is None:
            if len(self._mounts.writable) != 1:
                return None
            places = await self._mounts.places(locators.EMPTY_HASH, look=False)
        return await self._mounts.begin(places, desired, size)

    async def _receive(
        self,
        request: Request,
        room: MemoryRoom,
        length: int | None,
        draft: tuple[str, FileDraft] | None,
    ) -> tuple[str, int, tuple[str, FileDraft] | None]:
        """Receive the body; returns hash, size, and the draft if it was written completely."""
        digest = hashlib.md5(usedforsecurity=False)
        written = _Writing(draft)

        async def add(piece: memoryview) -> None:
            if len(piece) > _IN_THREAD:
                await asyncio.to_thread(digest.update, piece)
            else:
                digest.update(piece)

        size = await take_in(
            request, room, length=length, followers=(add, written.add), rate=self._rate
        )
        return digest.hexdigest(), size, written.draft

    async def _read(self, request: Request, locator: Locator) -> Response:
        # The size of a locator limits the memory that is taken.
        if request.method == "GET" and locator.size is None:
            raise MethodNotAllowed(f"{locator}: a locator without a size cannot be read")
        token = await self._token(request, writing=False)
        if self._key:
            # `str(wanted)` keeps all hints: the signature is one of them.
            locators.verify(
                str(locator), token=token, ttl=self._ttl, key=self._key, now=int(self._clock())
            )
        headers = dict(ANY_ORIGIN)
        if request.headers.get("x-keep-signature", "").startswith("local"):
            headers["X-Keep-Locator"] = self._signed(locator, token)
        if locator.hash == locators.EMPTY_HASH:
            return BlockAnswer(b"", 0, headers)
        if request.method == "HEAD":
            return BlockAnswer(b"", (await self._mounts.head(locator.hash)).size, headers)
        room = await self._memory.take(
            min(locator.size or 0, locators.MAX_BLOCK), locator.bare, holder=_holder(token)
        )
        try:
            data = await self._mounts.get(locator.hash, room.view)
        except BaseException as error:
            # The response releases the memory at its end; without a response it is released here.
            room.release()
            if isinstance(error, Corrupt):
                self._metrics.note_damage()
            raise
        self._metrics.note_read(len(data))
        return BlockAnswer(data, len(data), headers, room=room, rate=self._rate)

    async def _token(self, request: Request, *, writing: bool) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() not in ("bearer", "oauth2") or not token.strip():
            raise Unauthenticated("no token; send 'Authorization: Bearer <token>'")
        user = await self._check_token(token.strip(), writing=writing)
        note_known(request.scope)
        note_holder(request.scope, user or "")
        return token.strip()

    def _signed(self, locator: Locator, token: str) -> str:
        expiry = int(self._clock()) + self._ttl
        return locators.signed(
            str(locator), token=token, expiry=expiry, ttl=self._ttl, key=self._key
        )


class _Writing:
    """The follower that writes the draft; after a failure `block_files` is None, and another
    volume stores the block.
    """

    def __init__(self, draft: tuple[str, FileDraft] | None) -> None:
        self.draft = draft

    async def add(self, piece: memoryview) -> None:
        if self.draft is None:
            return
        try:
            await self.draft[1].write(piece)
        except Unavailable as error:
            event(_logger, "block not written", volume=self.draft[0], fault=error)
            draft, self.draft = self.draft, None
            await draft[1].discard()


@contextmanager
def _naming(hash: str) -> Iterator[None]:
    """Add the hash of the block to an error of a volume."""
    try:
        yield
    except LadingError as error:
        if hash not in error.message and isinstance(error, Corrupt | NotFound | Unavailable):
            error.args = (f"{hash}: {error.message}",)
        raise


def _holder(token: str) -> str:
    """The secret of a token without its prefix: the key of its share of the memory."""
    parts = token.split("/")
    return parts[2] if parts[0] == "v2" and len(parts) > 2 else token


def _length(headers: Mapping[str, str], subject: str) -> int | None:
    """The announced bytes of a body, None if unknown. Raises TooLarge."""
    text = headers.get("content-length", "")
    length = int(text) if _DIGITS.fullmatch(text) else None
    if (length or 0) > locators.MAX_BLOCK:
        raise TooLarge(f"{subject}: a block has at most {locators.MAX_BLOCK} bytes")
    return length


def _desired(
    headers: Mapping[str, str], default: Sequence[str], default_copies: int
) -> DesiredReplication:
    text = headers.get("x-keep-desired-replicas", "")
    copies = int(text) if _DIGITS.fullmatch(text) else default_copies
    classes = dict.fromkeys(_CLASSES.findall(headers.get("x-keep-storage-classes", ""))) or default
    # Classes are unique and keep their order.
    return DesiredReplication(copies=min(max(copies, 1), _MOST_COPIES), classes=tuple(classes))
