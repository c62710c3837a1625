from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from lading.blobs.remote import RemoteVolume
from lading.client.transport import Response
from lading.core.errors import Corrupt, NotFound, Unavailable

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()


class Liar:
    """Answers every request with the same."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self._answer = Response(status, {}, body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0,
    ) -> Response:
        return self._answer

    def volume(self) -> RemoteVolume:
        return RemoteVolume("zzzzz-nyw5e-000000000000000", self, "token")  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"bar", bytes(1 << 20)])
async def test_what_comes_is_verified(data: bytes) -> None:
    with pytest.raises(Corrupt, match="does not match the hash"):
        await Liar(data).volume().get(FOO)
    with pytest.raises(NotFound):
        await Liar(data).volume().get(FOO, memoryview(bytearray(2)))
    assert await Liar(b"foo").volume().get(FOO) == b"foo"


@pytest.mark.parametrize("body", [b"", f"{FOO}+3 1\n".encode()])
async def test_an_index_without_its_end_is_none(body: bytes) -> None:
    with pytest.raises(Unavailable, match="ended early"):
        _ = [one async for one in Liar(body).volume().index()]
    assert [one async for one in Liar(b"\n").volume().discarded()] == []


async def test_a_refusal_without_words_names_the_volume() -> None:
    with pytest.raises(Unavailable, match="volume zzzzz-nyw5e-000000000000000: POST"):
        await Liar(b"", 503).volume().touch(FOO)
