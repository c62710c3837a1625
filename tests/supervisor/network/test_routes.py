from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys

import pytest

from lading.supervisor.network import routes
from lading.supervisor.network.container_network import inside, open_namespace
from tests.reality import need_program, need_root
from tests.supervisor.network.namespaces import other_network


def test_the_addresses_of_this_machine() -> None:
    found = routes.own_networks()
    assert "127.0.0.1/32" in found
    assert len(found) == len(set(found))


def test_addresses_and_inner_bridges_of_a_network() -> None:
    need_root()
    need_program("ip")
    lines = (
        "link add br0 type bridge", "addr add 172.30.0.1/16 dev br0", "link set br0 up",
        "link add v0 type veth peer name v1", "addr add 192.0.2.9/24 dev v0", "link set v0 up",
        "link set v1 up", "route add 203.0.113.0/24 via 192.0.2.1",
    )  # fmt: skip

    def make() -> None:
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)

    with other_network() as pid:
        descriptor = open_namespace(pid)
        inside(descriptor, make)
        # /sys shows the devices of the network that it was mounted in.
        found = subprocess.run(
            ["nsenter", f"--net=/proc/{pid}/ns/net", "unshare", "--mount", "sh", "-c",
             'mount -t sysfs sysfs /sys && exec "$0" -c '
             '"from lading.supervisor.network.routes import own_networks; print(*own_networks())"',
             sys.executable],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        os.close(descriptor)
    assert {"192.0.2.9/32", "172.30.0.1/32", "172.30.0.0/16"} <= set(found)
    assert not {"192.0.2.0/24", "203.0.113.0/24"} & set(found)


def test_a_loopback_and_an_address_of_ones_own() -> None:
    need_root()

    def make() -> socket.socket:
        routes.bring_loopback_up()
        routes.own(ipaddress.ip_address("192.0.2.200"))
        routes.own(ipaddress.ip_address("2001:db8::200"))
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.connect(("2001:db8::200", 7))
        return socket.create_server(("192.0.2.200", 7))

    with other_network() as pid:
        descriptor = open_namespace(pid)
        with inside(descriptor, make) as listening:
            inside(
                descriptor, lambda: socket.create_connection(("192.0.2.200", 7), timeout=5)
            ).close()
            listening.accept()[0].close()
        os.close(descriptor)


def test_what_the_kernel_refuses_is_told() -> None:
    need_root()
    with other_network() as pid:
        descriptor = open_namespace(pid)
        # An address that the namespace has already.
        inside(descriptor, lambda: routes.own(ipaddress.ip_address("192.0.2.200")))
        with pytest.raises(OSError, match="rtnetlink"):
            inside(descriptor, lambda: routes.own(ipaddress.ip_address("192.0.2.200")))
        os.close(descriptor)


def test_changes_are_told() -> None:
    need_root()
    with other_network() as pid:
        descriptor = open_namespace(pid)
        watching = inside(descriptor, routes.watch)
        routes.drain(watching)
        with pytest.raises(BlockingIOError):
            watching.recv(1)
        inside(descriptor, routes.bring_loopback_up)
        watching.settimeout(10)
        assert watching.recv(1)
        watching.setblocking(False)
        routes.drain(watching)
        watching.close()
        routes.drain(watching)
        os.close(descriptor)
