"""The least a client can do: a socket, one request after another, nothing hashed, nothing
copied.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

_RECEIVE = 1 << 16
_PATIENCE = 120.0
_ROOM = 1 << 20


class RawClient:
    """Puts and gets blocks whose hashes are known, over the local socket or HTTPS."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        connection.settimeout(_PATIENCE)
        self._connection = connection
        self._token = token
        self._room = memoryview(bytearray(_ROOM))

    @classmethod
    def local(cls, path: Path, token: str) -> Self:
        """Over the server's local socket."""
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(path))
        return cls(made, token)

    @classmethod
    def https(cls, address: str, token: str) -> Self:
        """Over HTTPS; the certificate is not looked at."""
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return cls(context.wrap_socket(socket.create_connection((host, int(port)))), token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def put(self, hash: str, *parts: bytes | bytearray) -> str:
        """Store a block that is in these parts; its signed locator. Raises RuntimeError when that
        is refused.
        """
        self._connection.sendall(
            self._head("PUT", hash, f"Content-Length: {sum(map(len, parts))}\r\n")
        )
        for part in parts:
            self._connection.sendall(part)
        length, first = self._answer()
        while len(first) < length:
            first += self._connection.recv(_RECEIVE)
        return first.decode().strip()

    def get(self, locator: str) -> int:
        """Read a block; how many bytes came. Raises RuntimeError when that is refused."""
        self._connection.sendall(self._head("GET", locator, ""))
        length, first = self._answer()
        done = len(first)
        while done < length:
            count = self._connection.recv_into(self._room)
            if not count:
                raise RuntimeError(f"the connection ended after {done} bytes")
            done += count
        return done

    def _head(self, method: str, path: str, more: str) -> bytes:
        return (
            f"{method} /{path} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {self._token}\r\n{more}\r\n"
        ).encode()

    def _answer(self) -> tuple[int, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            part = self._connection.recv(_RECEIVE)
            if not part:
                raise RuntimeError("the connection ended before an answer")
            data += part
        head, _, first = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        if b" 200 " not in lines[0] + b" ":
            raise RuntimeError(f"refused: {head.decode()} {first.decode(errors='replace')}")
        length = next(
            int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")
        )
        return length, first
