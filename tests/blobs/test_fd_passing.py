"""Blocks lent over a socket: to whom, which, and with what signature."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from lading.blobs import fd_passing
from lading.blobs.directory import DirectoryVolume
from lading.blobs.fd_passing import BlockFileRequest, FdPasser
from lading.blobs.metrics import BlockMetrics
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.fd_receiving import FdReceiver
from lading.config.site import Config
from lading.config.storage import Collections
from lading.core.data import locator as locators
from lading.core.errors import LadingError, Malformed, NotFound, Unauthenticated
from lading.testing.blocks import MemoryVolume

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"
CONFIG = Config(Collections=Collections(BlobSigningKey="key"))
NOW = 1_000_000
DATA = b"data"
NAME = hashlib.md5(DATA).hexdigest()


async def _check(token: str, /, *, writing: bool) -> None:
    if token != TOKEN or writing:
        raise Unauthenticated


def _signed(locator: str = f"{NAME}+4", *, token: str = TOKEN, expiry: int = NOW + 60) -> str:
    ttl = int(CONFIG.Collections.BlobSigningTTL)
    return locators.signed(locator, token=token, expiry=expiry, ttl=ttl, key="key")


def _lender(
    *volumes: DirectoryVolume | MemoryVolume,
    config: Config = CONFIG,
    metrics: BlockMetrics | None = None,
    **more: float,
) -> FdPasser:
    mounts = VolumeSet(
        [
            VolumeMount(uuid=f"zzzzz-nyw5e-{number:015}", volume=one)
            for number, one in enumerate(volumes)
        ]
    )
    return FdPasser(mounts, config, clock=lambda: NOW, check_token=_check, metrics=metrics, **more)


async def test_a_passed_file_counts_as_read(volume: DirectoryVolume) -> None:
    registry = CollectorRegistry()
    lender = _lender(volume, metrics=BlockMetrics(registry))
    (await lender.open(BlockFileRequest(TOKEN, _signed()))).close()
    assert registry.get_sample_value("lading_block_read_bytes_total", {"way": "file"}) == 4


@pytest.fixture
async def volume(tmp_path: Path) -> AsyncGenerator[DirectoryVolume]:
    made = DirectoryVolume(tmp_path / "blocks", reserve=0)
    await made.put(NAME, DATA)
    yield made
    await made.close()


@pytest.fixture
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, volume: DirectoryVolume
) -> AsyncGenerator[Path]:
    """The socket of a lender that serves."""
    path = tmp_path / "api.lend"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        lender = _lender(volume, timeout=getattr(request, "param", 10.0))
        serving = asyncio.create_task(lender.serve(listening))
        yield path
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_the_file_of_a_block_is_lent(volume: DirectoryVolume) -> None:
    loan = await _lender(MemoryVolume(), volume).open(BlockFileRequest(TOKEN, _signed()))
    assert os.pread(loan.descriptor, 10, 0) == DATA
    with pytest.raises(OSError, match="Bad file"):
        os.write(loan.descriptor, b"x")


@pytest.mark.parametrize(
    ("token", "locator", "error"),
    [
        (TOKEN, f"{NAME}+4", Malformed),
        (TOKEN, _signed(token="another"), Malformed),
        (TOKEN, _signed(expiry=NOW - 1), Unauthenticated),
        (TOKEN, _signed().replace(NAME, "0" * 32), Malformed),
        (TOKEN, _signed(f"{'0' * 32}+4"), NotFound),
        (TOKEN, "../../etc/passwd", Malformed),
        ("", _signed(), Unauthenticated),
        ("another", _signed(token="another"), Unauthenticated),
    ],
)
async def test_as_over_http_not_everything_is(
    volume: DirectoryVolume, token: str, locator: str, error: type[LadingError]
) -> None:
    with pytest.raises(error):
        await _lender(volume).open(BlockFileRequest(token, locator))


async def test_without_signing_none_is_needed(volume: DirectoryVolume) -> None:
    config = Config(Collections=Collections(BlobSigning=False))
    loan = await _lender(volume, config=config).open(BlockFileRequest(TOKEN, f"{NAME}+4"))
    assert os.pread(loan.descriptor, 10, 0) == DATA


async def test_a_volume_that_keeps_no_files_lends_none() -> None:
    volume = MemoryVolume()
    await volume.put(NAME, DATA)
    with pytest.raises(NotFound, match="no volume of this machine"):
        await _lender(volume).open(BlockFileRequest(TOKEN, _signed()))


async def test_over_the_socket(place: Path) -> None:
    borrow = FdReceiver(place, TOKEN)
    for _ in range(3):
        descriptor = await borrow(_signed())
        assert descriptor is not None
        assert os.pread(descriptor, 10, 0) == DATA
        os.close(descriptor)
    assert await borrow(_signed(f"{'0' * 32}+4")) is None


async def test_the_reason_of_a_refusal(place: Path) -> None:
    with pytest.raises(Malformed, match="not valid for this token"):
        await asyncio.to_thread(FdReceiver(place, TOKEN).borrow, _signed(token="another"))


def _say(place: Path, packet: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(30)
        connection.connect(str(place))
        connection.send(packet)
        return connection.recv(1 << 16)


@pytest.mark.parametrize("packet", [b"x", b"{}", b'{"token": 1, "locator": 2}', b"\xff" * 60_000])
async def test_what_is_no_request(place: Path, packet: bytes) -> None:
    answer = msgspec.json.decode(await asyncio.to_thread(_say, place, packet))
    assert answer == {"status": 400, "error": "not a request for a block"}


async def test_another_user_gets_no_answer(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fd_passing, "peer_of", lambda _: os.geteuid() + 1)
    assert await FdReceiver(place, TOKEN)(_signed()) is None


@pytest.mark.parametrize("place", [0.01], indirect=True, ids=["short"])
async def test_who_says_nothing_keeps_nobody_waiting(place: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(30)
        connection.connect(str(place))
        assert await asyncio.to_thread(connection.recv, 10) == b""


async def test_a_connection_that_cannot_be_taken_is_not_the_end(
    volume: DirectoryVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, seen = asyncio.get_running_loop(), asyncio.Event()
    faults = [OSError("no descriptor"), OSError("no descriptor")]

    async def accept(_: socket.socket) -> object:
        if faults:
            raise faults.pop()
        seen.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(loop, "sock_accept", accept)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        serving = asyncio.create_task(_lender(volume, pause=0).serve(listening))
        await asyncio.wait_for(seen.wait(), 60)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
