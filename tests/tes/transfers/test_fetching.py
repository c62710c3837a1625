"""Objects that break off, change, lie, or come slowly."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Full, NotFound, TooLarge, Unavailable
from lading.core.tes.transfers import ObjectFacts
from lading.tes.transfers.endpoints import OpenObject
from lading.tes.transfers.fetching import FetchedObject, ObjectFetch, TransferRules
from lading.tes.transfers.outside_http import PassingFault
from tests.tes.site import Hurry, make_rules

MIB = 1 << 20


class Source:
    """An object whose next attempts end after so many bytes (`cuts`)."""

    name = "fake://object"
    piece = MIB

    def __init__(self, body: bytes, *, cuts: tuple[int, ...] = (), parts: bool = True) -> None:
        self.body, self.cuts, self.parts = body, list(cuts), parts
        self.facts = ObjectFacts(size=len(body), validator='"1"', etag='"1"')
        self.starts: list[int] = []
        self.opening: list[Exception] = []

    @asynccontextmanager
    async def open(self, start: int, known: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        if self.opening:
            raise self.opening.pop(0)
        begin = start if self.parts and known and known.etag == self.facts.etag else 0
        self.starts.append(begin)
        yield OpenObject(facts=self.facts, start=begin, pieces=self._pieces(begin))

    async def _pieces(self, start: int) -> AsyncIterator[bytes]:
        end = start + self.cuts.pop(0) if self.cuts else len(self.body)
        for at in range(start, min(end, len(self.body)), self.piece):
            yield self.body[at : min(at + self.piece, end)]
        if end < len(self.body):
            raise PassingFault("cut")


class Blocks:
    """Blocks by locator."""

    def __init__(self, *faults: Exception) -> None:
        self.stored: dict[str, bytes] = {}
        self.faults = list(faults)

    async def put(self, data: bytes | bytearray) -> str:
        if self.faults:
            raise self.faults.pop(0)
        name = f"{hashlib.md5(data).hexdigest()}+{len(data)}"
        self.stored[name] = bytes(data)
        return name

    async def put_part(self, descriptor: int, start: int, length: int) -> str:
        raise NotImplementedError


async def receive(
    source: Source, blocks: Blocks | None = None, **rules: Any
) -> tuple[bytes, FetchedObject]:
    kept = blocks or Blocks()
    found = await ObjectFetch(source, kept, make_rules(**rules)).run()
    if found.file is None:
        return found.content, found
    return b"".join(kept.stored[one.locator] for one in found.file.segments), found


async def test_small_objects_stay_in_memory() -> None:
    content, found = await receive(Source(b"abc"))
    assert (content, found.size, found.file, found.sha256) == (b"abc", 3, None, "")


async def test_large_objects_become_blocks() -> None:
    body = bytes(MAX_BLOCK) + b"x" * (2 * MIB)
    content, found = await receive(Source(body))
    assert found.file is not None
    assert [one.length for one in found.file.segments] == [MAX_BLOCK, 2 * MIB]
    assert content == body


async def test_the_rest_is_asked_for() -> None:
    body = bytes(range(256)) * (5 * MIB // 256)
    source = Source(body, cuts=(2 * MIB, 2 * MIB))
    assert (await receive(source))[0] == body
    assert source.starts == [0, 2 * MIB, 4 * MIB]


async def test_progress_forgives_failures() -> None:
    source = Source(bytes(12 * MIB), cuts=(MIB,) * 11)
    assert len((await receive(source))[0]) == 12 * MIB


async def test_little_progress_is_given_up() -> None:
    source = Source(bytes(12 * MIB), cuts=(100,) * 99)
    with pytest.raises(Unavailable, match="fake://object: given up after 6 attempts: cut"):
        await receive(source)


async def test_without_parts_all_is_received_again() -> None:
    source = Source(b"abcdef", cuts=(3,), parts=False)
    assert (await receive(source))[0] == b"abcdef"
    assert source.starts == [0, 0]


async def test_an_object_that_changes() -> None:
    source = Source(bytes(3 * MIB), cuts=(2 * MIB,))

    async def change(seconds: float) -> None:
        source.body = b"new"
        source.facts = replace(source.facts, size=3, etag='"2"', validator='"2"')

    assert (await receive(source, sleep=change))[0] == b"new"


async def test_the_rest_of_another_object_is_refused() -> None:
    source = Source(b"abcdef", cuts=(3,))

    @asynccontextmanager
    async def lie(start: int, known: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        facts = replace(source.facts, etag=f'"{start}"')
        async with source.open(start, source.facts if known else None) as opened:
            yield OpenObject(facts=facts, start=opened.start, pieces=opened.pieces)

    other = Source(b"")
    other.open = lie  # type: ignore[method-assign]
    content, _ = await receive(other)
    assert content == b"abcdef"
    assert source.starts == [0, 3, 0]


@pytest.mark.parametrize("size", [2, 4])
async def test_a_size_that_is_not_kept(size: int) -> None:
    source = Source(b"abc")
    source.facts = replace(source.facts, size=size)
    with pytest.raises(Unavailable, match=f"3 of {size} bytes came"):
        await receive(source)


async def test_a_checksum_that_is_wrong_once() -> None:
    good = hashlib.sha256(b"abc").hexdigest()
    source = Source(b"abx")
    source.facts = replace(source.facts, checksums=(("sha256", good),))

    async def mend(seconds: float) -> None:
        source.body = b"abc"

    assert (await receive(source, sleep=mend))[0] == b"abc"
    source.body = b"abx"
    with pytest.raises(Unavailable, match="the sha256 checksum is"):
        await receive(source)


async def test_objects_without_a_validator_are_hashed() -> None:
    source = Source(b"abc")
    source.facts = ObjectFacts()
    assert (await receive(source))[1].sha256 == hashlib.sha256(b"abc").hexdigest()


async def test_a_slow_server_is_left() -> None:
    source = Source(bytes(1000))
    source.piece = 10
    moments = iter(range(0, 10_000, 40))
    rules: dict[str, Any] = {"clock": lambda: float(next(moments)), "min_rate": 100}
    with pytest.raises(Unavailable, match="bytes a second came"):
        await receive(source, **rules)


async def test_a_server_that_asks_to_wait() -> None:
    source, hurry = Source(b"abc"), Hurry()
    source.opening = [PassingFault("busy", 9.0), PassingFault("busy")]
    await receive(source, sleep=hurry)
    assert hurry.pauses == [9.0, 1.0]


async def test_objects_that_are_too_large() -> None:
    with pytest.raises(TooLarge, match=r"TES\.MaxObjectSize"):
        await receive(Source(b"abc"), most=2)


async def test_faults_of_the_store() -> None:
    body = bytes(2 * MIB)
    assert (await receive(Source(body), Blocks(Unavailable("busy"))))[0] == body
    with pytest.raises(Unavailable):
        await receive(Source(body), Blocks(*[Full("no room")] * 9))


async def test_errors_that_do_not_pass() -> None:
    source = Source(b"")
    source.opening = [NotFound("none")]
    with pytest.raises(NotFound):
        await receive(source)


async def test_what_is_stored_is_not_received() -> None:
    async def is_known(facts: ObjectFacts) -> bool:
        return facts.validator == '"1"'

    blocks = Blocks()
    fetch = ObjectFetch(Source(bytes(3 * MIB)), blocks, make_rules())
    assert await fetch.run_unless(is_known) is None
    assert blocks.stored == {}


async def test_calls_are_repeated() -> None:
    answers: list[Exception] = [PassingFault("busy"), PassingFault("busy")]

    async def call() -> int:
        if answers:
            raise answers.pop()
        return 1

    rules: TransferRules = make_rules()
    assert await rules.repeat(call) == 1
    answers += [PassingFault("busy")] * 6
    with pytest.raises(PassingFault):
        await rules.repeat(call)


async def test_what_was_received_is_told() -> None:
    told: list[tuple[int, int | None]] = []
    fetch = ObjectFetch(
        Source(b"abc"), Blocks(), make_rules(), note=lambda done, size: told.append((done, size))
    )
    await fetch.run()
    assert told == [(3, 3)]
