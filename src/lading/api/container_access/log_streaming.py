"""Growing logs as server-sent events.

They (HTML standard, 9.2) spare pages the polling:

    GET container_requests/UUID/log/CONTAINER/FILE, Accept: text/event-stream

    id: CONTAINER:OFFSET    position of the next line; sent as Last-Event-ID, the stream continues
                            there
    data:                   a line, with its timestamp
    event: attempt          data is the container whose log follows, when the request got another
    event: end              data is the final state of the last container; the stream ends

Existing lines come first. The log of a container that has ended continues from the saved log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from lading.api import authorization
from lading.api.container_access import log_files
from lading.api.container_access.gateway_logs import is_gateway_source, read_gateway_part
from lading.api.http import ApiCall, ApiResponse
from lading.core.containers.container import FINAL, Container
from lading.core.containers.request_phases import RequestState
from lading.core.errors import NotFound, Unavailable
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.schema import Record
from lading.store import records

MEDIA: Final = "text/event-stream"
PERIOD: Final = 0.5
"""Seconds between two looks."""
# Looks without news after which a comment is sent, so that no proxy gives the connection up.
_SILENCE: Final = 30
# Bytes of a line without an end that are kept in memory for one reader.
_LONGEST: Final = 1 << 16


def is_wanted(call: ApiCall) -> bool:
    """Whether the call asks for events."""
    return (
        call.method == "GET" and call.headers.get("accept", "").partition(";")[0].strip() == MEDIA
    )


def stream(call: ApiCall, *, period: float = PERIOD) -> ApiResponse:
    """The events from the container in the path, or from the position in Last-Event-ID. Raises
    NotFound.
    """
    uuid, _, name = call.subpath.partition("/")
    if not name or "/" in name:
        raise NotFound("Path not found: name the log as CONTAINER/FILE")
    offset = 0
    last, _, number = call.headers.get("last-event-id", "").rpartition(":")
    if last and number.isascii() and number.isdigit():
        uuid, offset = last, int(number)
    headers = {"Content-Type": MEDIA, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return ApiResponse(
        stream=_events(call, uuid, name, offset, period), headers=headers, is_endless=True
    )


async def _events(
    call: ApiCall, uuid: str, name: str, offset: int, period: float
) -> AsyncGenerator[bytes]:
    row = await _request(call)
    if uuid not in _attempts(row):
        raise NotFound(f"Path not found: {uuid[:60]!r} is not a container of this request")
    yield b": log\n\n"
    silent, partial_line, blocks = 0, b"", log_files.LastBlock(call.services.blocks)
    while True:
        # Read before the log: what is written behind the state that is seen here is read next time.
        row = await _request(call)
        container = await _container(call, uuid)
        state = container.state if container is not None else None
        start = offset + len(partial_line)
        data = await _read_source(call, row, container, uuid, name, start, blocks=blocks)
        lines, partial_line = _split(partial_line + data, is_last=not data and state in FINAL)
        if lines:
            events, offset = _encode(
                uuid, offset, lines, ends=not partial_line and not data.endswith(b"\n")
            )
            silent = 0
            yield events
        if data:
            continue
        if further := _next_attempt(row, uuid):
            uuid, offset = further, 0
            yield _event("attempt", uuid)
            continue
        if row["state"] == RequestState.FINAL and (state is None or state in FINAL):
            yield _event("end", state or "")
            return
        silent += 1
        if silent % _SILENCE == 0:
            yield b": still there\n\n"
        await asyncio.sleep(period)


def _next_attempt(row: Record, uuid: str) -> str:
    """The container after this one among the attempts of a request; "" for the last."""
    attempts = _attempts(row)
    return "" if uuid == attempts[-1] else attempts[attempts.index(uuid) + 1]


def _split(data: bytes, *, is_last: bool) -> tuple[list[bytes], bytes]:
    """The lines of a text, and a last line without its end. That line counts if it is longer than
    `_LONGEST`, or at the end of a log (`is_last`).
    """
    *lines, partial_line = data.split(b"\n")
    if len(partial_line) > _LONGEST or (partial_line and is_last):
        return [*lines, partial_line], b""
    return lines, partial_line


def _encode(uuid: str, offset: int, lines: list[bytes], *, ends: bool) -> tuple[bytes, int]:
    """The server-sent events for lines of a log, and the offset after the last line. `ends`: the
    last line has no newline.
    """
    parts = []
    for number, line in enumerate(lines, 1):
        offset += len(line) + (0 if ends and number == len(lines) else 1)
        text = line.replace(b"\r", b"\ndata: ")
        parts.append(b"id: %b:%d\ndata: %b\n\n" % (uuid.encode(), offset, text))
    return b"".join(parts), offset


def _event(kind: str, data: str) -> bytes:
    return f"event: {kind}\ndata: {data}\n\n".encode()


async def _request(call: ApiCall) -> Record:
    async with call.services.database.reading() as tx:
        return await authorization.find_readable(
            tx, call.services.clock, call.services.config, REQUESTS, call.uuid, call.caller
        )


async def _container(call: ApiCall, uuid: str) -> Container | None:
    async with call.services.database.reading() as tx:
        found = await records.get(tx, CONTAINERS, uuid)
    return Container.from_record(found) if found else None


async def _read_source(
    call: ApiCall,
    row: Record,
    container: Container | None,
    uuid: str,
    name: str,
    start: int,
    *,
    blocks: log_files.LastBlock,
) -> bytes:
    """The bytes of a log from `start` that can be read now."""
    if container is not None and is_gateway_source(call.services, container, uuid):
        try:
            data = await read_gateway_part(call, container, name, start, log_files.PART)
        except Unavailable:
            # The gateway may answer at the next look.
            return b""
        if data is not None:
            return data
    return await log_files.read_part(
        call.services.database, call.services.access, row, uuid, name, start, blocks=blocks
    )


def _attempts(row: Record) -> list[str]:
    """The containers of a request, in order."""
    attempts = [*(row["attempted_container_uuids"] or []), row["container_uuid"]]
    return list(dict.fromkeys(attempt for attempt in attempts if attempt))
