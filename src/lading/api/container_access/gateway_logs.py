"""Growing logs from the gateways of Arvados' supervisors.

Supervisors of Lading post what is added to their logs. Arvados' crunch-run posts nothing; its
gateway serves the log over WebDAV during the run, to a server that proves itself
(`gateway_client`):

    GET, PROPFIND /arvados/v1/container_requests/UUID/log/CONTAINER/FILE
    X-Webdav-Prefix    the part of the path before /FILE
    X-Webdav-Source    /log

This server remembers the kind of a container's supervisor by the token with which the supervisor
reported that the container runs, or opened its tunnel. Another server, and one that was started
since, asks the gateway once, unless a log was posted or the container started only now. Where
another server has the tunnel of the container, the call is passed on to that server, unless the
supervisor posts to this one. For a
supervisor of Lading that server answers with what was posted to it, as to a server that has a data
directory of its own, and with 421 when nothing was. The answers come from a worker: only lengths
and ranges of their heads are passed on, and every file is plain text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Final
from urllib.parse import quote, unquote
from xml.sax.saxutils import unescape

from lading.api.container_access import log_files
from lading.api.container_access.gateway_client import elsewhere, make_claim, reach
from lading.api.container_access.supervisor_registry import SupervisorKind
from lading.api.http import ApiCall, ApiResponse
from lading.api.services import ApiServices
from lading.core.containers.container import HELD, Container
from lading.core.errors import Corrupt, Malformed, NotFound, Unavailable, from_status
from lading.core.protocols import http_head
from lading.core.protocols.forwarding_claims import HEADER, Purpose
from lading.core.protocols.http_head import HttpHead
from lading.core.quantities import format_time
from lading.net.http_bodies import read_body
from lading.net.http_upgrade import TIMEOUT, parse_url, trusting
from lading.net.pipes import Pipe, read_head

# 421 Misdirected Request (RFC 9110, 15.5.20): the supervisor has moved to another server.
MISDIRECTED: Final = 421

# crunch-run answers so for a directory.
_NO_FILE: Final = 405

# By then a supervisor of Lading has posted something.
_FIRST_POST: Final = timedelta(seconds=5)

# Headers that are passed on; 18 digits hold every file size. The range of an empty file ends before
# it begins, and clients learn from it that the file is empty.
_RANGE: Final = re.compile(r"bytes (?:\d{1,18}-\d{1,18}/\d{1,18}|0--1/0)")

# 18 digits fit in 64 bits, whatever a foreign gateway sends.
_DIGITS: Final = re.compile(r"\d{1,18}")

# The element of RFC 4918, section 14.7, as our own gateways write it.
_HREF: Final = re.compile(rb"<D:href>([^<]*)</D:href>")

# Bytes of a listing: a gateway is on a machine that may be hostile.
_LONGEST_LISTING: Final = 1 << 20

_TEXT: Final = "text/plain; charset=utf-8"

_XML: Final = "application/xml; charset=utf-8"


def is_gateway_source(services: ApiServices, container: Container | None, uuid: str) -> bool:
    """Whether the log of the container `uuid` may be at a gateway, or at the server that has its
    tunnel: `container` is that one, and is Locked or Running.
    """
    if (
        container is None
        or container.uuid != uuid
        or container.state not in HELD
        or not container.gateway_address
    ):
        return False
    supervisor = services.access.supervisors.find(container)
    if supervisor is not None and supervisor.kind is SupervisorKind.ARVADOS:
        return True
    is_elsewhere = (
        elsewhere(services.config, services.access, container, forwarded=False) is not None
    )
    if services.access.spool.names(uuid):
        services.access.supervisors.note(container, SupervisorKind.LADING)
        return not services.access.spool.is_current(uuid) and is_elsewhere
    if supervisor is not None:
        return is_elsewhere
    latest = format_time(services.clock.time() - _FIRST_POST)
    return container.started_at is not None and container.started_at < latest


async def serve_gateway_logs(call: ApiCall, container: Container) -> ApiResponse | None:
    """Answer a path below `log/` from the container's gateway; None when the supervisor is one of
    Lading.

    Raises NotFound, RequestError for a range that is not there, Unavailable when the gateway does
    not answer.
    """
    path = call.subpath.partition("/")[2].strip("/")
    if call.method == log_files.PROPFIND:
        return await _describe(call, container, path)
    if path:
        found = await _ask(call, container, path, "GET", _forwarded_header(call, "range"))
        if found is None:
            return None
        pipe, head = found
        if head.status in (200, 206):
            return await _stream(pipe, head, _TEXT)
        _drop(pipe)
        if head.status != _NO_FILE:
            raise _fault(head, path)
    names = await _names(call, container, path)
    return (
        None if names is None else ApiResponse(body={"items": [{"name": name} for name in names]})
    )


async def read_gateway_part(
    call: ApiCall, container: Container, name: str, start: int, length: int
) -> bytes | None:
    """At most `length` bytes of a file from `start`, b"" when there are none; None as `serve` does.

    Raises Unavailable when the gateway does not answer.
    """
    found = await _ask(
        call, container, name, "GET", {"Range": f"bytes={start}-{start + length - 1}"}
    )
    if found is None:
        return None
    pipe, head = found
    try:
        # Where a file ends before `start`, a gateway answers 416, or 200 when the file is empty.
        return await _read(pipe, head, length) if head.status == 206 else b""
    finally:
        _drop(pipe)


async def copy_posted(call: ApiCall, container: Container) -> None:
    """Copy to this server what a supervisor has posted of its log to the server that had its
    tunnel, if that is another one. `call` is one about a request of the container.

    Raises Unavailable when that server does not answer, and as `_ask` and `Spool.append`.
    """
    services, uuid = call.services, container.uuid
    is_here = services.access.spool.is_current(uuid)
    if is_here or elsewhere(services.config, services.access, container, forwarded=False) is None:
        return
    for name in await _names(call, container, "") or ():
        found = await _ask(call, container, name, "GET", {})
        if found is None:
            return
        pipe, head = found
        length = 0
        async with aclosing(_pieces(pipe, head)) as pieces:
            async for piece in pieces:
                if head.status == 200 and piece:
                    length = services.access.spool.append(uuid, name, piece, offset=length)


async def _describe(call: ApiCall, container: Container, path: str) -> ApiResponse | None:
    depth = "0" if call.headers.get("depth") == "0" else "1"
    found = await _ask(call, container, path, log_files.PROPFIND, {"Depth": depth})
    if found is None:
        return None
    pipe, head = found
    if head.status == 207:
        return await _stream(pipe, head, _XML)
    _drop(pipe)
    raise _fault(head, path)


async def _names(call: ApiCall, container: Container, path: str) -> list[str] | None:
    """The names in a directory of the log."""
    opened = await _ask(call, container, path, log_files.PROPFIND, {"Depth": "1"})
    if opened is None:
        return None
    pipe, head = opened
    try:
        if head.status != 207:
            raise _fault(head, path)
        listing = await _read(pipe, head, _LONGEST_LISTING)
    finally:
        _drop(pipe)
    own = f"{_prefix(call, container)}/{path}".rstrip("/")
    paths = (
        unquote(unescape(href.decode(errors="replace"))).rstrip("/")
        for href in _HREF.findall(listing)
    )
    return sorted(entry_path.rpartition("/")[2] for entry_path in paths if entry_path != own)


async def _ask(
    call: ApiCall, container: Container, path: str, method: str, fields: Mapping[str, str]
) -> tuple[Pipe, HttpHead] | None:
    """The head of the response, and the connection with its body; None as in `serve`."""
    services = call.services
    url = elsewhere(services.config, services.access, container, forwarded=HEADER in call.headers)
    if url is not None:
        pipe = await parse_url(url, trusting(services.access.certificate)).open()
        claim = make_claim(
            services.clock,
            services.access,
            url,
            call.caller,
            container.uuid,
            Purpose.LOG,
            address=call.address,
        )
        sent = {
            "Host": url.removeprefix("https://").rstrip("/"),
            "X-Request-Id": call.request_id,
            **claim,
        }
    else:
        gateway = await reach(services.access, container)
        kind = SupervisorKind.LADING if gateway.is_ours else SupervisorKind.ARVADOS
        services.access.supervisors.note(container, kind, key=gateway.key)
        if gateway.is_ours:
            _drop(gateway.pipe)
            return None
        pipe = gateway.pipe
        source = {"X-Webdav-Prefix": _prefix(call, container), "X-Webdav-Source": "/log"}
        sent = {"Host": container.uuid, **source, **gateway.headers}
    target = quote(f"{_prefix(call, container)}/{path}")
    request = HttpHead(
        f"{method} {target} HTTP/1.1", tuple({**sent, **fields, "Connection": "close"}.items())
    )
    try:
        pipe.writer.write(http_head.parse_request(request.encode()).encode())
        head = http_head.parse_answer(await read_head(pipe, timeout=TIMEOUT))
        if url is None:
            gateway.check(head)
    except BaseException as error:
        _drop(pipe)
        if isinstance(error, OSError | Malformed):
            raise Unavailable("the connection to the container broke; try again") from error
        raise
    if url is not None and head.status == MISDIRECTED:
        services.access.supervisors.note(container, SupervisorKind.LADING)
        _drop(pipe)
        return None
    return pipe, head


def _prefix(call: ApiCall, container: Container) -> str:
    return f"/arvados/v1/container_requests/{call.uuid}/log/{container.uuid}"


def _forwarded_header(call: ApiCall, name: str) -> dict[str, str]:
    return {name.title(): call.headers[name]} if name in call.headers else {}


async def _stream(pipe: Pipe, head: HttpHead, media: str) -> ApiResponse:
    headers = {"Content-Type": media, "Accept-Ranges": "bytes"}
    for name, form in (("Content-Length", _DIGITS), ("Content-Range", _RANGE)):
        if form.fullmatch(head.get(name.lower())):
            headers[name] = head.get(name.lower())
    stream = _pieces(pipe, head)
    await anext(stream)
    return ApiResponse(stream=stream, status=head.status, headers=headers)


async def _pieces(pipe: Pipe, head: HttpHead) -> AsyncGenerator[bytes]:
    try:
        # The caller takes this empty piece at once: from then on, closing the generator ends the
        # connection.
        yield b""
        async with aclosing(read_body(pipe.reader, head, method="GET")) as body:
            while True:
                async with asyncio.timeout(TIMEOUT):
                    piece = await anext(body, b"")
                if not piece:
                    return
                yield piece
    except TimeoutError as error:
        raise Unavailable(
            "the gateway of the container stopped in the middle of its answer; try again"
        ) from error
    finally:
        _drop(pipe)


async def _read(pipe: Pipe, head: HttpHead, most: int) -> bytes:
    """A short body. Raises Corrupt when it is longer than `most`."""
    data = bytearray()
    async with aclosing(_pieces(pipe, head)) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > most:
                raise Corrupt("the gateway of the container sent more than was requested")
    return bytes(data)


def _fault(head: HttpHead, path: str) -> Exception:
    if head.status == 404:
        return NotFound(f"Path not found: no log {path[:80]!r} yet")
    if head.status == 416:
        return from_status(416, "Range: these bytes are not there")
    return Unavailable(
        f"the gateway of the container answered {head.status} for its log; try again in a moment"
    )


def _drop(pipe: Pipe) -> None:
    """End a connection whose remaining bytes are not wanted."""
    pipe.writer.transport.abort()
