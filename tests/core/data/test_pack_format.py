from __future__ import annotations

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.pack_format import (
    HEADER_SIZE,
    LIMIT,
    PACK_HEADER_SIZE,
    PackRecord,
    PackScanner,
    RecordKind,
    decode_sidecar,
    encode_pack_header,
    encode_record,
    encode_sidecar,
    find_key,
    has_gap,
)

KEY = b"\x01key\xff\x00\x02\x03"


def _hash(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _put(data: bytes) -> bytes:
    return encode_record(RecordKind.PUT, _hash(data), 5, KEY, data)


def _scan(data: bytes, *, step: int = 1 << 20) -> tuple[list[PackRecord], int]:
    scanner = PackScanner(KEY)
    records = [
        record
        for start in range(0, len(data), step)
        for record in scanner.feed(data[start : start + step])
    ]
    return records, scanner.end


BLOCKS = [b"", b"foo", KEY * 9, b"x" * 1000]


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_what_was_written_is_found_in_pieces_of_any_size(step: int) -> None:
    data = b"".join(map(_put, BLOCKS)) + encode_record(RecordKind.REMOVE, _hash(b""), -7, KEY)
    records, end = _scan(data, step=step)
    assert end == PACK_HEADER_SIZE + len(data)
    assert [record.hash for record in records] == [*map(_hash, BLOCKS), _hash(b"")]
    assert records[-1] == PackRecord(RecordKind.REMOVE, _hash(b""), end - HEADER_SIZE, 0, -7)
    assert not has_gap(records)


def test_a_pack_that_is_cut_anywhere_has_the_records_before() -> None:
    data = b"".join(map(_put, BLOCKS[:3]))
    ends = list(itertools.accumulate(len(_put(block)) for block in BLOCKS[:3]))
    for size in range(len(data)):
        for rest in (b"", bytes(len(data) - size), b"\xff" * (len(data) - size)):
            records, end = _scan(data[:size] + rest)
            whole = [one for one in ends if one <= size]
            assert len(records) == len(whole)
            assert end == PACK_HEADER_SIZE + max(whole, default=0)


def test_bytes_of_a_cut_block_are_no_damaged_block() -> None:
    first = _put(b"foo")
    records, end = _scan(first + _put(b"lost").replace(b"lost", bytes(4)))
    assert (len(records), end) == (1, PACK_HEADER_SIZE + len(first))


def test_a_damaged_block_is_listed_if_more_follows() -> None:
    data = _put(b"foo").replace(b"foo", b"fxo") + _put(b"bar")
    records, end = _scan(data)
    assert [record.hash for record in records] == [_hash(b"foo"), _hash(b"bar")]
    assert end == PACK_HEADER_SIZE + len(data)


def test_what_follows_a_damaged_header_is_found() -> None:
    first = bytearray(_put(b"foo"))
    for at in range(HEADER_SIZE):
        spoiled = bytearray(first)
        spoiled[at] ^= 1
        records, _ = _scan(bytes(spoiled) + _put(b"bar"))
        assert [record.hash for record in records] == [_hash(b"bar")]
        assert has_gap(records)


def test_a_client_cannot_put_records_into_a_block() -> None:
    forged = encode_record(RecordKind.REMOVE, _hash(b"victim"), 1, b"guessed!")
    spoiled = bytearray(_put(forged * 3))
    spoiled[9] ^= 1
    records, _ = _scan(bytes(spoiled) + _put(b"bar"))
    assert [record.hash for record in records] == [_hash(b"bar")]


@pytest.mark.parametrize(
    "record",
    [
        encode_record(RecordKind.TOUCH, _hash(b""), 1, KEY, b"bytes"),
        encode_record(RecordKind.PUT, _hash(b""), 1, KEY, bytes(LIMIT)),
    ],
)
def test_a_record_of_another_form_is_none(record: bytes) -> None:
    assert _scan(record + _put(b"foo"))[0][0].hash == _hash(b"foo")


@given(st.lists(st.sampled_from([*map(_put, BLOCKS), KEY, b"\0", b"noise" * 9]), max_size=12))
def test_any_bytes_are_read_in_bounded_memory(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    scanner = PackScanner(KEY)
    records = [record for piece in pieces for record in scanner.feed(piece)]
    assert (records, scanner.end) == _scan(data)
    assert PACK_HEADER_SIZE <= scanner.end <= PACK_HEADER_SIZE + len(data)
    for record in records:
        start = record.position - PACK_HEADER_SIZE + HEADER_SIZE
        assert _hash(data[start : start + record.size]) == record.hash


@given(st.binary(max_size=300), st.integers(0, 1 << 62))
def test_any_bytes_are_no_sidecar_and_no_key(data: bytes, size: int) -> None:
    assert decode_sidecar(data, size) is None
    assert find_key(data) is None


def test_a_sidecar_says_what_the_pack_has() -> None:
    records, end = _scan(b"".join(map(_put, BLOCKS)))
    sidecar = encode_sidecar(records, KEY, end)
    assert decode_sidecar(sidecar, end) == records
    assert decode_sidecar(sidecar, end + 1) is None
    for at in range(len(sidecar)):
        spoiled = bytearray(sidecar)
        spoiled[at] ^= 1
        assert decode_sidecar(bytes(spoiled), end) is None
        assert decode_sidecar(sidecar[:at], end) is None


def test_a_sidecar_with_a_record_of_another_form_is_refused() -> None:
    record = PackRecord(RecordKind.PUT, _hash(b""), PACK_HEADER_SIZE, LIMIT, 1)
    assert decode_sidecar(encode_sidecar([record], KEY, 100), 100) is None


def test_the_key_of_a_pack_is_found_without_its_header() -> None:
    header = encode_pack_header(KEY)
    assert len(header) == PACK_HEADER_SIZE
    assert find_key(header) == KEY
    for at in range(PACK_HEADER_SIZE):
        spoiled = bytearray(header)
        spoiled[at] ^= 1
        assert find_key(bytes(spoiled)) is None
        assert find_key(bytes(spoiled) + _put(b"foo")) == KEY
