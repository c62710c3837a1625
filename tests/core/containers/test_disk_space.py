from __future__ import annotations

import pytest

from lading.core.containers.disk_space import (
    AUTOMATIC,
    Amount,
    DiskAllowance,
    DiskWriter,
    FileSystemSpace,
    ScratchLimits,
    allowance,
    allowance_of,
    disk_factor,
    excess,
    is_short,
    is_urgent,
    is_walk_due,
    left_of,
    must_end,
    overfull_sentences,
    own_capacities,
    pause,
    reserve,
    room,
    spent,
)
from lading.core.resources import GIB, MIB, UNLIMITED
from tests.records import make_container

LIMITS = ScratchLimits(mount=1000, beside=100, files=10)
AUTO = Amount(AUTOMATIC, AUTOMATIC)
KEPT = Amount(64, 640)


def disk(
    free: int, files: int = 100_000, *, total: int = 10_000, total_files: int = 1_000_000
) -> FileSystemSpace:
    return FileSystemSpace(Amount(total, total_files), Amount(free, files))


def test_the_capacities_of_single_mounts() -> None:
    mounts = {
        "/out": {"kind": "tmp", "capacity": 10, "device_type": "ram"},
        "/tmp": {"kind": "tmp", "capacity": 20},
        "/memory": {"kind": "tmp", "capacity": 30, "device_type": "ram"},
        "/any": {"kind": "tmp"},
        "/new": {"kind": "collection", "writable": True},
    }
    # The output is never in memory.
    assert own_capacities(mounts, output_path="/out") == {"/out": 10, "/tmp": 20}
    assert own_capacities(mounts, output_path="/out", factor=1.5)["/tmp"] == 30


def test_mounts_that_are_overfull_are_named() -> None:
    sentences = overfull_sentences({"/b": 2048, "/a\n": 1024})
    assert [sentence.split("; ")[0] for sentence in sentences] == [
        "'/a\\n' held more than its capacity, 1.0 KiB",
        "/b held more than its capacity, 2.0 KiB",
    ]


def test_what_a_container_may_write() -> None:
    mounts: dict[str, object] = {
        "/out": {"kind": "tmp", "capacity": 7, "device_type": "ram"},
        "/ram": {"kind": "tmp", "capacity": 5, "device_type": "ram"},
        "/tmp": {"kind": "tmp", "capacity": 20},
        "/new": {"kind": "collection"},
        "/in": {"kind": "collection", "portable_data_hash": "x"},
        "/odd": 3,
    }
    assert allowance(mounts, LIMITS, output_path="/out") == DiskAllowance(
        mounts=1027, beside=100, files=10
    )
    assert allowance(mounts, LIMITS, output_path="/out", ranks=3) == DiskAllowance(
        mounts=1027, beside=300, files=30
    )


@pytest.mark.parametrize(
    ("limits", "capacity", "size"),
    [
        (LIMITS, 0, 1100),
        (ScratchLimits(mount=0, beside=100, files=10), 0, 0),
        (ScratchLimits(mount=0, beside=100, files=10), 5, 105),
        (ScratchLimits(mount=1000, beside=0, files=10), 5, 0),
    ],
)
def test_zero_is_no_limit(limits: ScratchLimits, capacity: int, size: int) -> None:
    found = allowance({"/out": {"kind": "tmp", "capacity": capacity}}, limits, output_path="/out")
    assert (found.size, found.files) == (size, 10)


def test_what_is_too_much_is_told() -> None:
    allowed = DiskAllowance(mounts=2 * GIB, beside=GIB, files=10)
    assert excess(Amount(3 * GIB, 10), allowed) == ""
    said = excess(Amount(4 * GIB, 1), allowed)
    assert "has written 4.0 GiB" in said
    assert "3.0 GiB are allowed: 2.0 GiB for its tmp mounts and 1.0 GiB beside them" in said
    assert "has made 11 files" in excess(Amount(1, 11), allowed)
    assert excess(Amount(1 << 60, 1 << 40), DiskAllowance()) == ""


def test_the_reserve_is_a_part_of_the_disk_or_what_is_configured() -> None:
    assert reserve(Amount(500, 5000), AUTO) == Amount(10, 100)
    assert reserve(Amount(1 << 50, 1 << 40), AUTO) == Amount(GIB, 100_000)
    assert reserve(Amount(500, 5000), Amount(0, 7)) == Amount(0, 7)


def test_a_quota_that_is_spent() -> None:
    assert spent(Amount(5, 5), Amount()) == ""
    assert spent(Amount(5, 5), Amount(GIB, 6)) == ""
    assert "written 1024.0 MiB" in spent(Amount(GIB - 4096, 5), Amount(GIB, 6))
    assert "made 6 files" in spent(Amount(5, 6), Amount(GIB, 6))


