from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lading.client import blocks
from lading.client.blocks import BlockClient, Keeping, hash_block
from lading.client.retry import NO_RETRY
from lading.client.transport import Response, StreamedResponse, Transport
from lading.core.data import locator
from lading.core.data.locator import EMPTY_BLOCK, MAX_BLOCK
from lading.core.errors import Corrupt, Full, Invalid, Malformed, NotFound, TooLarge, Unavailable
from lading.testing.asgi import FlakyTransport
from lading.testing.blocks import TOKEN, BlockStore, MemoryVolume

FOO = "acbd18db4cc2f85cedef654fccc4a4d8"


class Before:
    """A transport that calls `action` before each exchange in pieces."""

    def __init__(self, inner: Transport, action: Callable[[], object]) -> None:
        self.request, self.websocket, self.close = inner.request, inner.websocket, inner.close
        self.switch = inner.switch
        self._inner, self._action = inner, action

    def stream(
        self, method: str, path: str, **more: Any
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        self._action()
        return self._inner.stream(method, path, **more)


@pytest.fixture
def store() -> BlockStore:
    return BlockStore()


@pytest.mark.parametrize("size", [1, 300_000, 2 << 20])
async def test_what_is_put_is_got(store: BlockStore, size: int) -> None:
    data = bytes(range(256)) * (size // 256) or b"x"
    found = await store.client.put(data)
    assert locator.parse(found).size == len(data)
    assert await store.client.get(found) == data


async def test_the_empty_block_is_not_asked_for() -> None:
    client = BlockStore().over(FlakyTransport(BlockStore().transport, seed=0, loss=1.0))
    assert await client.get(EMPTY_BLOCK) == b""


async def test_lost_messages_are_sent_again(store: BlockStore) -> None:
    client = store.over(FlakyTransport(store.transport, seed=1, loss=0.4))
    for number in range(20):
        data = str(number).encode()
        assert await client.get(await client.put(data)) == data


async def test_a_failing_volume_is_tried_again() -> None:
    client = BlockStore(MemoryVolume(failures=0.5, seed=2)).client
    assert await client.get(await client.put(b"foo")) == b"foo"


async def test_errors_are_those_of_the_store(store: BlockStore) -> None:
    absent = await store.client.put(b"foo")
    store = BlockStore()
    with pytest.raises(NotFound, match="no such block"):
        await store.client.get(absent)
    with pytest.raises(Malformed, match="no permission signature"):
        await store.client.get(f"{FOO}+3")
    with pytest.raises(Malformed, match="not a block locator"):
        await store.client.get("foo")
    with pytest.raises(Full):
        await BlockStore(MemoryVolume(capacity=1)).client.put(b"foo")


async def test_a_block_that_rotted_is_never_got(store: BlockStore) -> None:
    found = await store.client.put(b"foo")
    store.volume.rot(FOO)
    with pytest.raises(Corrupt):
        await store.client.get(found)


async def test_a_block_has_at_most_64_mib(store: BlockStore) -> None:
    with pytest.raises(TooLarge, match="cut it up"):
        await store.client.put(bytearray(MAX_BLOCK + 1))


class Liar:
    """Answers every request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0,
    ) -> Response:
        return Response(200, {}, self._body)

    def client(self) -> BlockClient:
        return BlockClient(self, "t", retry=NO_RETRY)  # type: ignore[arg-type]


async def test_what_comes_is_checked() -> None:
    with pytest.raises(Corrupt, match="do not match the hash"):
        await Liar(b"bar").client().get(f"{FOO}+3")
    with pytest.raises(Unavailable, match="only 2 bytes came"):
        await Liar(b"fo").client().get(f"{FOO}+3")
    assert await Liar(b"foo").client().get(FOO) == b"foo"


async def test_what_the_store_says_it_kept_is_checked() -> None:
    with pytest.raises(Corrupt, match="says it kept"):
        await Liar(b"37b51d194a7513e45b56f6524f2d51f2+3\n").client().put(b"foo")


async def test_what_is_to_be_kept_in_a_way_is_refused_when_it_is_not(store: BlockStore) -> None:
    twice = store.client.keeping(Keeping(copies=2, classes=("default",)))
    assert await twice.get(await twice.put(b"foo")) == b"foo"
    few = f"{FOO}\\+3: kept in fewer than 2 copies"
    once = {"x-keep-replicas-stored": "1", "x-keep-storage-classes-confirmed": "default=1, fast=0"}
    answer = Response(200, once, f"{FOO}+3".encode())
    for keeping, reason in (
        (Keeping(copies=2), few),
        (Keeping(copies=2, classes=("default",)), f"{few} in class default"),
        (Keeping(classes=("fast",)), "fewer than 1 copies in class fast"),
    ):
        with pytest.raises(Full, match=reason):
            keeping.check(answer, f"{FOO}+3")
    Keeping(classes=("default",)).check(answer, f"{FOO}+3")
    assert Keeping().headers() == {}


async def test_hash_block() -> None:
    assert await hash_block(b"foo") == FOO
    assert await hash_block(bytes(1 << 20)) == "b6d81b360a5672d80c27430f39153e2c"


@pytest.mark.parametrize("size", [3, 300_000, 9 << 20])
async def test_a_block_is_saved_to_a_file(store: BlockStore, tmp_path: Path, size: int) -> None:
    data = (b"foo" * size)[:size]
    found = await store.client.put(data)
    path = tmp_path / "block"
    with path.open("wb") as file:
        await store.client.save(found, file.fileno())
        await store.client.save(EMPTY_BLOCK, file.fileno())
    assert path.read_bytes() == data


async def test_what_is_saved_was_verified(tmp_path: Path) -> None:
    class Liar:
        """Answers with other bytes than it was asked for."""

        @asynccontextmanager
        async def stream(
            self, method: str, path: str, **more: object
        ) -> AsyncGenerator[StreamedResponse]:
            async def chunks() -> AsyncGenerator[bytes]:
                yield b"bar" if path.startswith("/acbd") else b"b"

            yield StreamedResponse(200, {}, chunks())

    client = BlockClient(Liar(), "token", retry=NO_RETRY)  # type: ignore[arg-type]
    with (tmp_path / "block").open("wb") as file:
        with pytest.raises(Corrupt, match="do not match the hash"):
            await client.save(f"{FOO}+3", file.fileno())
        with pytest.raises(Unavailable, match="only 1 bytes came"):
            await client.save(f"{'0' * 32}+3", file.fileno())


async def test_a_block_that_cannot_be_saved_says_why(store: BlockStore, tmp_path: Path) -> None:
    with (
        (tmp_path / "block").open("wb") as file,
        pytest.raises(Malformed, match="no permission signature"),
    ):
        await store.client.save(f"{FOO}+3", file.fileno())


async def test_a_part_of_a_file_is_put_without_holding_it(
    store: BlockStore, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)) * 12_000)
    client = store.over(FlakyTransport(store.transport, seed=3, loss=0.3))
    with (tmp_path / "f").open("rb") as file:
        found = await client.put_part(file.fileno(), 256, 2_500_000)
    assert locator.parse(found).size == 2_500_000
    assert await store.client.get(found) == (bytes(range(256)) * 12_000)[256:2_500_256]


async def test_who_trusts_the_store_leaves_hashing_to_it(
    store: BlockStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hash_block", "hash_part"):
        monkeypatch.setattr(blocks, name, None)
    client = BlockClient(store.transport, "token", trusting=True)
    (tmp_path / "f").write_bytes(b"--foo")
    with (tmp_path / "f").open("rb") as file:
        found = [await client.put(b"foo"), await client.put_part(file.fileno(), 2, 3)]
    assert [one[:34] for one in found] == [f"{FOO}+3"[:34]] * 2


async def test_a_part_that_is_not_there(store: BlockStore, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    with (tmp_path / "f").open("rb") as file, pytest.raises(Invalid, match="shorter"):
        await store.client.put_part(file.fileno(), 0, 11)


@pytest.mark.parametrize(
    ("later", "error", "said"),
    [(b"y" * 10, Malformed, "do not match"), (b"x" * 9, Invalid, "shorter")],
)
async def test_a_part_that_changes_after_it_was_hashed(
    store: BlockStore, tmp_path: Path, later: bytes, error: type[Exception], said: str
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    client = store.over(Before(store.transport, lambda: path.write_bytes(later)))
    with path.open("rb") as file, pytest.raises(error, match=said):
        await client.put_part(file.fileno(), 0, 10)


async def test_a_file_system_that_cannot_say_what_is_in_memory(
    store: BlockStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> int:
        if len(arguments) > 3:
            raise OSError(95, "not supported")
        return whole(*arguments)  # type: ignore[arg-type]

    whole = os.preadv
    monkeypatch.setattr(os, "preadv", refuse)
    (tmp_path / "f").write_bytes(b"x" * 10)
    with (tmp_path / "f").open("rb") as file:
        assert (
            await store.client.get(await store.client.put_part(file.fileno(), 0, 10)) == b"x" * 10
        )


@pytest.mark.parametrize("fault", ["none", "other bytes", "short", "long", "absent", "unreadable"])
async def test_a_borrowed_file_is_copied_if_it_is_the_block(
    store: BlockStore, tmp_path: Path, fault: str
) -> None:
    data = os.urandom((1 << 20) + 7)
    locator, asked = await store.client.put(data), list[str]()
    content = {"other bytes": data[::-1], "short": data[:-1], "long": data + b"x"}.get(fault, data)
    (tmp_path / "lent").write_bytes(content)

    async def borrow(locator: str) -> int | None:
        asked.append(locator)
        if fault == "absent":
            return None
        flags = os.O_WRONLY if fault == "unreadable" else os.O_RDONLY
        return os.open(tmp_path / "lent", flags)

    sent = list[str]()
    client = BlockClient(
        Before(store.transport, lambda: sent.append("GET")),
        TOKEN,
        borrow=borrow,
    )
    with (tmp_path / "file").open("wb") as file:
        await client.keeping(Keeping()).save(locator, file.fileno(), 5)
    assert (tmp_path / "file").read_bytes() == bytes(5) + data
    # A long file begins with the block.
    assert (asked, sent) == ([locator], [] if fault in ("none", "long") else ["GET"])


async def test_small_blocks_are_not_borrowed(store: BlockStore, tmp_path: Path) -> None:
    async def borrow(_: str) -> int | None:
        raise AssertionError

    client = BlockClient(store.transport, TOKEN, borrow=borrow)
    with (tmp_path / "file").open("wb") as file:
        await client.save(await client.put(b"foo"), file.fileno())
    assert (tmp_path / "file").read_bytes() == b"foo"


async def test_a_known_hash_is_verified_by_the_store(store: BlockStore, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"foo")
    with (tmp_path / "f").open("rb") as file:
        assert (await store.client.put_part(file.fileno(), 0, 3, FOO)).startswith(FOO)
        with pytest.raises(Malformed, match="do not match this hash"):
            await store.client.put_part(file.fileno(), 0, 2, FOO)
    assert (await store.client.put(b"foo", FOO)).startswith(FOO)
    with pytest.raises(Malformed, match="do not match this hash"):
        await store.client.put(b"bar", FOO)
