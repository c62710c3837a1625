"""Addresses of the machines of a gang."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.hpc.machine_addresses import common_version, machine_address, version


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
    assert version(once) == ipaddress.ip_address(once).version


def test_all_machines_have_one_kind() -> None:
    assert common_version(["10.0.0.1", "10.0.0.2"]) == 4
    assert common_version(iter(["fd00::1"])) == 6
    with pytest.raises(Invalid, match=r"as 10\.0\.0\.1 and as fd00::1"):
        common_version(["fd00::1", "10.0.0.1"])