def test_room_beside_the_reserve() -> None:
    assert room(disk(100, 700), KEPT) == Amount(36, 60)
    assert room(disk(100, 0, total_files=0), KEPT) == Amount(36, UNLIMITED)
    assert Amount(1, 2) + Amount(3, 4) - Amount(1, 1) == Amount(3, 5)


@pytest.mark.parametrize(
    ("free", "files", "short", "urgent"),
    [
        (128, 1280, False, False),
        (127, 1280, True, False),
        (128, 1279, True, False),
        (80, 1280, True, False),
        (79, 1280, True, True),
        (128, 799, True, True),
    ],
)
def test_a_disk_that_fills(free: int, files: int, short: bool, urgent: bool) -> None:
    assert (is_short(disk(free, files), KEPT), is_urgent(disk(free, files), KEPT)) == (
        short,
        urgent,
    )


def writer(name: str, size: int, files: int = 0, *, grown: int = -1) -> DiskWriter:
    return DiskWriter(
        name, Amount(size, files), Amount(size, files) if grown < 0 else Amount(grown, grown)
    )


def test_the_one_that_takes_most_bytes_ends() -> None:
    full, most, less = disk(10), writer("b", 500), writer("a", 400, 9999)
    assert "takes the most, 500 bytes" in must_end(full, KEPT, most, [less])
    assert must_end(full, KEPT, less, [most]) == ""
    assert must_end(disk(1000), KEPT, most, []) == ""
    assert must_end(full, KEPT, writer("a", 500), [most]) == ""


def test_the_one_that_has_most_files_ends() -> None:
    full, most, less = disk(1000, 700), writer("b", 1, 5000), writer("a", 999, 400)
    assert "has the most, 5000" in must_end(full, KEPT, most, [less])
    assert must_end(full, KEPT, less, [most]) == ""


def test_none_ends_for_what_others_than_containers_fill() -> None:
    assert must_end(disk(10), KEPT, writer("a", 500, grown=2), []) == ""
    assert must_end(disk(10), KEPT, writer("a", 500, grown=2), [writer("b", 5, grown=1)])
    assert must_end(disk(1000, 700), KEPT, writer("a", 5, 5000, grown=20), []) == ""


def test_looks_are_as_far_apart_as_room_allows() -> None:
    assert pause(UNLIMITED) == 1.0
    assert pause(-5) == 0.05
    assert pause(2 * GIB) == 0.5


def test_what_is_left() -> None:
    assert left_of(Amount(5, 6), DiskAllowance(mounts=7, beside=1, files=10)) == Amount(3, 4)
    assert left_of(Amount(50, 60), DiskAllowance(mounts=7, beside=1, files=10)) == Amount(0, 0)
    assert left_of(Amount(5, 6), DiskAllowance()) == Amount(UNLIMITED, UNLIMITED)


@pytest.mark.parametrize(
    ("grown", "since", "took", "due"),
    [
        (Amount(GIB, 0), 10.0, 0.1, True),
        (Amount(GIB - 1, 0), 10.0, 0.1, False),
        (Amount(GIB, 0), 10.0, 3.0, False),
        (Amount(0, 5000), 10.0, 0.1, True),
        (Amount(0, 4999), 10.0, 0.1, False),
        (Amount(1, 0), 31.0, 0.1, True),
        (Amount(1, 0), 31.0, 0.2, False),
        (Amount(), 100.0, 0.1, False),
    ],
)
def test_when_a_container_is_measured(grown: Amount, since: float, took: float, due: bool) -> None:
    assert is_walk_due(grown, Amount(2 * GIB, 10_000), since=since, took=took) is due


def test_little_growth_is_not_worth_a_walk() -> None:
    assert not is_walk_due(Amount(15 * MIB, 999), Amount(MIB, 1), since=5.0, took=0.0)
    assert is_walk_due(Amount(16 * MIB, 0), Amount(MIB, 1), since=5.0, took=0.0)


def test_a_factor_multiplies_all_that_a_container_may_fill() -> None:
    mounts: dict[str, object] = {"/out": {"kind": "tmp", "capacity": 7}}
    allowed = allowance(mounts, LIMITS, output_path="/out", factor=2.5)
    assert (allowed.mounts, allowed.beside, allowed.files) == (17, 250, 25)
    made = make_container(mounts=mounts, scheduling_parameters={"disk_factor": 2.5})
    assert allowance_of(made, LIMITS) == allowed
    unlimited = allowance(mounts, ScratchLimits(beside=0, files=10), output_path="/out", factor=2)
    assert (unlimited.size, unlimited.files) == (0, 20)


@pytest.mark.parametrize(
    ("value", "factor"), [(2.5, 2.5), (3, 3.0), (0, 1.0), ("2", 1.0), (None, 1.0)]
)
def test_the_factor_in_scheduling_parameters(value: object, factor: float) -> None:
    assert disk_factor({"disk_factor": value}) == factor
