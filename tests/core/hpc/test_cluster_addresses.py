"""Addresses of containers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.hpc.cluster_addresses import Address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1", "10.0.0.1", 22),
        ("10.0.0.1:2222", "10.0.0.1", 2222),
        ("fd00::1", "fd00::1", 22),
        ("[fd00::1]:8022", "fd00::1", 8022),
        ("[fe80::1%eth0]", "fe80::1%eth0", 22),
        ("node-1.cluster:22", "node-1.cluster", 22),
    ],
)
def test_addresses_of_both_kinds_are_read(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":22",
        "a:",
        "a:0",
        "a:99999",
        "a:b",
        "[10.0.0.1]:22",
        "[fd00::1",
        "fd00::1]:2",
        "x y",
        "g::1",
        "-o:22",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not IP"):
        parse_address(text)


def test_names_are_no_numbers() -> None:
    assert [Address(one).is_numeric for one in ("10.0.0.1", "fd00::1", "node")] == [
        True,
        True,
        False,
    ]


@given(st.ip_addresses(), st.integers(1, 65535))
def test_what_is_written_is_read_again(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert 0 < parse_address(text).port < 65536
