from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import NetworkAccess
from lading.supervisor.network import container_network, routes
from lading.supervisor.network.container_network import ContainerNetwork, inside, open_namespace
from lading.supervisor.network.uplink import UplinkProgram, has_ipv6
from tests.reality import need_program, need_root
from tests.supervisor.network.namespaces import other_network

PLACES: tuple[list[str], ...] = ([], ["--user", "--map-root-user"])
"""The namespace belongs to the machine's users, or to those of a user namespace."""


def connect(pid: int, host: str, port: int) -> socket.socket:
    """A connection from inside."""
    descriptor = open_namespace(pid)
    try:
        return inside(descriptor, lambda: socket.create_connection((host, port), timeout=10))
    finally:
        os.close(descriptor)


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader
    writer.write(b"api")
    writer.close()


@pytest.mark.parametrize("more", PLACES)
async def test_the_api_is_where_its_names_say(tmp_path: Path, more: list[str]) -> None:
    need_root()
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    api = (f"127.0.0.1:{port}", f"localhost:{port}")
    network = ContainerNetwork(NetworkAccess(api=api), tmp_path / "network", hostname="lading")
    hosts, resolv = network.binds()
    assert (hosts.target, resolv.target) == ("/etc/hosts", "/etc/resolv.conf")
    assert "nameserver" not in Path(resolv.source).read_text()
    with other_network(*more) as pid:
        await network.open(pid)
        for host in ("127.0.0.1", "::1"):
            with await asyncio.to_thread(connect, pid, host, port) as made:
                assert await asyncio.to_thread(made.recv, 10) == b"api"
        await network.close()
        await network.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(connect, pid, "127.0.0.1", port)
    server.close()


@pytest.mark.parametrize("more", PLACES)
async def test_the_internet_ends_with_the_network(tmp_path: Path, more: list[str]) -> None:
    need_root()
    for program in ("nft", "slirp4netns"):
        need_program(program)
    network = ContainerNetwork(
        NetworkAccess(internet=True, api=("192.0.2.77:5", "[fd77::1]:5")),
        tmp_path,
        hostname="lading",
    )
    network.binds()
    with other_network(*more) as pid:
        await network.open(pid)
        uplink = network.uplink
        assert uplink is not None
        for host in ("127.0.0.53", "192.0.2.77", "fd77::1"):
            port = 53 if host.endswith("53") else 5
            (await asyncio.to_thread(connect, pid, host, port)).close()
        with pytest.raises(OSError, match="No route to host"):
            await asyncio.to_thread(connect, pid, "169.254.169.254", 80)
        await network.close()
        assert uplink.returncode is not None


async def test_a_new_address_of_the_machine_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root()
    for program in ("nft", "slirp4netns"):
        need_program(program)
    faults: list[str] = []
    reach = NetworkAccess(internet=True, on_fault=faults.append)
    network = ContainerNetwork(reach, tmp_path, hostname="lading")
    network.binds()
    known: list[tuple[str, ...]] = [("192.0.2.1/32",)]
    monkeypatch.setattr(routes, "own_networks", lambda: known[-1])
    with other_network() as pid:
        await network.open(pid)
        known.append(("192.0.2.1/32", "203.0.113.99/32"))
        await network.refresh()
        with pytest.raises(OSError, match="No route to host"):
            await asyncio.to_thread(connect, pid, "203.0.113.99", 80)
        # Without a filter that is up to date there is no internet.
        monkeypatch.setattr(container_network, "FILTER_PROGRAM", "no-such-program")
        known.append(())
        await network.refresh()
        assert network.uplink is None
        await network.close()
    assert ["filter cannot be updated" in fault for fault in faults] == [True]


async def test_the_network_of_the_machine_is_never_taken_for_the_containers(tmp_path: Path) -> None:
    network = ContainerNetwork(NetworkAccess(internet=True), tmp_path, hostname="lading")
    with pytest.raises(ExecutionError, match="no network namespace of its own"):
        await network.open(os.getpid())
    with pytest.raises(ExecutionError, match="network of the container cannot be made") as made:
        await network.open(4_194_305)
    assert "[Errno" not in made.value.message


async def test_a_missing_filter_is_told_and_nothing_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root()
    need_program("slirp4netns")
    monkeypatch.setattr(container_network, "FILTER_PROGRAM", "no-such-program")
    network = ContainerNetwork(NetworkAccess(internet=True), tmp_path, hostname="lading")
    with other_network() as pid:
        with pytest.raises(
            ExecutionError, match="no-such-program, .* install the package nftables"
        ) as caught:
            await network.open(pid)
        assert caught.value.failure is Failure.NODE
        assert network.uplink is None


async def test_a_filter_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    need_program("slirp4netns")
    monkeypatch.setattr(container_network, "FILTER_PROGRAM", "false")
    network = ContainerNetwork(NetworkAccess(internet=True), tmp_path, hostname="lading")
    with other_network() as pid, pytest.raises(ExecutionError, match="refuses"):
        await network.open(pid)


async def test_an_uplink_that_fails_is_told(tmp_path: Path) -> None:
    need_root()
    need_program("nft")
    failing = (UplinkProgram("false", "coreutils", lambda attachment: ["false"]),)
    network = ContainerNetwork(
        NetworkAccess(internet=True), tmp_path, hostname="lading", programs=failing
    )
    with other_network() as pid, pytest.raises(ExecutionError, match="false cannot join"):
        await network.open(pid)
    assert network.uplink is None


async def test_what_is_no_address_is_refused(tmp_path: Path) -> None:
    network = ContainerNetwork(NetworkAccess(api=("host:port",)), tmp_path, hostname="lading")
    with pytest.raises(ExecutionError, match="cannot be reached from the container"):
        network.binds()


async def test_two_services_at_one_place_are_told_and_nothing_stays_open(tmp_path: Path) -> None:
    need_root()
    network = ContainerNetwork(
        NetworkAccess(internet=True, api=("127.0.0.53:53",)), tmp_path, hostname="lading"
    )
    with other_network() as pid, pytest.raises(ExecutionError, match="Address already in use"):
        await network.open(pid)


async def test_a_filter_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    need_program("slirp4netns")
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(container_network, "FILTER_PROGRAM", str(program))
    network = ContainerNetwork(
        NetworkAccess(internet=True), tmp_path, hostname="lading", timeout=0.2
    )
    with other_network() as pid, pytest.raises(ExecutionError, match="does not end|in time"):
        await network.open(pid)


def test_a_machine_without_a_way_by_ipv6() -> None:
    need_root()
    with other_network() as pid:
        descriptor = open_namespace(pid)
        assert inside(descriptor, has_ipv6) is False
        os.close(descriptor)
