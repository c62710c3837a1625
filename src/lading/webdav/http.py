"""HTTP of files: responses, conditional requests, and headers by media type.

- Responses are whole bodies, or streams that end when the reader disconnects. A stream whose source
  fails after its start is aborted, so that no reader takes a part for the whole.
- Conditions (RFC 9110, 13): If-Match and If-Unmodified-Since refuse with 412. If-None-Match and
  If-Modified-Since answer a reader with 304 and a writer with 412. If-Match and If-Range use the
  strong comparison of entity tags, If-None-Match the weak one.
- Headers: files come from users and are served from the origin of the API. So every file is sent
  with `nosniff`, and every type that a browser could run (HTML, SVG, XML, all types not known as
  harmless) in a sandbox without scripts and origin. The type follows from the name by a table in
  this module, since the tables of machines differ.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum
from mimetypes import MimeTypes
from typing import Final
from urllib.parse import quote

from starlette.types import Receive, Send

from lading.core.errors import LadingError
from lading.process.telemetry import event

# Seconds without progress.
_STALLED = 600.0
_logger = logging.getLogger("lading.webdav")


@dataclass(slots=True, kw_only=True)
class DavResponse:
    """A response: status, headers, and a body, which is `stream` if set, else `body`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncGenerator[bytes] | None = None


