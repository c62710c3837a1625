"""The gateway of a container: HTTPS for the server alone, with mutual proof of identity.

    POST /ssh, Upgrade: ssh                         an SSH server whose shell is in the container
    anything with X-Arvados-Container-Target-Port   that request, to a port of the container

Each connection serves one request. The certificate is made when the gateway is first needed; its
key is derived from the secret of the container, so that the server knows it, and the proofs are
made for it (`core.containers.sessions`).

Source: docs/spec/shell, section Gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from lading.core.containers import sessions
from lading.core.errors import Corrupt, Invalid, LadingError, NotFound, TooLarge, Unauthenticated
from lading.core.protocols import http_head
from lading.core.protocols.connection_limits import Connection, HttpLimits
from lading.core.protocols.http_head import HttpHead
from lading.net.acceptor import StreamServer
from lading.net.certificates import DECADE, derive_key, load_identity, make_certificate
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import CHUNK, Pipe, read_head
from lading.process.concurrency import cancel_all
from lading.supervisor.container_gateway import ports, shell
from lading.supervisor.container_gateway.first_process import first_process
from lading.supervisor.engines import Engine

LIMITS = HttpLimits(connections=4096, trusted=())
"""The callers are servers, which prove their identity; so the limit per address does not apply."""
# Seconds for the program in the container to begin its response.
_ANSWER_TIMEOUT = 300.0
# Bytes of the form of a session: a user name and public keys, of which RSA ones have under 1 KiB.
_MOST_FORM = 1 << 16


class GatewayServer:
    """The gateway of one container. `key` is the secret shared with the server; `say` writes a line
    into the container's log.
    """

    def __init__(self, uuid: str, key: str, engine: Engine, say: Callable[[str], None]) -> None:
        self._uuid = uuid
        self._key = key
        self._engine = engine
        self._say = say
        self._proof = ""
        self._server = StreamServer(self._serve, LIMITS, stream_limit=LIMIT)
        self._shell = shell.ShellServer(engine)

    async def start(self, listening: socket.socket) -> None:
        """Serve on a listening socket."""
        context, certificate = make_identity(self._uuid, sessions.identity_seed(self._key))
        self._proof = sessions.request_proof(self._key, certificate)
        self._server.start([listening.dup()], context=context)

    async def close(self) -> None:
        """End all sessions."""
        await self._server.close()
        await self._shell.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        pipe = Pipe(reader, writer)
        try:
            await self._answer(pipe, connection)
        except LadingError as error:
            # The client may have gone already.
            with contextlib.suppress(OSError):
                writer.write(_refusal(error))
                await writer.drain()
        except OSError:
            # The connection is broken, so that the error has no receiver.
            return
        finally:
            await pipe.close()

    async def _answer(self, pipe: Pipe, connection: Connection) -> None:
        head = http_head.parse_request(await read_head(pipe, timeout=LIMITS.head_seconds))
        if head.get(sessions.GATEWAY_UUID) != self._uuid:
            raise Corrupt("this is the gateway of another container")
        if not sessions.is_proof(head.get(sessions.AUTHORIZATION), self._proof):
            raise Unauthenticated("the caller did not prove to be the server of this container")
        # Proven: the connection no longer counts among those of strangers.
        self._server.table.know(connection)
        self._server.table.serve(connection)
        port = head.get(sessions.TARGET_PORT)
        if port:
            await self._pass_on(pipe, head, sessions.check_port(port))
        elif (
            head.method == "POST" and head.target == "/ssh" and head.get("upgrade").lower() == "ssh"
        ):
            await self._open_shell(pipe, head)
        else:
            raise NotFound(f"Path not found: {head.target[:60]!r}")

    @property
    def _proven(self) -> dict[str, str]:
        """The header with the proof of this gateway."""
        return {"X-Arvados-Authorization-Response": sessions.response_proof(self._key, self._proof)}

    async def _open_shell(self, pipe: Pipe, head: HttpHead) -> None:
        length = head.get("content-length") or "0"
        if not length.isdigit() or int(length) > _MOST_FORM:
            raise TooLarge("the form of a session is too large")
        form = await pipe.reader.readexactly(int(length))
        user, keys = shell.parse_form(form)
        fields = {"Connection": "upgrade", "Upgrade": "ssh", **self._proven}
        pipe.writer.write(
            HttpHead("HTTP/1.1 101 Switching Protocols", tuple(fields.items())).encode()
        )
        self._say("a user has entered the container")
        try:
            await self._shell.serve(pipe, user, keys)
        finally:
            self._say("a session in the container has ended")

    async def _pass_on(self, pipe: Pipe, head: HttpHead, port: int) -> None:
        """Pass the request to the port, and the response to the caller."""
        try:
            target = await ports.connect(await first_process(self._engine), port)
        except LadingError as error:
            raise Invalid(error.message) from error
        inner = Pipe(*await asyncio.open_connection(sock=target, limit=LIMIT))
        try:
            is_upgrade = head.says("connection", "upgrade")
            # The caller's headers about itself must not reach a program in the container.
            stripped = head.without({"connection", "keep-alive"}, prefix="x-arvados-")
            kind = "upgrade" if is_upgrade else "close"
            inner.writer.write(stripped.having({"Via": "1.1 lading", "Connection": kind}).encode())
            await inner.writer.drain()
            feeding = asyncio.create_task(_carry(pipe, inner), name="request body")
            try:
                answer = await self._read_answer(inner)
                pipe.writer.write(answer.having(self._proven).encode())
                await pipe.writer.drain()
                await _carry(inner, pipe)
            finally:
                await cancel_all(feeding)
        finally:
            await inner.close()

    # Interim responses (100, 103) are dropped; 101 switches protocols.
    async def _read_answer(self, inner: Pipe) -> HttpHead:
        while True:
            try:
                answer = http_head.parse_answer(await read_head(inner, timeout=_ANSWER_TIMEOUT))
            except LadingError as error:
                raise Corrupt(
                    f"the port of the container does not answer in HTTP: {error.message}"
                ) from error
            if answer.status == 101 or answer.status >= 200:
                return answer.without(("x-arvados-authorization-response",))


def make_identity(uuid: str, seed: bytes) -> tuple[ssl.SSLContext, bytes]:
    """The key derived from `seed` with a new certificate: a TLS context, and the certificate
    (DER).
    """
    # The server knows the key, so the certificate needs no host names.
    certificate, private = make_certificate(
        uuid, now=datetime.now(UTC), life=DECADE, hosts=(), key=derive_key(seed)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Both ends are Lading's or Arvados' own, so older versions are not needed.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_identity(context, certificate, private)
    return context, ssl.PEM_cert_to_DER_cert(certificate)


def _refusal(error: LadingError) -> bytes:
    body = f"{error.message}\n".encode()
    fields = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    return HttpHead(f"HTTP/1.1 {error.status} Refused", tuple(fields.items())).encode() + body


async def _carry(source: Pipe, target: Pipe) -> None:
    # One side has closed; the other direction ends with it.
    with contextlib.suppress(OSError):
        while data := await source.reader.read(CHUNK):
            target.writer.write(data)
            await target.writer.drain()
