"""The address that a server listens on, with real sockets."""

from __future__ import annotations

import socket

import pytest

from lading.core.errors import Invalid
from lading.wiring.listen_address import choose_port, claimed_address, parse_listen


def test_port_0_is_any_free_one() -> None:
    address = choose_port("127.0.0.1:0")
    with socket.create_server(parse_listen(address)):
        assert address.startswith("127.0.0.1:")
    assert choose_port("[::1]:80") == "[::1]:80"
    with pytest.raises(Invalid, match=r"--listen 192\.0\.2\.1:0: cannot be used: "):
        choose_port("192.0.2.1:0")


def test_a_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        free = choose_port("127.0.0.1:0")
        with claimed_address(taken, last=free) as address:
            assert address == free
        with claimed_address(free, last=taken) as address:
            assert address == free
        with claimed_address(taken, last="") as address:
            assert address.startswith("127.0.0.1:")
            assert address != taken
    # The address of an earlier start on another host was asked for then, and is not now.
    with claimed_address(taken, last=choose_port("[::1]:0")) as address:
        assert address == taken


def test_two_starts_at_once_choose_two_ports() -> None:
    free = choose_port("127.0.0.1:0")
    with claimed_address(free, last="") as first, claimed_address(free, last="") as second:
        assert first == free
        assert second != free
    with claimed_address(free, last="") as address:
        assert address == free


def test_addresses() -> None:
    assert parse_listen("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_listen("[::1]:80") == ("::1", 80)
