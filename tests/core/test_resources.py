"""The resource algebra."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.resources import (
    GIB,
    MIB,
    UNLIMITED,
    Resources,
    format_bytes,
    gang_need,
    growth,
    image_size,
    need,
    rank_need,
    scratch,
    total,
)


def test_need_is_ram_plus_cache() -> None:
    wanted = need(
        {"vcpus": 2, "ram": GIB, "keep_cache_ram": MIB, "keep_cache_disk": 9 * GIB, "API": True}
    )
    assert wanted == Resources(2, GIB + MIB)


def test_a_gang_needs_what_all_its_containers_need_but_one_disk() -> None:
    assert gang_need(Resources(2, 10, 3, 1), 4) == Resources(8, 40, 3, 4)
    assert rank_need(Resources(8, 40, 3, 4), 4) == Resources(2, 10, 3, 1)
    shared = gang_need(Resources(2, 10, 3, 1), 4, shares_vcpus=True)
    assert shared == Resources(2, 40, 3, 4)
    assert rank_need(shared, 4) == Resources(1, 10, 3, 1)


def test_how_often_an_amount_fits_in_another() -> None:
    assert Resources(8, 40, 3, 4).holds(Resources(2, 11)) == 3
    assert Resources(8, 40, 3, 4).holds(Resources(2, 1, 2, 1)) == 1
    assert Resources(-1, 40).holds(Resources(1, 1)) == 0
    assert Resources(1, 2, 3, 4).times(3) == Resources(3, 6, 9, 12)


def test_growth_is_what_the_ranges_allow_beyond_the_need() -> None:
    assert growth({"vcpus": [1, 4], "ram": [10, 30]}, {"vcpus": 2, "ram": 10}) == Resources(2, 20)
    assert growth({"vcpus": "x", "ram": [1, 2]}, {"vcpus": 1, "ram": 5}) == Resources()
    assert growth({}, {}) == Resources()


def test_fits_in_every_component() -> None:
    room = Resources(2, 100)
    assert Resources(2, 100).fits(room)
    assert not Resources(3, 1).fits(room)
    assert not Resources(1, 101).fits(room)


def test_algebra() -> None:
    amounts = [Resources(1, 10), Resources(2, 20)]
    assert total(amounts) == amounts[0] + amounts[1] == Resources(3, 30)
    assert total(amounts) - amounts[1] == amounts[0]
    assert total([]) == Resources()


@pytest.mark.parametrize(
    ("constraints", "key"),
    [
        ({}, "vcpus"),
        ({"vcpus": 0, "ram": 1}, "vcpus"),
        ({"vcpus": 1}, "ram"),
        ({"vcpus": True, "ram": 1}, "vcpus"),
        ({"vcpus": 1, "ram": "1"}, "ram"),
        ({"vcpus": 1, "ram": [1, 2]}, "ram"),
        ({"vcpus": 1, "ram": 1, "keep_cache_ram": -1}, "keep_cache_ram"),
    ],
)
def test_a_record_that_cannot_be_sized_is_refused(constraints: dict[str, object], key: str) -> None:
    with pytest.raises(Invalid, match=rf"runtime_constraints\.{key}"):
        need(constraints)


def test_amounts_read_well() -> None:
    assert str(Resources(1, 512 * MIB)) == "1 VCPU and 512.0 MiB RAM"
    assert str(Resources(0, 2 * GIB)) == "0 VCPUs and 2.0 GiB RAM"
    assert [format_bytes(n) for n in (0, 1023, 1024, 1536, -3 * GIB)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "-3.0 GiB",
    ]  # fmt: skip


def test_gpus_are_counted() -> None:
    assert need({"vcpus": 1, "ram": 1, "gpu": {"device_count": 2}}).gpus == 2
    with pytest.raises(Invalid, match=r"runtime_constraints\.device_count"):
        need({"vcpus": 1, "ram": 1, "gpu": {"device_count": -1}})


def test_an_image_is_sized_by_the_length_of_its_manifest() -> None:
    assert [image_size(f"{'a' * 32}+{n}") for n in (0, 121, 122, 342)] == [
        0,
        0,
        64 * MIB,
        6 * 64 * MIB,
    ]
    assert image_size("no hash") == image_size("") == image_size("a+b") == 0


def test_scratch_is_what_tmp_mounts_image_and_cache_take() -> None:
    image, mounts = (
        f"{'a' * 32}+342",
        {"/tmp": {"kind": "tmp", "capacity": GIB}, "/in": {"kind": "collection"}},
    )
    assert scratch(mounts, image, {"keep_cache_disk": MIB}) == GIB + 384 * MIB + MIB
    assert scratch({}, image, {}) == 2 * 384 * MIB
    assert scratch(mounts, image, {}, factor=2.5) == int(2.5 * GIB) + 384 * MIB
    assert (
        scratch({"/a": {"kind": "tmp", "capacity": -5}, "/b": "x"}, "", {"keep_cache_disk": None})
        == 0
    )


def test_share_and_least() -> None:
    whole = Resources(4, 100, 0, 2)
    assert Resources(1, 50, 9, 0).share_of(whole) == 0.5
    assert Resources(1, 1).share_of(Resources()) == 0.0
    assert Resources(1, 9, 5, 0).least(Resources(2, 3, 4, 5)) == Resources(1, 3, 4, 0)


def test_disk_and_gpus_are_named_where_they_matter() -> None:
    assert str(Resources(1, MIB, 2 * GIB, 1)) == "1 VCPU, 1.0 MiB RAM, 2.0 GiB scratch and 1 GPU"
    assert str(Resources(1, MIB, UNLIMITED, 2)) == "1 VCPU, 1.0 MiB RAM and 2 GPUs"
