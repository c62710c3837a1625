"""Results on their way."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.core.errors import Invalid, Unavailable
from lading.core.hpc.daemon_configuration import DaemonSettings
from lading.hpc import delivery
from lading.hpc.delivery import ATTEMPTS, Delivery, describe, pack, place
from lading.hpc.layout import DaemonLayout
from tests.s3_service import make_bucket

OK = b'HTTP/1.1 200 OK\r\nETag: "e1"\r\n\r\n'
BUSY = b"HTTP/1.1 503 Slow Down\r\n\r\n"


@pytest.fixture
def layout(tmp_path: Path) -> DaemonLayout:
    made = DaemonLayout(tmp_path, "/root")
    made.make()
    results = made.base / "results"
    (results / "deep").mkdir()
    (results / "deep" / "b").write_text("b")
    (results / "a").write_text("a")
    (results / "link").symlink_to("deep")
    return made


@asynccontextmanager
async def _store(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    taken: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
        taken.append(head + await reader.readexactly(length))
        writer.write(answers[min(len(taken), len(answers)) - 1])
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield (
            f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/bucket/key?X-Amz-Signature=topsecret",
            taken,
        )
    finally:
        server.close()
        await server.wait_closed()


def _delivery(layout: DaemonLayout, pauses: list[float] | None = None, **settings: str) -> Delivery:
    async def sleep(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)

    return Delivery(layout, DaemonSettings(**settings), sleep)  # type: ignore[arg-type]


async def test_one_object_with_everything_is_sent(layout: DaemonLayout) -> None:
    async with _store(OK) as (url, taken):
        (told,) = await _delivery(layout, results_url=url).run()
    head, _, body = taken[0].partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /bucket/key?X-Amz-Signature=topsecret HTTP/1.1\r\n")
    assert b"chunked" not in head
    assert told["url"] == url.partition("?")[0]
    assert (told["etag"], told["size"], told["sha256"]) == (
        "e1",
        len(body),
        hashlib.sha256(body).hexdigest(),
    )
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))) as archive:
        assert archive.getnames() == ["a", "deep", "link", "deep/b"]
        assert {member.uid for member in archive} == {0}


async def test_a_busy_store_is_tried_again(layout: DaemonLayout) -> None:
    pauses: list[float] = []
    async with _store(BUSY, b"nonsense\r\n\r\n", OK) as (url, taken):
        await _delivery(layout, pauses, results_url=url).run()
    assert (len(taken), pauses) == (3, [1.0, 2.0])
    assert taken[0] == taken[2]


async def test_giving_up_leaks_nothing(layout: DaemonLayout) -> None:
    async with _store(BUSY) as (url, taken):
        with pytest.raises(
            Unavailable, match=f"failed {ATTEMPTS} times: it answered 503"
        ) as caught:
            await _delivery(layout, results_url=url).run()
    assert len(taken) == ATTEMPTS
    assert "topsecret" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


async def test_a_refusal_is_final(layout: DaemonLayout) -> None:
    async with _store(b"HTTP/1.1 403 Forbidden\r\n\r\n") as (url, taken):
        with pytest.raises(Invalid, match="still valid") as caught:
            await _delivery(layout, results_url=url).run()
    assert len(taken) == 1
    assert "topsecret" not in caught.value.message


async def test_nobody_there_is_tried_again(
    layout: DaemonLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ATTEMPTS", 2)
    async with _store(OK) as (url, _):
        pass
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        await _delivery(layout, results_url=url).run()


async def test_results_are_moved_and_replace_older_ones(layout: DaemonLayout) -> None:
    target = layout.root / "mnt" / "deep"
    target.mkdir(parents=True)
    (target / "old").touch()
    (told,) = await _delivery(layout, results_directory="/mnt").run()
    assert told == {"directory": "/mnt", "entries": 3}
    assert sorted(one.name for one in (layout.root / "mnt").iterdir()) == ["a", "deep", "link"]
    assert [one.name for one in target.iterdir()] == ["b"]
    assert list((layout.base / "results").iterdir()) == []


async def test_no_target_is_no_delivery(layout: DaemonLayout) -> None:
    assert await _delivery(layout).run() == []


async def test_a_presigned_address_of_s3_takes_it(layout: DaemonLayout) -> None:
    bucket = make_bucket()
    client = bucket.service.client()
    place = {"Bucket": bucket.name, "Key": "rank 0/results.tar.gz"}
    url = client.generate_presigned_url("put_object", Params=place, ExpiresIn=60)
    (told,) = await _delivery(layout, results_url=url).run()
    stored = client.get_object(**place)
    body = stored["Body"].read()
    assert (stored["ETag"].strip('"'), len(body)) == (told["etag"], told["size"])
    assert hashlib.sha256(body).hexdigest() == told["sha256"]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))) as archive:
        assert archive.getnames() == ["a", "deep", "link", "deep/b"]
    assert "Signature" in url
    assert "Signature" not in str(told)


@pytest.fixture
def packed() -> Callable[[Path], bytes]:
    def make(source: Path) -> bytes:
        file = io.BytesIO()
        pack(source, file)
        return file.getvalue()

    return make


def test_equal_files_are_equal_bytes(layout: DaemonLayout, packed: Callable[[Path], bytes]) -> None:
    assert packed(layout.base / "results") == packed(layout.base / "results")


def test_what_is_shown_of_an_address_is_no_secret() -> None:
    assert place("https://me:pw@s3/b/k?X-Amz-Signature=1") == "https://s3/b/k"
    assert describe(Invalid("no")) == "no"
    assert (
        describe(PermissionError(13, "Permission denied", "/x"))
        == "PermissionError: Permission denied"
    )
