"""A gateway as Arvados' crunch-run has it: its own certificate, proofs for the server, the log over
WebDAV.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lading.core.containers import sessions
from lading.core.errors import Unavailable
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.certificates import make_certificate
from lading.net.pipes import Pipe, read_head
from lading.testing.world import World

Answer = Callable[[HttpHead, bytes], str]
LOG = {"stdout.txt": "0123456789", "a b.txt": "", "deep/c.txt": "c"}


@dataclass
class Listener:
    """Somebody with a certificate for a key of his own, who keeps what he hears."""

    port: int = 0
    heard: list[HttpHead] = field(default_factory=list)
    once: bool = False
    """Whether it goes away after one answer."""


@asynccontextmanager
async def listening(directory: Path, answer: Answer) -> AsyncIterator[Listener]:
    """A listener that gives this answer to each request on a connection; an empty one ends it."""
    certificate, key = make_certificate("anybody", now=datetime.now(UTC))
    (directory / "pem").write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "pem")
    der = ssl.PEM_cert_to_DER_cert(certificate)
    made = Listener()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pipe = Pipe(reader, writer)
        with contextlib.suppress(OSError, Unavailable):
            while said := await read_head(pipe, timeout=60):
                made.heard.append(http_head.parse_request(said))
                text = answer(made.heard[-1], der)
                if not text:
                    break
                writer.write(text.encode())
                if made.once:
                    break
        await pipe.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def arvados(key: str, *, more: str = "Content-Length: 3\r\n\r\nno\n") -> Answer:
    """As the gateway of Arvados' crunch-run answers to a server that proves itself."""

    def answer(request: HttpHead, certificate: bytes) -> str:
        proof = sessions.request_proof(key, certificate)
        if request.get(sessions.AUTHORIZATION) != proof:
            return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        said = sessions.response_proof(key, proof)
        return f"HTTP/1.1 404 Not Found\r\nX-Arvados-Authorization-Response: {said}\r\n{more}"

    return answer


def crunch_run(key: str, files: Mapping[str, str] = LOG) -> Answer:
    """The gateway of crunch-run: GET with a range, and PROPFIND, below the prefix that the server
    names.
    """
    prove = arvados(key)

    def answer(request: HttpHead, certificate: bytes) -> str:
        prefix = request.get("x-webdav-prefix")
        said = prove(request, certificate)
        if request.get("x-webdav-source") != "/log":
            return said
        proof = re.search(r"X-Arvados-Authorization-Response: \w+", said)
        assert proof is not None
        assert request.target.startswith(f"{prefix}/")
        path = request.target.removeprefix(f"{prefix}/").replace("%20", " ")

        def reply(status: str, body: str, *more: str) -> str:
            fields = (f"HTTP/1.1 {status}", proof[0], f"Content-Length: {len(body)}", *more)
            return "\r\n".join((*fields, "", body))

        if request.method == "PROPFIND":
            inside = ["", *files] if request.get("depth") == "1" else [""]
            hrefs = (f"<D:href>{prefix}/{name.replace(' ', '%20')}</D:href>" for name in inside)
            return reply("207 Multi-Status", f"<D:multistatus>{''.join(hrefs)}</D:multistatus>")
        if path == "deep":
            return reply("405 Method Not Allowed", "")
        if path not in files:
            return reply("404 Not Found", "")
        body = files[path]
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", request.get("range"))
        if wanted is None:
            return reply("200 OK", body, "Content-Type: text/html")
        start = int(wanted[1]) if wanted[1] else len(body) - int(wanted[2])
        if wanted[1] and start >= len(body):
            return reply("416 Requested Range Not Satisfiable", "")
        shown = f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}"
        return reply("206 Partial Content", body[start:], shown)

    return answer


@asynccontextmanager
async def running(
    it: World, directory: Path, make: Callable[[str], Answer] = crunch_run
) -> AsyncIterator[tuple[str, str, Listener]]:
    """A container that runs under crunch-run: the path of its log, its uuid, and its gateway."""
    request = await it.submit()
    uuid = request["container_uuid"]
    await it.lock(uuid)
    async with listening(directory, make(it.app.services.access.gateway_key(uuid))) as listener:
        changes = {"state": "Running", "gateway_address": f"127.0.0.1:{listener.port}"}
        await it.ok("PUT", f"containers/{uuid}", changes, token=it.dispatcher)
        yield f"container_requests/{request['uuid']}/log/{uuid}", uuid, listener
