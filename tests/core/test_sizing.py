"""The resource algebra."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.sizing import GIB, MIB, Resources, format_bytes, growth, need, total


def test_need_is_ram_plus_cache() -> None:
    wanted = need({"vcpus": 2, "ram": GIB, "keep_cache_ram": MIB, "keep_cache_disk": 9 * GIB, "API": True})
    assert wanted == Resources(2, GIB + MIB)


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
