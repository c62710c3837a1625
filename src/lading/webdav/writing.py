"""PUT, DELETE, MKCOL, COPY, MOVE, LOCK and UNLOCK: changes to the files of a collection.

A change is computed from the present collection and sent with its etag. If another writer was
faster, it is computed again, so concurrent writers never lose each other's files. Writers to one
collection run one after another in this server, which avoids most repetitions. Data is durable
before the collection names it, and the collection before the response.

`edits` translates writes into `replace_files`, or into the WebDAV status of an invalid write. Dead
properties change in the same call. Source: RFC 4918, 9.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.client.blocks import BlockClient
from lading.core.data import dead_properties, filetree, tree_changes
from lading.core.data.dead_properties import DeadProperties
from lading.core.data.filetree import File, FileTree
from lading.core.errors import (
    Conflict,
    Forbidden,
    Full,
    Malformed,
    NotFound,
    TooLarge,
    from_status,
)
from lading.fileserving import conditions
from lading.fileserving.changes import ConcurrentChanges, Edit, Follow, Plan, fixed, unchanged
from lading.fileserving.collection_cache import RETRY, CachedCollection, tag_of
from lading.fileserving.conditions import ConditionResult, ResourceState
from lading.fileserving.responses import FileResponse
from lading.webdav import davxml, file_request, locks
from lading.webdav.edits import (
    REPLACED,
    UPLOADED,
    Transfer,
    edit_delete,
    edit_make_directory,
    edit_put,
    edit_receive,
    edit_transfer,
)
from lading.webdav.file_request import DavRequest, DavServices, FileAddress
from lading.webdav.locks import LockCondition


@dataclass(frozen=True, slots=True)
class _Place:
    """A collection and a path in it."""

    collection: str
    path: str


class DavWriter:
    """Executes writes."""

    def __init__(self, parts: DavServices) -> None:
        self._parts = parts
        self._changes = ConcurrentChanges(parts.files.collections)

    async def put(self, request: DavRequest) -> FileResponse:
        """Store the body as a file."""
        address = request.address
        if "content-range" in request.headers:
            raise Malformed("Content-Range: a file is put whole")
        if address.folder:
            raise from_status(405, f"/{address.path}: ends in a slash; make a directory with MKCOL")
        # Refuse an invalid write before the body is read.
        collection = await self._open(address, request)
        self._check_conditions(request, collection)
        edit_put(collection.tree, address.path)
        self._check_locks(request, _Place(address.collection, address.path))
        blocks = BlockClient(self._parts.files.collections.transport, request.token, retry=RETRY)
        file = await self._parts.files.intake.store(
            blocks, request.body, length=request.length, holder=request.holder
        )
        uploaded = filetree.to_manifest(FileTree({UPLOADED: file}))

        def plan(collection: CachedCollection) -> Edit:
            self._check_conditions(request, collection)
            return edit_put(collection.tree, address.path)

        # Again: a lock may have been taken while the body came.
        self._check_locks(request, _Place(address.collection, address.path))
        edit = await self._change(request, address, plan, uploaded=uploaded)
        return FileResponse(status=edit.status, headers={"ETag": f'"{tag_of(file)}"'})

    async def delete(self, request: DavRequest) -> FileResponse:
        """Delete a file or directory."""
        target = _Place(request.address.collection, request.address.path)

        def plan(collection: CachedCollection) -> Edit:
            self._check_conditions(request, collection)
            self._check_locks(request, target, below=True)
            return edit_delete(collection.tree, target.path)

        edit = await self._change(
            request,
            request.address,
            plan,
            dead=lambda dead: dead_properties.without(dead, target.path),
        )
        # The locks of deleted paths would never be released.
        self._parts.locks.forget(target.collection, target.path)
        return FileResponse(status=edit.status)

    async def make_directory(self, request: DavRequest) -> FileResponse:
        """MKCOL."""
        if await read_small(request):
            raise from_status(415, "MKCOL: no body is taken")
        place = _Place(request.address.collection, request.address.path)

        def plan(collection: CachedCollection) -> Edit:
            self._check_conditions(request, collection)
            self._check_locks(request, place)
            return edit_make_directory(collection.tree, place.path)

        return FileResponse(status=(await self._change(request, request.address, plan)).status)

    async def copy(self, request: DavRequest) -> FileResponse:
        """COPY."""
        return await self._transfer(request, away=False)

    async def move(self, request: DavRequest) -> FileResponse:
        """MOVE; from one collection to another it is a COPY, then a DELETE."""
        return await self._transfer(request, away=True)

    async def lock(self, request: DavRequest) -> FileResponse:
        """LOCK: a new lock, or with an If header and no body the extension of an existing one."""
        address, body = request.address, await read_small(request)
        seconds = locks.read_timeout(request.headers.get("timeout", ""))
        href = address.url(address.path)
        if not body:
            tokens = locks.tokens_of(request.headers.get("if", ""))
            await self._open(address, request)
            found = self._parts.locks.refresh(
                address.collection, address.path, tokens=tokens, seconds=seconds
            )
            return _locked(200, found.token, davxml.lock_answer(found, href))
        owner, is_shared = davxml.read_lock(body)
        depth = request.headers.get("depth", "infinity").strip().lower()
        if depth not in ("0", "infinity"):
            raise Malformed("Depth: a lock has 0 or infinity")
        collection = await self._open(address, request)
        self._check_conditions(request, collection)
        # The lock first, then the file: no other client can write in between.
        missing = filetree.find(collection.tree, address.path) is None
        lock = self._parts.locks.take(
            address.collection,
            address.path,
            deep=depth != "0",
            owner=owner,
            holder=request.holder,
            seconds=seconds,
            shared=is_shared,
        )
        try:
            if missing:
                # A lock on a missing path creates an empty file (RFC 4918, 7.3).
                uploaded = filetree.to_manifest(FileTree({UPLOADED: File()}))
                await self._change(
                    request, address, lambda now: _reserve(now, address), uploaded=uploaded
                )
        except BaseException:
            # The client does not get its token and could not release the lock before its time.
            self._parts.locks.release(
                address.collection, address.path, lock.token, holder=request.holder
            )
            raise
        return _locked(201 if missing else 200, lock.token, davxml.lock_answer(lock, href))

    async def unlock(self, request: DavRequest) -> FileResponse:
        """UNLOCK."""
        address = request.address
        token = request.headers.get("lock-token", "").strip().removeprefix("<").removesuffix(">")
        if not token:
            raise Malformed("Lock-Token: send the token of the lock, in angle brackets")
        await self._open(address, request)
        self._parts.locks.release(address.collection, address.path, token, holder=request.holder)
        return FileResponse(status=204)

    async def patch_properties(self, request: DavRequest) -> FileResponse:
        """PROPPATCH: all changes; no change when one is of a property of the server."""
        changes = davxml.read_update(await read_small(request))
        address = request.address
        href, names = address.url(address.path), [name for name, _ in changes]
        collection = await self._parts.files.collections.open(address.collection, request.token)
        filetree.get(collection.tree, address.path)
        status = "" if collection.editable else "403 Forbidden"
        if not status and not any(map(davxml.is_protected, names)):
            target = _Place(address.collection, address.path)

            def plan(now: CachedCollection) -> Edit:
                filetree.get(now.tree, address.path)
                self._check_conditions(request, now)
                self._check_locks(request, target, member=False)
                return Edit({}, REPLACED)

            try:
                await self._change(
                    request,
                    address,
                    plan,
                    dead=lambda dead: dead_properties.patched(dead, address.path, changes),
                )
            except Full:
                status = "507 Insufficient Storage"
        body = davxml.update_answer(href, names, status=status).encode()
        return FileResponse(status=207, headers={"Content-Type": davxml.CONTENT_TYPE}, body=body)

    async def _transfer(self, request: DavRequest, *, away: bool) -> FileResponse:
        source = request.address
        target = file_request.parse_destination(
            request.headers.get("destination", ""), host=request.headers.get("host", "")
        )
        move = Transfer(
            source=source.path,
            target=target.path,
            overwrite=request.headers.get("overwrite", "T").strip().upper() != "F",
            # A MOVE is always complete (RFC 4918, 9.9.2).
            shallow=request.headers.get("depth", "infinity").strip() == "0" and not away,
            away=away,
        )
        places = (_Place(source.collection, source.path), _Place(target.collection, target.path))
        if source.collection == target.collection:

            def plan(collection: CachedCollection) -> Edit:
                self._check_transfer(request, collection, places, away=away)
                return edit_transfer(collection.tree, move)

            def follow(dead: DeadProperties) -> DeadProperties:
                after = dead_properties.received(
                    dead, dead, move.source, move.target, shallow=move.shallow
                )
                return dead_properties.without(after, move.source) if away else after

            edit = await self._change(request, source, plan, dead=follow)
        else:
            edit = await self._across(request, target, move, places)
        if away:
            self._parts.locks.forget(source.collection, source.path)
        return FileResponse(
            status=edit.status,
            headers={"Location": target.url(target.path)} if edit.status == 201 else {},
        )

    async def _across(
        self,
        request: DavRequest,
        target: FileAddress,
        move: Transfer,
        places: tuple[_Place, _Place],
    ) -> Edit:
        collection = await self._parts.files.collections.open(
            request.address.collection, request.token
        )
        if move.away and not collection.editable:
            raise fixed(request.address.collection)
        self._check_transfer(request, collection, places, away=move.away)
        node = filetree.get(collection.tree, move.source)
        if move.away and not move.source:
            raise Forbidden("Forbidden: /: a collection itself is not moved; move its files")

        # The source is a fixed content, so that a change of it during the copy does not matter.
        edit = await self._change(
            request,
            target,
            lambda now: edit_receive(now.tree, move, node=node, origin=collection.pdh),
            dead=lambda dead: dead_properties.received(
                dead,
                dead_properties.read(collection.properties),
                move.source,
                move.target,
                shallow=move.shallow,
            ),
        )
        if move.away:
            await self._change(
                request,
                request.address,
                lambda now: _take_away(now, move.source, node),
                dead=lambda dead: dead_properties.without(dead, move.source),
            )
        return edit

    async def _change(
        self,
        request: DavRequest,
        address: FileAddress,
        plan: Plan,
        *,
        uploaded: str = "",
        dead: Follow = unchanged,
    ) -> Edit:
        """Apply the edit that `plan` computes from the present collection; `dead` says what becomes
        of its dead properties.
        """
        return await self._changes.apply(
            address.collection, request.token, plan, uploaded=uploaded, dead=dead
        )

    async def _open(self, address: FileAddress, request: DavRequest) -> CachedCollection:
        return await self._changes.open(address.collection, request.token)

    def _check_conditions(self, request: DavRequest, collection: CachedCollection) -> None:
        path = request.address.path
        node = filetree.find(collection.tree, path)
        # A directory has no tag; the content of the collection stands for it.
        state = (
            ResourceState(tag_of(node) or collection.pdh, collection.modified)
            if node is not None
            else ResourceState()
        )
        if (
            conditions.judge_conditions(request.headers, state, reads=False)
            is not ConditionResult.GO_ON
        ):
            raise from_status(412, f"/{path}: does not meet the conditions of the request")
        header = request.headers.get("if", "")
        if header and not any(
            self._holds(request, collection, about, terms) for about, terms in _lists(header)
        ):
            raise from_status(
                412, f"/{path}: If: none of the conditions holds; a lock may have ended"
            )

    def _holds(
        self,
        request: DavRequest,
        collection: CachedCollection,
        about: str,
        terms: list[LockCondition],
    ) -> bool:
        address = request.address
        if about:
            address = file_request.parse_destination(about, host=request.headers.get("host", ""))
        # A condition holds if one of its lists does, and a list if all its terms do (RFC 4918,
        # 10.4).
        tokens = {
            lock.token for lock in self._parts.locks.covering(address.collection, address.path)
        }
        node = (
            filetree.find(collection.tree, address.path)
            if address.collection == request.address.collection
            else None
        )
        tag = tag_of(node) if node is not None else ""
        return all(
            (term.token in tokens if term.token else bool(tag) and term.tag == tag)
            is not term.negated
            for term in terms
        )

    def _check_locks(
        self, request: DavRequest, target: _Place, *, below: bool = False, member: bool = True
    ) -> None:
        """Check the locks; with `member` the write may add or remove a name in the directory."""
        tokens = locks.tokens_of(request.headers.get("if", ""))
        self._parts.locks.check(
            target.collection,
            target.path,
            tokens=tokens,
            holder=request.holder,
            below=below,
            member=member,
        )

    def _check_transfer(
        self,
        request: DavRequest,
        collection: CachedCollection,
        places: tuple[_Place, _Place],
        *,
        away: bool,
    ) -> None:
        self._check_conditions(request, collection)
        self._check_locks(request, places[1], below=True)
        if away:
            self._check_locks(request, places[0], below=True)


def _reserve(collection: CachedCollection, address: FileAddress) -> Edit:
    there = filetree.find(collection.tree, address.path) is not None
    return Edit({}, REPLACED) if there else edit_put(collection.tree, address.path)


def _take_away(collection: CachedCollection, path: str, node: filetree.Node) -> Edit:
    """Delete the source of a move, unless it is gone or was changed."""
    try:
        same = not tree_changes.diff(_alone(filetree.get(collection.tree, path)), _alone(node))
    except NotFound:
        return Edit({}, REPLACED)
    if not same:
        raise Conflict(
            f"/{path}: was changed while it was moved; it was copied, and is still there"
        )
    return edit_delete(collection.tree, path)


def _alone(node: filetree.Node) -> FileTree:
    return FileTree({UPLOADED: node})


def _lists(header: str) -> list[tuple[str, list[LockCondition]]]:
    found = locks.read_conditions(header)
    if not found:
        raise Malformed("If: names no conditions")
    return found


def _locked(status: int, token: str, body: str) -> FileResponse:
    headers = {"Content-Type": davxml.CONTENT_TYPE, "Lock-Token": f"<{token}>"}
    return FileResponse(status=status, headers=headers, body=body.encode())


async def read_small(request: DavRequest) -> bytes:
    """Read a small body. Raises TooLarge."""
    data = bytearray()
    async for piece in request.body:
        data += piece
        if len(data) > davxml.MAX_DOCUMENT:
            raise TooLarge(
                f"request body: at most {davxml.MAX_DOCUMENT} bytes are taken with {request.method}"
            )
    return bytes(data)
