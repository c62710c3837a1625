"""What may be written into `gateway_address`."""

from __future__ import annotations

import pytest

from lading.core.containers import sessions
from lading.core.containers.sessions import NOWHERE, Places
from lading.core.errors import Invalid

REMOTE = Places(source="10.0.0.7", server="https://here:1/")
LOCAL = Places(server="https://here:1/")


def check(address: str, places: Places = REMOTE, *, stored: str = "", holder: bool = False) -> str:
    return sessions.check_gateway_address(address, stored=stored, places=places, is_holder=holder)


@pytest.mark.parametrize(
    "address", ["", "tunnel", "tunnel https://here:1/", "tunnel https://here:1", "10.0.0.7:1024"]
)
def test_a_worker_names_itself(address: str) -> None:
    assert check(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.8:9000", "127.0.0.1:9000", "localhost:9000", "169.254.169.254:9000", "0.0.0.0:9000",
        "[::]:9000", "[::1]:9000", "elsewhere.example:9000", "167772167:9000", "0x0a000007:9000",
        "10.0.0.7:80", "10.0.0.7:1023", "10.0.0.7:65536", "10.0.0.7:0", "10.0.0.7:", "10.0.0.7",
        ":9000", "10.0.0.7:9000x", "10.0.0.7:\u0669000", "tunnel https://elsewhere:1/",
        "tunnel https://here:1/x", "tunnel http://here:1/", "tunnel ", "Tunnel",
        "10.0.0.7@10.0.0.8:9000", "10.0.0.8:9000 10.0.0.7:9000",
    ],
)  # fmt: skip
def test_and_nothing_else(address: str) -> None:
    with pytest.raises(Invalid, match="gateway_address: "):
        check(address)
    with pytest.raises(Invalid):
        check("10.0.0.7:9000", NOWHERE)


def test_the_url_of_another_server_is_that_servers_to_write() -> None:
    """A supervisor may say again what its server has written."""
    assert (
        check("tunnel https://other:1", stored="tunnel https://other:1/")
        == "tunnel https://other:1"
    )
    with pytest.raises(Invalid, match="a server writes its own URL"):
        check("tunnel https://other:1/", stored="tunnel")
    with pytest.raises(Invalid):
        check("tunnel ", Places(), stored="10.0.0.7:9000")


def test_addresses_are_compared_as_addresses() -> None:
    assert check("[::ffff:10.0.0.7]:9000")
    assert check("10.0.0.7:9000", Places(source="::ffff:10.0.0.7"))
    assert check("[fd00:0::7]:9000", Places(source="fd00::7"))
    with pytest.raises(Invalid):
        check("[::ffff:10.0.0.8]:9000")


def test_the_local_socket_stands_for_this_machine() -> None:
    assert check("127.0.0.1:9000", LOCAL) == "127.0.0.1:9000"
    assert check("[::1]:9000", LOCAL)
    with pytest.raises(Invalid):
        check("10.0.0.7:9000", LOCAL)


def test_hosts_that_the_configuration_lists() -> None:
    listed = Places(
        source="192.0.2.1", hosts=("10.1.0.0/16", "fd01::/16", "node.example", "10.9.9.9")
    )
    for address in (
        "10.1.2.3:9000",
        "[fd01::9]:9000",
        "Node.example:9000",
        "10.9.9.9:9000",
        "[::ffff:10.1.0.1]:9000",
    ):
        assert check(address, listed) == address
    for address in ("10.2.0.1:9000", "node.example.org:9000", "10.1.2.3:22"):
        with pytest.raises(Invalid):
            check(address, listed)


def test_arvados_crunch_run_names_its_loopback_before_it_has_a_tunnel() -> None:
    assert check("127.0.0.1:9000", holder=True) == "tunnel"
    with pytest.raises(Invalid):
        check("10.0.0.8:9000", holder=True)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("::1", True), ("169.254.169.254", True), ("fe80::1%eth0", True),
        ("0.0.0.0", True), ("::", True), ("224.0.0.1", True), ("fd00:ec2::254", True),
        ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("fd00::1", False), ("localhost", False),
        ("168.63.129.16", True), ("100.100.100.200", True), ("fd20:ce::254", True),
        ("64:ff9b::a9fe:a9fe", True), ("::ffff:100.100.100.200", True), ("2002:7f00:1::", True),
        ("64:ff9b::a01:203", False),
    ],
)  # fmt: skip
def test_addresses_of_one_machine_or_link(host: str, local: bool) -> None:
    assert sessions.is_local(host) is local
