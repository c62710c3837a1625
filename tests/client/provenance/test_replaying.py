"""Requests of replays, and first differences of outputs."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.client.api import Record
from lading.client.blocks import BlockClient
from lading.client.provenance.replaying import FirstDifference, first_difference, replay_request
from lading.core.data.filetree import File, FileTree, Segment, from_files
from lading.core.errors import Invalid
from lading.testing.world import MemoryBlocks

REQUEST: Record = {
    "uuid": "zzzzz-xvhdp-000000000000000", "name": "n", "priority": 0, "command": ["old"],
    "container_image": "tools:1", "mounts": {"/in": {"container_request": "other"}},
    "depends_on": ["other"], "output_name": "o", "parallel_group": "g", "max_parallel": 2,
    "properties": {"a": 1},
}  # fmt: skip
CONTAINER: Record = {
    "state": "Complete", "output": "hash", "command": ["new"], "container_image": "pdh",
    "cwd": "/", "environment": {}, "mounts": {}, "output_path": "/out",
}  # fmt: skip


class _Blocks(BlockClient):
    """Blocks in memory."""

    def __init__(self, blocks: MemoryBlocks) -> None:
        self._blocks = blocks

    async def get(self, locator: str, into: memoryview | None = None) -> bytes:
        return bytes(await self._blocks.get(locator[:32]))


def _tree(blocks: MemoryBlocks, files: dict[str, bytes], piece: int) -> FileTree:
    made = {}
    for name, data in files.items():
        parts = [data[at : at + piece] for at in range(0, len(data), piece)]
        made[name] = File(tuple(Segment(blocks.put(one), 0, len(one)) for one in parts))
    return from_files(made)


def _compare(
    before: dict[str, bytes], after: dict[str, bytes], pieces: tuple[int, int] = (100, 100)
) -> FirstDifference | None:
    blocks = MemoryBlocks()
    old, new = _tree(blocks, before, pieces[0]), _tree(blocks, after, pieces[1])
    return asyncio.run(first_difference(_Blocks(blocks), old, new))


def test_the_recorded_recipe_is_what_runs() -> None:
    body = replay_request(REQUEST, CONTAINER)
    assert (body["command"], body["container_image"], body["mounts"]) == (["new"], "pdh", {})
    assert (body["name"], body["use_existing"], body["priority"]) == ("n (replay)", False, 500)
    assert body["properties"] == {"a": 1}
    assert not {"depends_on", "output_name", "parallel_group", "max_parallel"} & body.keys()
    with pytest.raises(Invalid, match="has no result"):
        replay_request(REQUEST, {**CONTAINER, "state": "Cancelled"})


def test_the_first_file_that_differs() -> None:
    assert _compare({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}) is None
    found = _compare({"a": b"1", "b": b"xy", "c": b"1"}, {"a": b"1", "b": b"xz", "c": b"2"})
    assert (str(found), found and found.before) == ("b differs at byte 1", 2)
    assert str(_compare({"a": b"1"}, {})) == "a is missing"
    assert str(_compare({}, {"a": b"1"})) == "a is new"
    assert str(_compare({"a": b""}, {"a": b"1"})) == "a differs at byte 0"
    assert str(_compare({"a": b"12"}, {"a": b"1"})) == "a differs at byte 1"


@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(1, 5), st.integers(1, 5))
def test_the_byte_is_the_same_however_files_are_stored(
    one: bytes, two: bytes, first: int, second: int
) -> None:
    found = _compare({"a": one}, {"a": two}, (first, second))
    expected = next(
        (at for at, pair in enumerate(itertools.zip_longest(one, two)) if pair[0] != pair[1]), None
    )
    assert (found and found.offset) == (None if expected is None else expected)
