"""Log files written out while they are read."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.cli.running.log_lines import Readable, write_json
from lading.cli.running.log_lines import copy_log as copy
from lading.cli.running.log_lines import merged_log as merged

_PIECE = 1 << 18


class _File:
    """A log file in pieces."""

    def __init__(self, pieces: Iterator[bytes] | list[bytes]) -> None:
        self._pieces = pieces

    async def read(self) -> AsyncGenerator[bytes]:
        for piece in self._pieces:
            yield piece


def _cut(text: bytes, size: int) -> _File:
    return _File([text[start : start + size] for start in range(0, len(text), size)])


def _line(moment: int, text: bytes) -> bytes:
    return b"2026-01-02T03:04:05.%09dZ %b\n" % (moment, text)


async def _merge(*files: Readable) -> bytes:
    async with aclosing(merged(list(files))) as pieces:
        return b"".join([piece async for piece in pieces])


class _Nowhere(io.RawIOBase):
    """A stream that counts what is written to it."""

    written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        size = len(memoryview(data))  # type: ignore[arg-type]
        self.written += size
        return size


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
async def test_streams_are_merged_by_time(size: int) -> None:
    one = _line(1, b"a") + _line(4, b"d")[:-1]
    two = _line(3, b"b") + b"c, without a stamp\n"
    lines = (await _merge(_cut(one, size), _cut(two, size))).splitlines()
    assert [line.rpartition(b"Z ")[2][:1] for line in lines] == [b"a", b"b", b"c", b"d"]


_MOMENTS = st.lists(st.integers(0, 9), max_size=12).map(sorted)


@given(_MOMENTS, _MOMENTS, st.integers(1, 99), st.integers(1, 99))
async def test_the_order_is_that_of_the_stamps(
    first: list[int], second: list[int], one: int, two: int
) -> None:
    texts = [
        b"".join(_line(each, b"%d" % number) for each in given)
        for number, given in enumerate((first, second))
    ]
    wanted = sorted(
        b"".join(texts).splitlines(keepends=True), key=lambda line: (line[:30], line[31:32])
    )
    assert await _merge(_cut(texts[0], one), _cut(texts[1], two)) == b"".join(wanted)


async def test_a_clock_that_is_set_back_does_not_change_the_order_of_a_file() -> None:
    one = _line(5, b"a") + _line(2, b"b") + _line(6, b"c")
    found = await _merge(_cut(one, 1000), _cut(_line(3, b"x"), 1000))
    assert [line[-2:-1] for line in found.splitlines(keepends=True)] == [b"x", b"a", b"b", b"c"]


async def test_a_line_of_any_length_is_not_cut_by_others() -> None:
    text = b"y" * (3 << 20)
    one = _line(1, b"a") + _line(3, text) + _line(5, b"c")
    two = _line(2, b"d") + _line(4, b"e") + _line(6, b"f")
    assert await _merge(_cut(one, _PIECE), _cut(two, 50)) == b"".join(
        _line(number, each) for number, each in enumerate((b"a", b"d", text, b"e", b"c", b"f"), 1)
    )


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_many_lines_take_little_memory(number: int) -> None:
    block = b"".join(_line(moment, b"x" * 60) for moment in range(_PIECE // 92))
    count, out = 200, _Nowhere()
    files: list[Readable] = [_File(block for _ in range(count)) for _ in range(2)]
    tracemalloc.start()
    try:
        if number == 0:
            await copy(files[0], out)  # type: ignore[arg-type]
        elif number == 1:
            await write_json({"stdout.txt": files[0]}, out)  # type: ignore[arg-type]
        else:
            async with aclosing(merged(files)) as pieces:
                async for piece in pieces:
                    out.write(piece)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.written >= count * len(block)
    assert most < 16 << 20


@given(st.lists(st.binary(max_size=9), max_size=4), st.text(max_size=9))
async def test_json_is_that_of_the_whole_text(pieces: list[bytes], name: str) -> None:
    out = io.BytesIO()
    await write_json({name: _File([*pieces, "é\n".encode()]), name + "2": _File([])}, out)
    whole = (b"".join(pieces) + "é\n".encode()).decode(errors="replace")
    assert json.loads(out.getvalue()) == {name: whole, name + "2": ""}
