from __future__ import annotations

import hashlib

from lading.core.data.pack_changes import ChangeResult, PackBatch, PackChange
from lading.core.data.pack_format import PACK_HEADER_SIZE, PackScanner, RecordKind
from lading.core.data.pack_index import PackEntry, PackIndex

KEY = b"8 bytes."
FOO = hashlib.md5(b"foo", usedforsecurity=False).digest()
PUT, TOUCH, REMOVE = RecordKind


def _batch(index: PackIndex, *, now_ns: int = 100, is_intact: bool = True) -> PackBatch:
    return PackBatch(
        pack=2,
        position=PACK_HEADER_SIZE,
        key=KEY,
        now_ns=now_ns,
        find=index.find,
        is_intact=lambda *_: is_intact,
    )


def _stored(mtime_ns: int = 50) -> PackIndex:
    index = PackIndex()
    index.set(PackEntry(FOO, 1, 24, 3, mtime_ns))
    return index


def test_the_records_are_those_that_are_written() -> None:
    batch = _batch(PackIndex())
    for kind in (PUT, PUT, TOUCH):
        assert batch.add(PackChange(kind, FOO, b"foo" if kind is PUT else b"")) == "done"
    assert PackScanner(KEY).feed(batch.data) == batch.records
    # The second put found the first; each has a later time.
    assert [(one.kind, one.time_ns) for one in batch.records] == [
        (PUT, 100),
        (TOUCH, 101),
        (TOUCH, 102),
    ]


def test_a_stored_block_is_touched_and_a_damaged_one_written_again() -> None:
    for is_intact, kind in ((True, TOUCH), (False, PUT)):
        batch = _batch(_stored(), is_intact=is_intact)
        batch.add(PackChange(PUT, FOO, b"foo"))
        assert [one.kind for one in batch.records] == [kind]


def test_the_time_grows_though_the_clock_went_back() -> None:
    batch = _batch(_stored(1000))
    batch.add(PackChange(PUT, FOO, b"foo"))
    assert batch.records[0].time_ns == 1001


def test_an_absent_block_is_not_touched_nor_removed() -> None:
    batch = _batch(PackIndex())
    for kind in (TOUCH, REMOVE):
        assert batch.add(PackChange(kind, FOO)) is ChangeResult.ABSENT
    assert batch.records == []


def test_a_block_is_removed_only_as_it_was_seen() -> None:
    batch = _batch(_stored())
    assert batch.add(PackChange(REMOVE, FOO, mtime_ns=49)) is ChangeResult.CONFLICT
    assert batch.add(PackChange(REMOVE, FOO, mtime_ns=50)) is ChangeResult.DONE
    assert batch.add(PackChange(REMOVE, FOO, mtime_ns=50)) is ChangeResult.ABSENT
    # Put again after it, in the same batch.
    assert batch.add(PackChange(PUT, FOO, b"foo")) is ChangeResult.DONE
    assert [one.kind for one in batch.records] == [REMOVE, PUT]


def test_a_put_before_a_removal_prevents_it() -> None:
    batch = _batch(_stored())
    batch.add(PackChange(PUT, FOO, b"foo"))
    assert batch.add(PackChange(REMOVE, FOO, mtime_ns=50)) is ChangeResult.CONFLICT


def test_a_touch_of_a_removed_block_leaves_it_removed() -> None:
    batch = _batch(PackIndex())
    batch.write(TOUCH, FOO, 5)
    assert batch.find(FOO) is None
