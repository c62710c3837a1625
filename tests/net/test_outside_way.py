"""Connections to hosts that users name."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lading.core.errors import Forbidden, Unavailable
from lading.net.outside_way import OutsideNetwork, OutsideWay


class Names:
    """A name server; each look-up of a name takes the next of its answers."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "::1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "fe80::1%eth0", "0.0.0.0",
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "100.100.100.200", "fd00:ec2::254",
    ],
)  # fmt: skip
async def test_inside_addresses_are_refused(address: str) -> None:
    network = OutsideNetwork(lookup=Names(["1.1.1.1", address]))
    with pytest.raises(Forbidden, match=r"TES\.AllowedNetworks"):
        await network.addresses("host", 80)


async def test_networks_that_are_allowed() -> None:
    names = Names(["10.1.2.3"], ["10.1.3.1"])
    network = OutsideNetwork(allowed=("10.1.2.0/24",), lookup=names)
    assert await network.addresses("host", 80) == ["10.1.2.3"]
    with pytest.raises(Forbidden):
        await network.addresses("host", 80)


async def test_own_addresses_are_refused() -> None:
    # The address by which packets leave, whatever network it is in.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no route")
        own = probe.getsockname()[0]
    with pytest.raises(Forbidden):
        await OutsideNetwork(lookup=Names([own])).addresses("host", 80)


@pytest.mark.parametrize("fault", [OSError("no such name"), TimeoutError(), UnicodeError("odd")])
async def test_names_that_cannot_be_looked_up(fault: Exception) -> None:
    async def broken(host: str, port: int) -> list[str]:
        raise fault

    with pytest.raises(Unavailable, match="host cannot be looked up"):
        await OutsideNetwork(lookup=broken).addresses("host", 80)
    with pytest.raises(Unavailable, match="no address"):
        await OutsideNetwork(lookup=Names([])).addresses("host", 80)


async def test_the_checked_address_is_connected_to() -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("sockname")[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        # The second look-up would lead elsewhere; the first address does not answer.
        names = Names(["127.0.0.2", "127.0.0.1"], ["169.254.169.254"])
        network = OutsideNetwork(allowed=("127.0.0.0/8",), lookup=names)
        way = OutsideWay(host="host", port=port, network=network)
        pipe = await way.connect(asyncio.StreamReader(), timeout=5)
        assert await pipe.reader.read() == b""
        await pipe.close()
    assert (names.asked, seen) == (1, ["127.0.0.1"])


async def test_when_no_address_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        network = OutsideNetwork(allowed=("127.0.0.0/8",), lookup=Names(["127.0.0.1"]))
        with pytest.raises(OSError, match="Connect call failed"):
            way = OutsideWay(host="host", port=port, network=network)
            await way.connect(asyncio.StreamReader(), timeout=5)


async def test_no_way_to_open_a_connection_goes_around_the_rules() -> None:
    """`create` opens the connections of `Way`: for pipes, and for protocols of other parts."""
    network = OutsideNetwork(lookup=Names(["127.0.0.1"], ["10.0.0.1"]))
    way = OutsideWay(host="host", port=9, network=network)
    with pytest.raises(Forbidden):
        await way.create(asyncio.Protocol, timeout=5)
    with pytest.raises(Forbidden):
        await way.connect(asyncio.StreamReader(), timeout=5)
