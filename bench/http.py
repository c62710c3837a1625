"""`python -m bench.http`: HTTP/1.1 by hand beside h11, where the product reads it by hand.

Heads that the gateway and published ports pass on, bodies that they pass on, blocks that a client
receives, and what h11 would add to the start and the memory of the daemon in each HPC container.
"""

from __future__ import annotations

import asyncio
import io
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from importlib.resources import files
from pathlib import Path

import h11

from bench.figures import Figure
from bench.report import table
from lading.client.receiving import Receiver
from lading.core.protocols import http_head
from lading.hpc.package import write_package
from lading.net.http_bodies import read_body
from lading.net.http_upgrade import Way

_HEAD = b"GET /services/page?x=1 HTTP/1.1\r\n" + b"".join(
    b"X-Field-Number-%d: some value of a usual length\r\n" % number for number in range(12)
)
_END = b"\r\n"
_HEADS, _TIMES = 20_000, 5
_SIZE, _PIECE = 256 << 20, 64 << 10
_STARTS = 20
_Read = Callable[[asyncio.StreamReader], Awaitable[int]]


def measure() -> list[Figure]:
    """All figures, the best of some rounds each, by processor time and not by the clock."""
    figures = [
        _heads("head, http_head", lambda: http_head.parse_request(_HEAD + _END)),
        _heads("head, h11", _parse_by_h11),
    ]
    for kind, answer in (("length", _sized()), ("chunks", _chunked())):
        figures += [
            _body(f"body with {kind}, http_bodies", answer, _by_hand),
            _body(f"body with {kind}, h11", answer, _by_h11),
        ]
    return [*figures, _received(), *_starts()]


def _heads(name: str, parse: Callable[[], object]) -> Figure:
    best = float("inf")
    for _ in range(_TIMES):
        began = time.process_time()
        for _ in range(_HEADS):
            parse()
        best = min(best, time.process_time() - began)
    return Figure(name=name, unit="/s", count=_HEADS, rate=_HEADS / best)


def _parse_by_h11() -> object:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=http_head.MOST)
    # h11 wants a host; http_head leaves that to the reader of the request.
    connection.receive_data(_HEAD + b"Host: h\r\n" + _END)
    return connection.next_event()


def _sized() -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (_SIZE, bytes(_SIZE))


def _chunked() -> bytes:
    piece = b"%x\r\n%b\r\n" % (_PIECE, bytes(_PIECE))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + piece * (_SIZE // _PIECE) + b"0\r\n\r\n"


def _body(name: str, answer: bytes, read: _Read) -> Figure:
    best = min(asyncio.run(_timed(answer, read)) for _ in range(_TIMES))
    return Figure(name=name, unit="MiB/s", count=_TIMES, rate=(_SIZE >> 20) / best)


async def _timed(answer: bytes, read: _Read) -> float:
    """Processor seconds of this thread, which reads what another one sends."""
    ours, theirs = socket.socketpair()
    sending = threading.Thread(target=theirs.sendall, args=(answer,))
    reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 17)
    began = time.thread_time()
    sending.start()
    assert await read(reader) == _SIZE
    seconds = time.thread_time() - began
    sending.join()
    writer.close()
    theirs.close()
    return seconds


async def _by_hand(reader: asyncio.StreamReader) -> int:
    head = http_head.parse_answer(await reader.readuntil(http_head.END))
    async with aclosing(read_body(reader, head, method="GET")) as pieces:
        return await _count(pieces)


async def _by_h11(reader: asyncio.StreamReader) -> int:
    connection, size = h11.Connection(h11.CLIENT), 0
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    connection.send(h11.EndOfMessage())
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(1 << 17))
        elif isinstance(event, h11.Data):
            size += len(bytes(event.data))
    return size


async def _count(pieces: AsyncGenerator[bytes]) -> int:
    return sum([len(piece) async for piece in pieces])


def _received() -> Figure:
    best = min(asyncio.run(_receive()) for _ in range(_TIMES))
    return Figure(
        name="body with length, client.receiving", unit="MiB/s", count=_TIMES,
        rate=(_SIZE >> 20) / best,
    )  # fmt: skip


async def _receive() -> float:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = f"{folder}/s"
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(_sized())

        async def count(piece: memoryview) -> None:
            sizes.append(len(piece))

        sizes: list[int] = []
        sending = threading.Thread(target=answer)
        sending.start()
        receiver = Receiver(Way(unix_socket=path), "h")
        began = time.thread_time()
        await receiver.receive("/", headers={}, sink=count, timeout=60.0)
        seconds = time.thread_time() - began
        assert sum(sizes) == _SIZE
        receiver.close()
        sending.join()
        return seconds


def _starts() -> list[Figure]:
    """Import of the daemon's modules from its archive, without h11 and with it."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("as it is", ""), ("with h11", "import h11;")):
            archive = Path(folder, "daemon")
            archive.write_bytes(_archive())
            code = (
                f"import sys; sys.path.insert(0, {str(archive)!r}); {more} import lading.hpc.daemon"
            )
            show = "print(open('/proc/self/status').read().partition('VmRSS:')[2].split()[0])"
            seconds, sizes = list[float](), list[float]()
            for _ in range(_STARTS):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = subprocess.run(
                    [sys.executable, "-I", "-S", "-c", f"{code}; {show}"],
                    check=True, capture_output=True, env={},
                )  # fmt: skip
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                sizes.append(int(done.stdout) / 1024)
            figures += [
                Figure(
                    name=f"daemon {name}: processor time of its start", unit="ms", count=_STARTS,
                    p50=min(seconds) * 1000,
                ),
                Figure(name=f"daemon {name}: memory", unit="MiB", count=_STARTS, rate=min(sizes)),
            ]  # fmt: skip
    return figures


def _archive() -> bytes:
    file = io.BytesIO()
    write_package(file)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        for one in files("h11").iterdir():
            if one.name.endswith(".py"):
                archive.writestr(f"h11/{one.name}", one.read_text())
    return file.getvalue()


if __name__ == "__main__":
    print(table(measure()))
