"""`python -m lading.supervisor --line`: a TLS connection to the listener on another machine of a
gang (`rank_launcher`).

The first line of standard input has the destination and the certificate of both ends; further input
is sent there, and its data is written to standard output. It ends when either side does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl

from lading.core.errors import ExecutionError, RequestError
from lading.net import rpc
from lading.supervisor.gang.mutual_tls import HandshakeState, keep_alive, trust

_CONNECT_TIME = 60.0
# Bytes read at a time.
_CHUNK = 1 << 18


def main() -> int:
    """Run the connection; return the exit code of the process."""
    try:
        asyncio.run(serve(read_course(0)))
    except (ExecutionError, OSError, TimeoutError) as error:
        fault = (
            error.message
            if isinstance(error, ExecutionError)
            else str(error) or "it does not answer"
        )
        # Nobody reads any more.
        with contextlib.suppress(BrokenPipeError):
            rpc.write_line(1, {"fault": fault})
        return 1
    return 0


def read_course(descriptor: int) -> HandshakeState:
    """The first line, and nothing after it. Raises ExecutionError."""
    try:
        course = rpc.read_line(descriptor, HandshakeState)
    except RequestError as error:
        raise ExecutionError("where this line leads cannot be read") from error
    if course is None:
        raise ExecutionError("nobody has said where this line leads")
    return course


async def serve(course: HandshakeState) -> None:
    """Copy in both directions until one of them has ended. Raises OSError, TimeoutError,
    ExecutionError.
    """
    context = trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), course.certificate, course.key)
    try:
        async with asyncio.timeout(_CONNECT_TIME):
            reader, writer = await asyncio.open_connection(course.address, course.port, ssl=context)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no answer in {_CONNECT_TIME:.0f} s"
        there = f"{course.address}, port {course.port}"
        raise ExecutionError(f"its machine cannot be reached at {there}: {why}") from error
    keep_alive(writer.get_extra_info("socket"))
    outward, inward = asyncio.create_task(_send(writer)), asyncio.create_task(_receive(reader))
    try:
        await asyncio.wait((outward, inward), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (outward, inward):
            task.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)
        # Abort: unsent data has no reader any more.
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: protocol, os.fdopen(os.dup(0), "rb", buffering=0)
    )
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        await asyncio.to_thread(rpc.write_all, 1, data)
