"""A mean HTTP server: it cuts, delays, lies about checksums, answers 503, redirects, takes PUTs."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Page:
    """What is at a path. `cuts`: bytes after which the next answers break off; `refusals`: statuses
    of the next answers; `parts`: whether ranges are served.
    """

    body: bytes = b""
    etag: str = '"1"'
    headers: dict[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    parts: bool = True
    location: str = ""


@dataclass(slots=True)
class MeanServer:
    """The server at `url`; `pages` by path, `seen` are the requests: method, path and headers."""

    url: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)

    def add(self, path: str, body: bytes, **more: object) -> str:
        """Serve a page; its URL."""
        self.pages[path] = Page(body=body, **more)  # type: ignore[arg-type]
        return self.url + path

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append((method, target, headers))
        page = self.pages.get(target.partition("?")[0])
        if method == "PUT":
            return self._put(writer, target, headers, body, page)
        if page is None:
            _write(writer, "404 Not Found", {"content-length": "0"})
            return True
        if page.refusals:
            status = f"{page.refusals.pop(0)} Refused"
            _write(writer, status, {"content-length": "0", "retry-after": "7", **page.headers})
            return True
        if page.location:
            _write(writer, "302 Found", {"location": page.location, "content-length": "0"})
            return True
        return await self._send(writer, page, headers)

    def _put(
        self,
        writer: asyncio.StreamWriter,
        target: str,
        headers: dict[str, str],
        body: bytes,
        page: Page | None,
    ) -> bool:
        if page is not None and page.refusals:
            status = f"{page.refusals.pop(0)} Refused"
            _write(writer, status, {"content-length": "0", **page.headers})
            return True
        self.stored[target] = body
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        _write(writer, "201 Created", {"content-length": "0", "etag": etag})
        return True

    async def _send(
        self, writer: asyncio.StreamWriter, page: Page, headers: dict[str, str]
    ) -> bool:
        start, status, body = 0, "200 OK", page.body
        more = {"etag": page.etag, **page.headers}
        wanted = headers.get("range", "")
        if page.parts and wanted and headers.get("if-range", page.etag) == page.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            status = "206 Partial Content"
            more["content-range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        _write(writer, status, {"content-length": str(len(body) - start), **more})
        rest = body[start:]
        if page.cuts:
            writer.write(rest[: page.cuts.pop(0)])
            await writer.drain()
            return False
        writer.write(rest)
        await writer.drain()
        return True


def _write(writer: asyncio.StreamWriter, status: str, headers: dict[str, str]) -> None:
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in headers.items() if value),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def digest_header(body: bytes) -> dict[str, str]:
    """The SHA-256 of a body, as RFC 9530 has it."""
    return {"repr-digest": f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"}


@asynccontextmanager
async def mean_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[MeanServer]:
    """A mean server on the loopback interface."""
    made = MeanServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    made.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made
