"""Addresses of containers."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.hpc.addresses import (
    SshdAddress,
    common_version,
    ip_version,
    machine_address,
    parse_address,
)


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
    assert parse_address(text) == SshdAddress(host, port)


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
    assert [SshdAddress(one).is_numeric for one in ("10.0.0.1", "fd00::1", "node")] == [
        True,
        True,
        False,
    ]


@given(st.ip_addresses(), st.integers(1, 65535))
def test_what_is_written_is_read_again(host: object, port: int) -> None:
    address = SshdAddress(str(host), port)
    assert parse_address(str(address)) == address


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert 0 < parse_address(text).port < 65536


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("fd00:0:0::0002", "fd00::2"),
        ("[fd00::2]", "fd00::2"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("169.254.1.1", "169.254.1.1"),
    ],
)
def test_addresses_have_one_form(text: str, address: str) -> None:
    assert machine_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "node1", "10.0.0.1:22", "[fd00::1]:22", "[fd00::1", "fe80::1", "fe80::1%eth0"]
)
def test_what_no_other_machine_reaches_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"not the IP address|for one link only"):
        machine_address(text)


@given(st.ip_addresses())
def test_the_form_of_a_form_is_itself(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    try:
        once = machine_address(str(address))
    except Invalid:
        assert address.is_link_local
        return
    assert machine_address(once) == once
    assert ip_version(once) == ipaddress.ip_address(once).version


def test_all_machines_have_one_kind() -> None:
    assert common_version(["10.0.0.1", "10.0.0.2"]) == 4
    assert common_version(iter(["fd00::1"])) == 6
    with pytest.raises(Invalid, match=r"as 10\.0\.0\.1 and as fd00::1"):
        common_version(["fd00::1", "10.0.0.1"])
