from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.pack_format import HEADER_SIZE, PackRecord, RecordKind
from lading.core.data.pack_index import (
    PackEntry,
    PackIndex,
    PackUse,
    choose_pack,
    folder_of,
    is_needed,
)

HASHES = [hashlib.md5(bytes([number]), usedforsecurity=False).digest() for number in range(6)]
# Of one folder.
HASHES += [HASHES[0][:2] + bytes([number]) * 14 for number in range(3)]
PUT, TOUCH, REMOVE = RecordKind


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(RecordKind)),
            st.sampled_from(HASHES),
            st.integers(0, 1 << 31),
            st.integers(0, 65535),
            st.integers(-(1 << 62), 1 << 62),
            st.integers(1, 4),
        )
    )
)
def test_the_index_is_a_map(
    written: list[tuple[RecordKind, bytes, int, int, int, int]],
) -> None:
    index, model = PackIndex(), dict[bytes, PackEntry]()
    for kind, hash, position, size, time_ns, pack in written:
        index.apply(PackRecord(kind, hash, position, size, time_ns), pack)
        block = model.get(hash)
        if kind is PUT:
            model[hash] = PackEntry(hash, pack, position, size, time_ns)
        elif kind is REMOVE:
            model.pop(hash, None)
        elif block is not None:
            model[hash] = PackEntry(hash, block.pack, block.position, block.size, time_ns)
    _check(index, model)
    index.keep_packs([1, 2])
    _check(index, {hash: block for hash, block in model.items() if block.pack < 3})


def _check(index: PackIndex, model: dict[bytes, PackEntry]) -> None:
    assert len(index) == len(model)
    assert [index.find(hash) for hash in HASHES] == [model.get(hash) for hash in HASHES]
    listed = [block for number in index.folders() for block in index.folder(number)]
    assert listed == sorted(model.values(), key=lambda block: block.hash)
    assert all(folder_of(one.hash) == int(one.hash.hex()[:3], 16) for one in listed)
    live = Counter[int]()
    for block in model.values():
        live[block.pack] += HEADER_SIZE + block.size
    assert [index.live(pack) for pack in range(1, 5)] == [live[pack] for pack in range(1, 5)]
    assert index.folder(0xFFF) == []


@pytest.mark.parametrize(
    ("uses", "skipped", "chosen"),
    [
        ({}, {0}, None),
        ({1: PackUse(100, 51), 2: PackUse(100, 51)}, {2}, None),
        ({1: PackUse(100, 51), 2: PackUse(100, 50), 3: PackUse(100)}, {3}, 2),
        # Removals may be needed, but not in the oldest pack.
        ({1: PackUse(100, 40, 60), 2: PackUse(100, 100)}, {2}, 1),
        ({1: PackUse(100, 60), 2: PackUse(100, 40, 60), 3: PackUse(100, 90)}, {3}, None),
        ({1: PackUse(100, 0), 2: PackUse(100, 0)}, {1, 2}, None),
        # Too many notes: the oldest pack goes, so that they lose their use.
        ({1: PackUse(100, 100), 2: PackUse(300, 0, 300), 3: PackUse(10)}, {3}, 1),
        ({1: PackUse(100, 100), 2: PackUse(300, 0, 300), 3: PackUse(10)}, {1, 3}, None),
    ],
)
def test_the_oldest_pack_with_half_of_it_unused_is_compacted(
    uses: dict[int, PackUse], skipped: set[int], chosen: int | None
) -> None:
    assert choose_pack(uses, skipped) == chosen


def test_what_compaction_must_write_again() -> None:
    hash = HASHES[0]
    put, touch, removal = (PackRecord(kind, hash, 20, 0, 7) for kind in RecordKind)
    here, later = PackEntry(hash, 3, 20, 0, 9), PackEntry(hash, 4, 20, 0, 7)
    touched = PackEntry(hash, 2, 90, 0, 7)
    for record, block, is_oldest, needed in (
        (put, here, False, True),
        (put, later, False, False),
        (put, None, False, False),
        # The block that is written again has the time.
        (touch, here, False, False),
        (touch, later, False, False),
        (touch, touched, False, True),
        (touch, None, False, False),
        (removal, None, False, True),
        (removal, None, True, False),
        (removal, later, False, False),
    ):
        assert is_needed(record, 3, block, is_oldest=is_oldest) is needed
