from __future__ import annotations

import ipaddress

import pytest

from lading.core.containers.container_network import (
    Endpoint,
    hosts_file,
    is_inside_address,
    is_local_address,
    local_addresses,
    nameservers,
    places,
    read_endpoint,
    read_networks,
    refusals,
    resolver_file,
    ruleset,
    update,
    with_translations,
)
from lading.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("API.example", "api.example", 443),
        ("a:8443", "a", 8443),
        ("[::1]", "::1", 443),
        ("[fd00::1]:5", "fd00::1", 5),
    ],
)
def test_an_endpoint(text: str, host: str, port: int) -> None:
    assert read_endpoint(text) == Endpoint(host, port)


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:0", "a:65536"])
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(Invalid, match="is not HOST:PORT"):
        read_endpoint(text)


def test_each_name_has_an_address_of_its_own_and_an_address_is_itself() -> None:
    ends = [
        read_endpoint(one)
        for one in ("localhost:1", "a:1", "192.0.2.1:1", "b:1", "a:2", "127.0.0.1:9")
    ]
    found = {host: str(address) for host, address in local_addresses(ends).items()}
    assert found == {
        "localhost": "127.0.0.1",
        "a": "127.0.100.2",
        "192.0.2.1": "192.0.2.1",
        "b": "127.0.100.4",
        "127.0.0.1": "127.0.0.1",
    }


def test_of_two_endpoints_for_one_place_the_first_counts() -> None:
    ends = [read_endpoint(one) for one in ("127.0.0.1:1", "localhost:1", "a:1")]
    found = {f"{address} {port}": one.host for (address, port), one in places(ends).items()}
    assert found == {"127.0.0.1 1": "127.0.0.1", "::1 1": "localhost", "127.0.100.3 1": "a"}


def test_networks_of_the_configuration() -> None:
    assert read_networks([" 10.0.0.0/8", "fd00::1"], key="K") == ("10.0.0.0/8", "fd00::1/128")
    with pytest.raises(Invalid, match=r"configuration: K: .*10\.0\.0\.1/8.*write networks such as"):
        read_networks(["10.0.0.1/8"], key="K")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "169.254.169.254",
        "fd00:ec2::254", "fe80::1", "168.63.129.16", "100.100.100.200", "198.19.255.2", "fd00::2",
        "224.0.0.1", "255.255.255.255", "ff02::1", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1",
        "2002:7f00:1::", "10.1.2.3", "64:ff9b::a01:203",
    ],
)  # fmt: skip
def test_what_is_refused(address: str) -> None:
    wanted = ipaddress.ip_address(address)
    assert any(wanted in ipaddress.ip_network(one) for one in refusals(["10.0.0.0/8"]))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "192.168.1.1", "2606:4700::1111", "fd12::1", "64:ff9b::101:101"]
)
def test_what_is_not(address: str) -> None:
    wanted = ipaddress.ip_address(address)
    assert not any(wanted in ipaddress.ip_network(one) for one in refusals([]))


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.9", True), ("::1", True), ("169.254.169.254", True), ("168.63.129.16", True),
        ("::ffff:10.0.0.1", True), ("64:ff9b::7f00:1", True), ("fd00:42::42", True),
        ("10.0.0.1", False), ("1.1.1.1", False), ("64:ff9b::101:101", False), ("fd12::1", False),
    ],
)  # fmt: skip
def test_addresses_of_the_machine_that_connects(address: str, local: bool) -> None:
    assert is_local_address(ipaddress.ip_address(address)) is local


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("127.0.0.1", True), ("10.1.2.3", True), ("172.31.0.1", True), ("192.168.1.1", True),
        ("100.64.0.1", True), ("fd12::1", True), ("64:ff9b::a00:1", True), ("172.32.0.1", False),
        ("2606:4700::1111", False), ("8.8.8.8", False),
    ],
)  # fmt: skip
def test_addresses_of_inside_networks(address: str, inside: bool) -> None:
    assert is_inside_address(ipaddress.ip_address(address)) is inside


def test_the_filter_has_no_overlapping_elements() -> None:
    own = with_translations(["127.0.0.0/8", "127.0.0.1/32", "192.0.2.2/32", "fd00::5/128"])
    text = ruleset(refusals([]), own)
    assert (
        "set own4 { type ipv4_addr; flags interval; elements = { 127.0.0.0/8, 192.0.2.2/32 }; }"
        in text
    )
    assert "64:ff9b::c000:202/128, fd00::5/128" in text
    assert text.index('oifname "lo" accept') < text.index("ip daddr @refused4 reject")
    assert "set own6 { type ipv6_addr; flags interval; }" in ruleset([], [])


def test_the_filter_is_brought_up_to_date() -> None:
    assert update(["192.0.2.2/32"]) == (
        "flush set inet lading own4\nadd element inet lading own4 { 192.0.2.2/32 }\n"
        "flush set inet lading own6\n"
    )


def test_the_names_of_a_container() -> None:
    machine = (
        "127.0.0.1 localhost host\n::1 x\n10.0.0.9 files API # comment\n\n"
        "wrong line\n10.0.0.8 api\n0.0.0.0 n\n"
    )
    text = hosts_file(
        [Endpoint("api", 443), Endpoint("localhost", 1)], hostname="lading", machine=machine
    )
    rows = [line.split() for line in text.splitlines()]
    assert rows == [
        ["127.0.0.1", "localhost"],
        ["::1", "localhost", "ip6-localhost", "ip6-loopback"],
        ["127.0.0.1", "lading"],
        ["127.0.100.1", "api"],
        ["10.0.0.9", "files"],
    ]


def test_the_resolver_of_a_container() -> None:
    machine = "search example.org\nnameserver 127.0.0.53\noptions edns0\n"
    assert resolver_file(machine, internet=True) == "search example.org\nnameserver 127.0.0.53\n"
    assert "nameserver" not in resolver_file(machine, internet=False)
    assert nameservers("nameserver 10.0.0.1\nnameserver fd00::1 # two\nnameserver\n") == (
        "10.0.0.1",
        "fd00::1",
    )
    assert nameservers("search x\n") == ("127.0.0.1",)