async def begin_stream(stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same stream with its first piece fetched, so that an early error gets its own status."""
    try:
        first = await anext(stream, b"")
    except BaseException:
        # The body will not be iterated over any more, so its files would stay open.
        await stream.aclose()
        raise
    rest = _rest(first, stream)
    # After the start, closing this generator closes the stream.
    await anext(rest)
    return rest


async def send_response(
    answer: DavResponse, method: str, receive: Receive, send: Send, *, common: Mapping[str, str]
) -> None:
    """Send a response, without a body for HEAD."""
    headers = {**common, **answer.headers}
    # 204 and 304 have no body, and no length.
    if answer.stream is None and answer.status not in (204, 304):
        headers.setdefault("Content-Length", str(len(answer.body)))
    lines = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
    start = {"type": "http.response.start", "status": answer.status, "headers": lines}
    if answer.stream is None or method == "HEAD":
        if answer.stream is not None:
            # HEAD has the headers of a GET; its stream is not started.
            await answer.stream.aclose()
        await send(start)
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})
        return
    # Both at once: the source may wait for a block while the reader has left.
    sending = asyncio.create_task(_send_stream(answer.stream, start, send), name="answer")
    leaving = asyncio.create_task(_left(receive), name="reader")
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    # Errors of sending are raised here.
    if not sending.cancelled():
        sending.result()


async def _send_stream(stream: AsyncGenerator[bytes], start: dict[str, object], send: Send) -> None:
    async with aclosing(stream):
        await send(start)
        try:
            async for piece in stream:
                # A stalled reader must not hold open files forever.
                async with asyncio.timeout(_STALLED):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except (LadingError, TimeoutError) as error:
            event(_logger, "answer broken off", fault=str(error) or "the reader stood still")
            return
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _rest(first: bytes, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(stream):
        # For `begin`: started, but nothing sent.
        yield b""
        yield first
        async for piece in stream:
            yield piece


# An entity tag of RFC 9110, section 8.8.3.
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')


class ConditionResult(Enum):
    """Result of the conditions of a request."""

    GO_ON = 200
    NOT_MODIFIED = 304
    REFUSED = 412


@dataclass(frozen=True, slots=True)
class ResourceState:
    """Present state: entity tag without quotes, "" for no file; time of the last change, if
    known.
    """

    tag: str = ""
    modified: datetime | None = None


def judge_conditions(
    headers: Mapping[str, str], state: ResourceState, *, reads: bool
) -> ConditionResult:
    """Evaluate the conditions of a request."""
    wanted, unwanted = headers.get("if-match"), headers.get("if-none-match")
    # RFC 9110, 13.2.2: If-Unmodified-Since is ignored if there is an If-Match, and so below.
    if wanted is not None:
        if not _names(wanted, state, weak=False):
            return ConditionResult.REFUSED
    elif _changed_since(headers.get("if-unmodified-since"), state):
        return ConditionResult.REFUSED
    if unwanted is not None:
        if _names(unwanted, state, weak=True):
            return ConditionResult.NOT_MODIFIED if reads else ConditionResult.REFUSED
    elif reads and _changed_since(headers.get("if-modified-since"), state) is False:
        return ConditionResult.NOT_MODIFIED
    return ConditionResult.GO_ON


def range_holds(headers: Mapping[str, str], state: ResourceState) -> bool:
    """Whether If-Range permits a range of the present state."""
    given = headers.get("if-range")
    if given is None:
        return True
    match = _TAG.fullmatch(given.strip())
    if match is not None:
        # If-Range requires a strong tag.
        return not match[1] and match[2] == state.tag
    moment = _moment(given)
    return (
        moment is not None
        and state.modified is not None
        # HTTP dates have whole seconds.
        and moment == state.modified.replace(microsecond=0)
    )


def http_date(moment: datetime) -> str:
    """A time in the format of HTTP headers."""
    return format_datetime(moment.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _names(header: str, state: ResourceState, *, weak: bool) -> bool:
    if header.strip() == "*":
        return bool(state.tag)
    return any(
        # "*" is any existing file.
        match[2] == state.tag and (weak or not match[1])
        for match in _TAG.finditer(header)
    ) and bool(state.tag)


def _changed_since(header: str | None, state: ResourceState) -> bool | None:
    moment = _moment(header) if header else None
    if moment is None or state.modified is None:
        # None: the header is invalid or the time is unknown, so the condition does not apply.
        return None
    return state.modified.replace(microsecond=0) > moment


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# Suffixes that browsers show as text, besides those of Python's table.
_TEXT: Final = (
    ".bed", ".cfg", ".cwl", ".fa", ".fai", ".fasta", ".fastq", ".fq", ".gff", ".gtf", ".ini",
    ".log", ".md", ".nf", ".out", ".err", ".r", ".sam", ".sh", ".toml", ".vcf", ".wdl", ".yaml",
    ".yml",
)  # fmt: skip
_BYTES: Final = (".bam", ".bai", ".bcf", ".cram", ".bin", ".exe")
# Types without scripts; they need no sandbox.
_HARMLESS: Final = (
    "text/plain",
    "text/csv",
    "text/css",
    "application/json",
    "application/pdf",
    "application/zip",
)
_HARMLESS_KINDS: Final = ("image/", "audio/", "video/", "font/")
_SANDBOX: Final = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'"
)
SAFE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def _known() -> MimeTypes:
    table = MimeTypes(())
    for suffix in _TEXT:
        table.add_type("text/plain", suffix)
    for suffix in _BYTES:
        table.add_type("application/octet-stream", suffix)
    return table


_TYPES: Final = _known()


def media_type_of(name: str) -> str:
    """The Content-Type of a file, by its name."""
    guessed, encoding = _TYPES.guess_type(f"/{name}")
    if encoding:
        # A compressed file is sent unchanged, so its type is that of the compression.
        return f"application/{'gzip' if encoding == 'gzip' else 'octet-stream'}"
    found = guessed or "application/octet-stream"
    return (
        f"{found}; charset=utf-8"
        if found.startswith("text/") or found == "application/json"
        else found
    )


def headers_of(name: str, *, attachment: bool) -> dict[str, str]:
    """The headers of a file: type, disposition, sandbox."""
    kind = media_type_of(name)
    bare = kind.partition(";")[0]
    # SVG is an image that can contain scripts.
    harmless = bare in _HARMLESS or (bare.startswith(_HARMLESS_KINDS) and "svg" not in bare)
    # Bytes of an unknown kind are downloaded, not shown.
    way = "attachment" if attachment or bare == "application/octet-stream" else "inline"
    headers = {"Content-Type": kind, "Content-Disposition": disposition(way, name), **SAFE_HEADERS}
    return headers if harmless else {**headers, "Content-Security-Policy": _SANDBOX}


def disposition(way: str, name: str) -> str:
    """A Content-Disposition header with an arbitrary file name, encoded."""
    # The plain form for old clients; the encoded form is RFC 6266.
    plain = "".join(
        one if one.isascii() and one.isprintable() and one not in '"\\%;' else "_" for one in name
    )
    exact = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{way}; filename="{plain}"{exact}'
