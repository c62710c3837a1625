"""HTTP service of the block store for administrators; it requires the root token.

    GET /index[/prefix]              lines "<hash>+<size> <nanoseconds>", then an empty line
    GET /mounts                      the volumes
    GET /mounts/<uuid>/blocks[/prefix]
                                     the index of one volume
    PUT /trash                       a list of {locator, block_mtime, mount_uuid}: blocks to move
                                     to the bin
    PUT /pull                        the same: blocks to copy to the mount
    PUT /untrash/<locator>           restore a block from the bin
    TOUCH /<locator>                 set the time of the last put to now
    DELETE /<locator>                move to the bin

`PUT /trash` and `PUT /pull` respond after the work, with the result of each item. A block is moved
to the bin only if the time of its last put equals `block_mtime`. A `prefix` may also be a
parameter. `pull` copies from any volume of this server; it ignores servers that an item names.

    GET /mounts/<uuid>/trash         index of the bin with the times of discarding
    GET, PUT, HEAD /mounts/<uuid>/block/<hash>
                                     a block of one volume
    POST /mounts/<uuid>/block/<hash>/<verb>
                                     touch, discard, restore, delete or quarantine it: the way in
                                     which other servers use a volume (`blobs.remote`); the time is
                                     in X-Keep-Mtime
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from lading.blobs.transfer import ANY_ORIGIN, BlockAnswer, take_in
from lading.blobs.transfer_memory import Memory
from lading.blobs.volume import Discarded, Stored
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.config.site import Config
from lading.core.data import locator as locators
from lading.core.errors import (
    Forbidden,
    LadingError,
    Malformed,
    NotFound,
    Unauthenticated,
    Unavailable,
)

MTIME: Final = "X-Keep-Mtime"
# Bytes of a trash or pull list; a longer one is refused.
_LISTED: Final = 64 << 20
# Items of a list that are worked on at a time.
_AT_ONCE: Final = 4
# Lines of an index that are sent together.
_LINES: Final = 1000
_Verb = Callable[[VolumeMount, str, int], Awaitable[None]]
_VERBS: Mapping[str, _Verb] = {
    "touch": lambda mount, hash, _: mount.volume.touch(hash),
    "discard": lambda mount, hash, mtime_ns: mount.volume.discard(hash, mtime_ns),
    "restore": lambda mount, hash, _: mount.volume.restore(hash),
    "quarantine": lambda mount, hash, mtime_ns: mount.volume.quarantine(hash, mtime_ns),
    "delete": lambda mount, hash, mtime_ns: mount.volume.delete(hash, mtime_ns),
}


class Item(msgspec.Struct, frozen=True):
    """One line of a trash or pull list; `block_mtime` in Unix nanoseconds."""

    locator: str
    block_mtime: int = 0
    mount_uuid: str = ""


async def describe_volumes(mounts: VolumeSet) -> list[dict[str, Any]]:
    """The volumes with their health and space; `total` and `free` are None where they cannot be
    asked.
    """
    return [await _describe(mounts, mount) for mount in mounts.all]


async def _describe(mounts: VolumeSet, mount: VolumeMount) -> dict[str, Any]:
    health = mounts.health(mount)
    shown: dict[str, Any] = {
        "uuid": mount.uuid,
        "device_id": mount.device,
        "driver": mount.driver,
        "read_only": mount.is_read_only,
        "replication": mount.copies,
        "storage_classes": dict.fromkeys(sorted(mount.classes), True),
        "faults": health.faults,
        "damaged": health.damaged,
        "last_fault": health.last_fault,
    }
    try:
        space = await mounts.space(mount)
    except LadingError as error:
        return shown | {"total": None, "free": None, "last_fault": error.message}
    return shown | {"total": space.total, "free": space.free}


class Administration:
    """Answers administrative requests; `clock` returns Unix seconds."""

    def __init__(
        self, mounts: VolumeSet, memory: Memory, config: Config, *, clock: Callable[[], float]
    ) -> None:
        self._mounts = mounts
        self._memory = memory
        self._root = config.SystemRootToken
        self._grace = config.Collections.BlobSigningTTL
        self._clock = clock

    async def answer(self, request: Request, name: str) -> Response | None:
        """The response to a request for `name`, a path without its slash; None for other paths."""
        parts = name.split("/")
        match request.method, *parts:
            case "GET", "index", *rest if len(rest) < 2:
                self._admit(request)
                return _listing(self._index(_prefix(request, rest)))
            case "GET", "mounts":
                self._admit(request)
                return JSONResponse(await describe_volumes(self._mounts), headers=ANY_ORIGIN)
            case _, "mounts", uuid, *rest if rest:
                self._admit(request)
                return await self._on_mount(request, self._mounts.find(uuid), rest)
            case "PUT", "trash" | "pull" as verb:
                self._admit(request)
                return JSONResponse(
                    await self._work_through(verb, await _read_list(request)), headers=ANY_ORIGIN
                )
            case "PUT", "untrash", locator:
                self._admit(request)
                return await self._untrash(locators.parse(locator).hash)
            case "TOUCH" | "DELETE" as verb, locator:
                self._admit(request)
                return await self._change(verb, locators.parse(locator).hash)
        return None

    def _admit(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = given.strip()
        if scheme.lower() not in ("bearer", "oauth2") or not token:
            raise Unauthenticated("no token; send 'Authorization: Bearer <system root token>'")
        # A v2 token is "v2/<uuid>/<secret>"; the root token has no record, so only its secret
        # counts.
        secret = token.split("/")[2] if token.startswith("v2/") and token.count("/") > 1 else token
        if not self._root or not hmac.compare_digest(secret.encode(), self._root.encode()):
            raise Forbidden("only the system root token may do this")

    async def _index(self, prefix: str) -> AsyncIterator[Stored]:
        for mount in self._mounts.all:
            async with aclosing(mount.volume.index(prefix)) as found:  # type: ignore[type-var]
                # aclosing: a client that disconnects must end the listing of the volume.
                async for stored in found:
                    yield stored

    async def _on_mount(
        self, request: Request, mount: VolumeMount, segments: Sequence[str]
    ) -> Response:
        volume = mount.volume
        match request.method, *segments:
            case "GET", "blocks", *more if len(more) < 2:
                return _listing(volume.index(_prefix(request, more)))
            case "GET", "trash":
                return _listing(volume.discarded())
            case "GET", "space":
                space = await volume.space()
                return JSONResponse({"total": space.total, "free": space.free})
            case "GET", "block", hash:
                return await self._send(mount, hash)
            case "HEAD", "block", hash:
                stored = await volume.head(hash)
                return BlockAnswer(b"", stored.size, {MTIME: str(stored.mtime_ns)})
            case "PUT", "block", hash:
                return await self._receive(request, mount, hash)
            case "POST", "block", hash, verb if verb in _VERBS:
                if mount.is_read_only:
                    raise Forbidden(f"{mount.uuid}: is read-only")
                await _VERBS[verb](mount, hash, _mtime(request))
                return PlainTextResponse("")
        raise Malformed(
            f"{request.method} /mounts/{mount.uuid}/{'/'.join(segments)[:60]}: no such thing"
        )

    async def _send(self, mount: VolumeMount, hash: str) -> Response:
        room = await self._memory.take(locators.MAX_BLOCK, hash)
        try:
            data = await mount.volume.get(hash, room.view)
        except BaseException:
            # The response releases the memory at its end; without a response it is released here.
            room.release()
            raise
        return BlockAnswer(data, len(data), {}, room=room)

    async def _receive(self, request: Request, mount: VolumeMount, hash: str) -> Response:
        if mount.is_read_only:
            raise Forbidden(f"{mount.uuid}: is read-only")
        with await self._memory.take(locators.MAX_BLOCK, hash) as room:
            size = await take_in(request, room, length=None, followers=())
            await mount.volume.put(hash, room.view[:size])
        return PlainTextResponse("")

    async def _work_through(self, verb: str, items: Sequence[Item]) -> list[dict[str, str]]:
        gate = asyncio.Semaphore(_AT_ONCE)
        work = self._trash if verb == "trash" else self._pull

        async def one(item: Item) -> dict[str, str]:
            async with gate:
                try:
                    outcome = await work(item, locators.parse(item.locator).hash)
                except LadingError as error:
                    outcome = error.message
                return {"locator": item.locator, "outcome": outcome}

        return list(await asyncio.gather(*(one(item) for item in items)))

    async def _trash(self, item: Item, hash: str) -> str:
        # A block that was put within the lifetime of signatures may belong to a collection that is
        # still being created.
        if item.block_mtime / 1e9 > self._clock() - self._grace:
            return "kept: put too recently"
        mounts = [self._mounts.find(item.mount_uuid)] if item.mount_uuid else self._mounts.writable
        thrown = 0
        for mount in mounts:
            if mount.is_read_only:
                raise Forbidden(f"{mount.uuid}: is read-only")
            try:
                await self._mounts.attempt(mount, mount.volume.discard(hash, item.block_mtime))
                thrown += 1
            # Mounts without the block are skipped: an item without `mount_uuid` is for all.
            except NotFound:
                continue
        return "trashed" if thrown else "not there"

    async def _pull(self, item: Item, hash: str) -> str:
        mount = self._mounts.find(item.mount_uuid)
        if mount.is_read_only:
            raise Forbidden(f"{mount.uuid}: is read-only")
        with await self._memory.take(locators.MAX_BLOCK, hash) as room:
            data = await self._mounts.get(hash, room.view)
            await self._mounts.attempt(mount, mount.volume.put(hash, data))
        return "copied"

    async def _untrash(self, hash: str) -> Response:
        back = await self._mounts.recover(hash)
        if not back:
            raise NotFound(f"{hash}: not in the trash")
        return PlainTextResponse(f"Untrashed on {', '.join(back)}\n", headers=ANY_ORIGIN)

    async def _change(self, verb: str, hash: str) -> Response:
        if verb == "TOUCH":
            await self._mounts.on_all(hash, lambda volume: volume.touch(hash))
            return PlainTextResponse("", headers=ANY_ORIGIN)
        stored = await self._mounts.head(hash)
        if stored.mtime_ns / 1e9 > self._clock() - self._grace:
            raise Malformed(f"{hash}: was put too recently to be discarded")
        done = await self._mounts.on_all(hash, lambda volume: volume.discard(hash, stored.mtime_ns))
        return JSONResponse({"copies_deleted": len(done), "copies_failed": 0}, headers=ANY_ORIGIN)


def _prefix(request: Request, segments: Sequence[str]) -> str:
    prefix = segments[0] if segments else request.query_params.get("prefix", "")
    if len(prefix) > 32 or not all(digit in "0123456789abcdef" for digit in prefix):
        raise Malformed(f"{prefix[:40]!r}: not the beginning of a hash")
    return prefix


def _mtime(request: Request) -> int:
    text = request.headers.get(MTIME, "0")
    # 20 digits: the largest 64-bit number.
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise Malformed(f"{MTIME}: not a time in nanoseconds")
    return int(text)


async def _read_list(request: Request) -> list[Item]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LISTED:
            raise Malformed(f"the list is longer than {_LISTED} bytes; send it in parts")
    try:
        return msgspec.json.decode(body, type=list[Item])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"not a list of blocks: {error}") from error


def _listing(blocks: AsyncIterator[Stored] | AsyncIterator[Discarded]) -> Response:
    return StreamingResponse(_lines(blocks), media_type="text/plain", headers=ANY_ORIGIN)


async def _lines(blocks: AsyncIterator[Stored] | AsyncIterator[Discarded]) -> AsyncIterator[bytes]:
    """An index; the final empty line is missing if the listing failed."""
    # The status is sent before the listing starts, so that an error can only be shown by a missing
    # end.
    lines: list[str] = []
    try:
        async for block in blocks:
            moment = block.mtime_ns if isinstance(block, Stored) else block.discarded_ns
            lines.append(f"{block.hash}+{block.size} {moment}\n")
            if len(lines) >= _LINES:
                yield "".join(lines).encode()
                lines = []
    except Unavailable:
        yield "".join(lines).encode()
        return
    yield ("".join(lines) + "\n").encode()
