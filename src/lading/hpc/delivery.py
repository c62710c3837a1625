"""Delivers the results of the code: to the results directory, or by upload to a presigned URL.

The code leaves them in `/hpcaas/results`. A presigned URL stands for one object, so all files are
put into one `tar.gz` (names in order, owner root, times kept). It is sent with its length, since a
presigned PUT accepts no chunks, and again with growing pauses after a timeout or a 5xx. The URL's
query is the credential: it is in no log, error or response. A results directory other than
`/hpcaas/results` gets the files themselves, each under a temporary name first, then renamed.
Source: docs/spec/hpc-daemon, section Results.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from lading.core.errors import Invalid, LadingError, Malformed, Unavailable
from lading.core.hpc.daemon_configuration import RESULTS, DaemonSettings
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.hpc.layout import DaemonLayout, make_folder
from lading.net.urls import is_secure, server_port
from lading.process import tree_removal

# Attempts of an upload, and the pauses between them in seconds, which double.
ATTEMPTS = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
# Seconds for connecting, and without progress.
_CONNECT_TIME, _ANSWER_TIME = 30.0, 120.0
# Bytes sent at a time.
_CHUNK = 1 << 18
# Besides 5xx: timeout, too early, too many requests.
_RETRIED = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Delivers once. `sleep`: pauses between attempts."""

    layout: DaemonLayout
    settings: DaemonSettings
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> list[dict[str, Any]]:
        """Deliver to every configured target; a report for each. Raises LadingError or OSError.

        The upload comes first, while the files are still in their place.
        """
        done: list[dict[str, Any]] = []
        source = self.layout.inside(RESULTS)
        if self.settings.results_url:
            done.append(await self._upload(source))
        if self.settings.results_directory != RESULTS:
            done.append(await asyncio.to_thread(self._move, source))
        return done

    def _move(self, source: Path) -> dict[str, Any]:
        target = self.layout.inside(self.settings.results_directory)
        make_folder(target)
        names = sorted(entry.name for entry in source.iterdir())
        for name in names:
            aside = target / f".{name}.{os.getpid()}"
            tree_removal.remove(aside)
            _move_one(source / name, aside)
            if aside.is_dir() and not aside.is_symlink():
                tree_removal.remove(target / name)
            aside.replace(target / name)
        return {"directory": self.settings.results_directory, "entries": len(names)}

    async def _upload(self, source: Path) -> dict[str, Any]:
        with tempfile.TemporaryFile(dir=self.layout.own) as file:
            digest = await asyncio.to_thread(pack, source, cast(IO[bytes], file))
            size = file.tell()
            pause = _FIRST_PAUSE
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    etag = await _put(self.settings.results_url, cast(IO[bytes], file), size)
                    return {
                        "url": place(self.settings.results_url),
                        "size": size,
                        "sha256": digest,
                        "etag": etag,
                    }
                except (
                    Unavailable,
                    OSError,
                    TimeoutError,
                    asyncio.IncompleteReadError,
                    ssl.SSLError,
                ) as error:
                    if attempt == ATTEMPTS:
                        kind = (
                            error.message
                            if isinstance(error, Unavailable)
                            else type(error).__name__
                        )
                        message = (
                            f"the upload to {place(self.settings.results_url)} "
                            f"failed {ATTEMPTS} times: {kind}"
                        )
                        raise Unavailable(message) from None
                await self.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
        raise AssertionError("every attempt ends the loop or goes on with it")


def place(url: str) -> str:
    """The part of a presigned URL that may be shown: all but its query and its credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def pack(source: Path, file: IO[bytes]) -> str:
    """Write the `tar.gz` of a directory; its sha256 (hex). The same files give the same bytes.
    Raises OSError.
    """
    import gzip
    import tarfile

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with (
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        rest = [source]
        while rest:
            folder = rest.pop()
            inner = []
            for path in sorted(folder.iterdir()):
                archive.add(path, str(path.relative_to(source)), recursive=False, filter=plain)
                if path.is_dir() and not path.is_symlink():
                    inner.append(path)
            rest += reversed(inner)
    file.flush()
    size = file.tell()
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(size)
    return digest


async def _put(url: str, file: IO[bytes], size: int) -> str:
    """Send one PUT; return the ETag. Raises Unavailable when another attempt may succeed, else
    Invalid.
    """
    parts = urlsplit(url)
    context = ssl.create_default_context() if is_secure(parts) else None
    host = parts.hostname or ""
    port = server_port(parts)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    name = f"[{host}]" if ":" in host else host
    shown = name if parts.port is None else f"{name}:{port}"
    async with asyncio.timeout(_CONNECT_TIME):
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        fields = (("Host", shown), ("Content-Length", str(size)), ("Connection", "close"))
        writer.write(HttpHead(f"PUT {target} HTTP/1.1", fields).encode())
        file.seek(0)
        while chunk := file.read(_CHUNK):
            writer.write(chunk)
            async with asyncio.timeout(_ANSWER_TIME):
                await writer.drain()
        async with asyncio.timeout(_ANSWER_TIME):
            answer = await reader.readuntil(http_head.END)
    finally:
        writer.close()
        # The response is complete; the end of the connection does not matter.
        with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(_CONNECT_TIME):
                await writer.wait_closed()
    return _etag(answer)


def _etag(answer: bytes) -> str:
    try:
        head = http_head.parse_answer(answer)
    except Malformed:
        raise Unavailable("it answered no HTTP") from None
    if 200 <= head.status < 300:
        return head.get("etag").strip('"')
    message = f"it answered {head.status}"
    if head.status >= 500 or head.status in _RETRIED:
        raise Unavailable(message)
    raise Invalid(f"the upload was refused: {message}; is the presigned address still valid?")


def describe(error: Exception) -> str:
    """Reason of a failed delivery in one line, without the query of the URL."""
    if isinstance(error, LadingError):
        return error.message
    return f"{type(error).__name__}: {getattr(error, 'strerror', '') or 'failed'}"


def _move_one(source: Path, target: Path) -> None:
    try:
        shutil.move(source, target)
    except RecursionError:
        raise OSError(
            errno.ELOOP, "its directories lie too deep in one another", str(source)
        ) from None
