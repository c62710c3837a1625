"""Files of collections over HTTP, as one ASGI application.

    GET, HEAD                               files, directories, archives (`serving`)
    PROPFIND, PROPPATCH                     properties; Depth 0, 1 or infinity (default)
    PUT, DELETE, MKCOL, COPY, MOVE          changes (`writing`)
    LOCK, UNLOCK                            locks (`locks`)
    OPTIONS                                 allowed methods, also for other origins (CORS)

The API decides on permissions: it is called with the token of the request, or with the anonymous
user's token. Errors are one line of text with a documented status. Addresses can hold tokens and
are never logged.

`credentials` finds the token of a call.

Source: docs/spec/api, section Files over HTTP.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.requests import Request as Incoming
from starlette.types import ASGIApp, Receive, Scope, Send

from lading.core.data import dead_properties, filetree
from lading.core.data.dead_properties import DeadProperties
from lading.core.data.filetree import FileTree
from lading.core.errors import Forbidden, LadingError, Malformed, MethodNotAllowed, from_status
from lading.fileserving import responses
from lading.fileserving.bodies import read_paced
from lading.fileserving.collection_cache import CachedCollection, tag_of
from lading.fileserving.responses import FileResponse
from lading.fileserving.services import FileServices
from lading.net.acceptor import note_known, note_token
from lading.webdav import davxml, file_request, projects
from lading.webdav.credentials import find_credential, session_cookie
from lading.webdav.davxml import Resource
from lading.webdav.file_request import DavRequest, DavServices, FileAddress
from lading.webdav.locks import Locks
from lading.webdav.projects import ProjectDirectory
from lading.webdav.serving import LISTING_HEADERS, serve
from lading.webdav.writing import DavWriter, read_small

METHODS: Final = (
    "OPTIONS, GET, HEAD, PROPFIND, PROPPATCH, PUT, DELETE, MKCOL, COPY, MOVE, LOCK, UNLOCK"
)
_COMMON: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Content-Range, Content-Length, ETag, DAV",
}
_OFFERED: Final = {
    "Allow": METHODS,
    "DAV": "1, 2",
    "MS-Author-Via": "DAV",
    "Access-Control-Allow-Methods": METHODS,
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Depth, Destination, If, "
    "If-Match, If-None-Match, Lock-Token, Overwrite, Range, Timeout, Cache-Control",
    # Seconds that browsers may cache the permission: a day.
    "Access-Control-Max-Age": "86400",
}
# Levels below a resource for each value of Depth.
_DEPTHS: Final = {"0": 0, "1": 1, "infinity": math.inf}
_logger = logging.getLogger("lading.webdav")
# Methods that the cookie permits.


def make_app(files: FileServices, *, anonymous: str = "", min_rate: int = 0) -> ASGIApp:
    """The application; it owns `file_request.PREFIXES`.

    `anonymous` is the token for requests without one, "" to refuse these; `min_rate` is the least
    rate of a body in bytes a second.
    """
    locks = Locks(clock=time.monotonic, new_token=lambda: f"urn:uuid:{uuid.uuid4()}")
    return _Gateway(DavServices(files=files, locks=locks), anonymous, min_rate)


class _Gateway:
    def __init__(self, parts: DavServices, anonymous: str, rate: int) -> None:
        self._rate = rate
        self._parts = parts
        self._anonymous = anonymous
        writer = DavWriter(parts)
        self._handlers: dict[str, Callable[[DavRequest], Awaitable[FileResponse]]] = {
            "GET": self._serve,
            "HEAD": self._serve,
            "PROPFIND": self._find_properties,
            "PROPPATCH": writer.patch_properties,
            "PUT": writer.put,
            "DELETE": writer.delete,
            "MKCOL": writer.make_directory,
            "COPY": writer.copy,
            "MOVE": writer.move,
            "LOCK": writer.lock,
            "UNLOCK": writer.unlock,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        try:
            answer = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        except LadingError as error:
            answer = _refusal(error)
        except (
            Exception
        ):  # the boundary of a request: a fault of the server must not end the connection
            _logger.exception("request failed method=%s", method)
            answer = _refusal(LadingError("internal error: see the server's log"))
        await responses.send_response(answer, method, receive, send, common=_COMMON)

    # Addresses are not logged: they may contain tokens.
    async def _answer(self, scope: Scope, receive: Receive) -> FileResponse:
        method: str = scope["method"]
        if method == "OPTIONS":
            return FileResponse(headers=dict(_OFFERED))
        raw = _raw_path(scope)
        elements = projects.parse(raw)
        address = (
            file_request.parse_address(raw)
            if elements is None
            else FileAddress(collection="", path="", folder=raw.endswith("/"), root=raw.rstrip("/"))
        )
        incoming = Incoming(scope, receive)
        headers = {name: ", ".join(incoming.headers.getlist(name)) for name in incoming.headers}
        query = scope["query_string"].decode("latin-1")
        # A service worker could intercept all requests of this origin, and so steal tokens.
        if headers.get("service-worker"):
            raise Forbidden(
                "Forbidden: a file of a collection is no service worker"
                " for the pages of this origin"
            )
        credential = find_credential(
            # Before anything else is examined: a token may be in the address.
            method,
            address,
            headers,
            query,
            scheme=str(scope.get("scheme", "https")),
        )
        if credential.onward:
            go = {"Location": credential.onward, "Set-Cookie": session_cookie(credential.token)}
            return FileResponse(status=303, headers={**go, "Referrer-Policy": "no-referrer"})
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotAllowed(f"{method[:20]}: is not offered here; these are: {METHODS}")
        token = self._parts.files.collections.token(credential.token)
        await note_token(scope, credential.token)
        if elements is not None:
            found_there = await projects.resolve(
                self._parts.files.collections.api(token), elements, folder=address.folder
            )
            if isinstance(found_there, ProjectDirectory):
                return await self._answer_above(method, address, found_there, headers, incoming)
            address = found_there
        body = read_paced(incoming, self._rate)
        request = DavRequest(
            method=method, address=address, token=token, headers=headers, query=query, body=body
        )
        # Otherwise anybody could send large bodies without a valid token.
        if method != "PUT" and ("transfer-encoding" in headers or request.length):
            # The body is read only after the API has shown the collection to the caller.
            await self._parts.files.collections.open(address.collection, token)
        answer = await handler(request)
        if token != self._anonymous and answer.status < 400:
            # The API accepted the token.
            note_known(scope)
        return answer

    async def _serve(self, request: DavRequest) -> FileResponse:
        return await serve(self._parts, request)

    async def _answer_above(
        self,
        method: str,
        address: FileAddress,
        directory: ProjectDirectory,
        headers: Mapping[str, str],
        incoming: Incoming,
    ) -> FileResponse:
        """The response about a directory above collections, which is only read."""
        if method == "PROPFIND":
            request = DavRequest(
                method=method,
                address=address,
                token="",
                headers=headers,
                query="",
                body=read_paced(incoming, self._rate),
            )
            question = davxml.read_question(await read_small(request))
            if (depth := headers.get("depth", "infinity").strip().lower()) not in ("0", "1"):
                raise Forbidden("Forbidden: Depth: directories of projects have 0 or 1")
            found = davxml.multistatus(_above(directory, depth), question)
            return FileResponse(
                status=207, headers={"Content-Type": davxml.CONTENT_TYPE}, stream=_encoded(found)
            )
        if method not in ("GET", "HEAD"):
            raise from_status(
                405,
                f"{method[:20]}: only files of collections are written; the API makes projects",
            )
        # Relative links need the slash.
        if not address.folder:
            return FileResponse(status=302, headers={"Location": f"{directory.root}/"})
        body = projects.page(directory).encode()
        return FileResponse(
            headers={**LISTING_HEADERS, "Cache-Control": "private, no-store"}, body=body
        )

    async def _find_properties(self, request: DavRequest) -> FileResponse:
        question = davxml.read_question(await read_small(request))
        depth = request.headers.get("depth", "infinity").strip().lower()
        if depth not in _DEPTHS:
            raise Malformed(f"Depth: must be {', '.join(_DEPTHS)}")
        address = request.address
        collection = await self._parts.files.collections.open(address.collection, request.token)
        filetree.get(collection.tree, address.path)
        found = davxml.multistatus(
            self._resources(collection, address, levels=_DEPTHS[depth]), question
        )
        return FileResponse(
            status=207, headers={"Content-Type": davxml.CONTENT_TYPE}, stream=_encoded(found)
        )

    def _resources(
        self, collection: CachedCollection, address: FileAddress, *, levels: float
    ) -> Iterator[Resource]:
        """The resource at an address and the resources below it, down to a depth; a directory
        before its members.
        """
        # A stack instead of recursion: depth and number of directories are the user's choice.
        dead = dead_properties.read(collection.properties)
        waiting: list[tuple[str, filetree.Node, float]] = [
            (address.path, filetree.get(collection.tree, address.path), levels)
        ]
        while waiting:
            path, node, left = waiting.pop()
            yield self._resource(collection, address, path, node, dead)
            if left > 0 and isinstance(node, FileTree):
                above = f"{path}/" if path else ""
                waiting += [
                    (above + name, node.entries[name], left - 1)
                    # In reverse, as the last one is taken first.
                    for name in sorted(node.entries, reverse=True)
                ]

    def _resource(
        self,
        collection: CachedCollection,
        address: FileAddress,
        path: str,
        node: filetree.Node,
        dead: DeadProperties,
    ) -> Resource:
        return Resource(
            href=address.url(path, folder=isinstance(node, FileTree)),
            name=path.rpartition("/")[2] or collection.name,
            node=node,
            tag=tag_of(node),
            modified=collection.modified,
            locks=tuple(self._parts.locks.covering(address.collection, path)),
            dead=davxml.checked(dead.get(path, {})),
        )


def _above(directory: ProjectDirectory, depth: str) -> Iterator[Resource]:
    """A directory above collections, and with depth 1 those in it."""
    empty = FileTree({})
    yield Resource(href=f"{directory.root}/", name=directory.name, node=empty)
    for name in directory.names if depth == "1" else ():
        yield Resource(href=f"{directory.root}/{quote(name)}/", name=name, node=empty)


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    try:
        return raw.partition(b"?")[0].decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the path is not percent-encoded") from None


def _refusal(error: LadingError) -> FileResponse:
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    # Browsers ask for a user and a password; the password is the token.
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="collections"'
    if error.status == 405:
        headers["Allow"] = METHODS
    text = " ".join(error.message.split())
    return FileResponse(status=error.status, headers=headers, body=f"{text}\n".encode())


async def _encoded(pieces: Iterator[str]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece.encode()
