"""The certificate of a site at the first login."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.client.servers.environment import Server, split_address
from lading.client.servers.site_certificates import (
    fingerprint_of,
    look_at,
    same_fingerprint,
)
from lading.core.errors import Invalid, Unavailable
from lading.net.certificates import make_certificate


def _self_signed(path: Path, name: str) -> Path:
    """A certificate and its key in one file."""
    path.write_text("".join(make_certificate(name, now=datetime.now(UTC))))
    return path


@asynccontextmanager
async def _site(certificate: Path) -> AsyncGenerator[str]:
    """A server that answers each request with 204; its address."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_certificate_is_shown_and_then_pinned(tmp_path: Path) -> None:
    # Of another name than the address: the pin stands for both.
    mine = _self_signed(tmp_path / "mine.pem", "elsewhere.example.org")
    other = _self_signed(tmp_path / "other.pem", "elsewhere.example.org")
    async with _site(mine) as address:
        seen = await look_at(address)
        assert not seen.is_trusted
        assert "self-signed" in seen.fault.replace(" ", "-")
        assert seen.fingerprint == fingerprint_of(seen.pem)
        pin = tmp_path / "pin.pem"
        pin.write_text(seen.pem)
        for file, is_right in ((pin, True), (other, False)):
            server = Server(address=address, token="t", authorities=file, is_pinned=True)
            async with server.transport() as transport:
                if is_right:
                    answer = await transport.request("GET", "/", headers={})
                    assert answer.status == 204
                else:
                    with pytest.raises(Unavailable, match="certificate verify failed"):
                        await transport.request("GET", "/", headers={})


async def test_a_site_that_does_not_answer() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await look_at("127.0.0.1:1")


def test_fingerprints_are_compared_however_they_are_written() -> None:
    assert same_fingerprint("AA:BB:01", "aabb01")
    assert same_fingerprint("SHA256=AA:BB:01", "aa:bb:01")
    assert not same_fingerprint("AA:BB:01", "AA:BB:02")


@pytest.mark.parametrize(
    ("address", "parts"),
    [("host", ("host", 443)), ("host:9440", ("host", 9440)), ("[::1]:1", ("::1", 1)),
     ("[::1]", ("::1", 443))],
)  # fmt: skip
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", ":1", "host:port", "host:70000"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(Invalid, match="not a host"):
        split_address(address)


def test_a_pin_that_is_gone(tmp_path: Path) -> None:
    server = Server(address="a:1", token="t", authorities=tmp_path / "none", is_pinned=True)
    with pytest.raises(Invalid, match="none: cannot be read"):
        server.tls()
