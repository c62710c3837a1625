"""The private network, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.hpc import network
from tests.reality import need_ipv6, need_program, need_root

_TWO = """
import asyncio, subprocess
from lading.hpc import network
async def main():
    await network.make_bridge()
    command = ["unshare", "--net", "sh", "-c", "echo; read x"]
    ranks = [subprocess.Popen(command, stdin=-1, stdout=-1) for _ in range(2)]
    for number, rank in enumerate(ranks):
        rank.stdout.readline()
        await network.connect(number, rank.pid)
    print(subprocess.run(["ip", "-br", "-4", "addr"], capture_output=True, text=True).stdout)
    inside = ["nsenter", "--net", f"--target={ranks[1].pid}", "ip", "-br", "-4", "addr"]
    print(subprocess.run(inside, capture_output=True, text=True).stdout)
    for rank in ranks:
        rank.communicate(b"\\n")
network.leave_network()
asyncio.run(main())
"""


def test_containers_have_addresses_of_their_own() -> None:
    need_root()
    for program in ("ip", "nsenter", "unshare"):
        need_program(program)
    before = subprocess.run(
        ["ip", "-br", "link"], capture_output=True, text=True, check=True
    ).stdout
    done = subprocess.run(
        [sys.executable, "-c", _TWO], capture_output=True, text=True, timeout=60, check=True
    )
    assert "10.77.255.254/16" in done.stdout
    assert "10.77.0.2/16" in done.stdout
    assert network.BRIDGE not in before


def test_addresses_never_repeat() -> None:
    assert len({network.address(rank) for rank in range(10_000)}) == 10_000
    assert (network.address(0), network.address(250)) == ("10.77.0.1", "10.77.1.1")


async def test_what_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExecutionError, match="cannot be made"):
        await network.connect(0, 4_194_305)
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(ExecutionError, match="install the package iproute2"):
        await network.make_bridge()


def test_a_network_that_is_there_is_entered() -> None:
    need_root()
    code = "from lading.hpc import network; network.enter_network('/proc/self/ns/net')"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(OSError, match="No such file"):
        network.enter_network("/none")


_WIRED = """
import asyncio, subprocess, sys
from lading.hpc import network
version, hosts = int(sys.argv[2]), sys.argv[3:]
wires = network.make_wires(4711)
network.leave_network()
for wire in wires:
    network.take_wire(wire)
wire = next(one for one in wires if one.version == version)
print(wire.port, flush=True)
own, other = int(sys.argv[1]), int(sys.stdin.readline())
pipe, command = subprocess.PIPE, ["unshare", "--net", "sh", "-c", "echo ready; read x"]
rank = subprocess.Popen(command, stdin=pipe, stdout=pipe)
rank.stdout.readline()
async def main():
    await network.make_bridge(wire, alone=own > 0)
    peers = [[own, hosts[own], wire.port], [1 - own, hosts[1 - own], other]]
    await network.tell_peers(wire, own=own, peers=peers)
    await network.connect(own, rank.pid, spread=True)
asyncio.run(main())
print("there", flush=True)
sys.stdin.readline()
rank.communicate(b"\\n")
"""
_BELOW = ["sh", "-c", '"$@"; exit $?', "sh"]
_ASK = (
    "import socket; s = socket.create_connection(('10.77.0.1', 22), 30); print(s.recv(9).decode())"
)
_SAY = (
    "import socket; s = socket.create_server(('10.77.0.1', 22)); "
    "print('up', flush=True); s.accept()[0].send(b'hello')"
)


@contextmanager
def _machines(hosts: list[str]) -> Iterator[list[list[str]]]:
    """Two networks with a cable between them and an address each; what runs a program in each of
    them.
    """
    names = [f"lading{os.getpid()}{end}" for end in "ab"]
    made: list[str] = []
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.append(name)
        cable = ["type", "veth", "peer", "name", "up0", "netns", names[1]]
        subprocess.run(["ip", "-n", names[0], "link", "add", "up0", *cable], check=True)
        for name, host in zip(names, hosts, strict=True):
            address = [f"{host}/64", "nodad"] if ":" in host else [f"{host}/24"]
            subprocess.run(["ip", "-n", name, "addr", "add", *address, "dev", "up0"], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "up0", "up"], check=True)
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.parametrize(
    ("version", "hosts"), [(4, ["192.0.2.1", "192.0.2.2"]), (6, ["fd00::1", "fd00::2"])]
)
def test_a_wire_joins_the_bridges_of_several_machines(version: int, hosts: list[str]) -> None:
    """Two processes in a network each that has this one address, and no other kind."""
    need_root()
    for program in ("ip", "bridge", "nsenter", "unshare"):
        need_program(program)
    if version == 6:
        need_ipv6()
    with _machines(hosts) as inside:
        _talk(inside, version, hosts)


def _talk(within: list[list[str]], version: int, hosts: list[str]) -> None:
    pipe = subprocess.PIPE
    wired = [sys.executable, "-c", _WIRED]
    # Each below a process that stays in the machine's own network, as a supervisor does.
    machines = [
        subprocess.Popen(
            [*enter, *_BELOW, *wired, str(own), str(version), *hosts],
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        for own, enter in enumerate(within)
    ]
    try:
        ports = [_line(one) for one in machines]
        for one, port in zip(machines, reversed(ports), strict=True):
            assert one.stdin is not None
            print(port, file=one.stdin, flush=True)
        assert [_line(one) for one in machines] == ["there", "there"]
        inside = [
            ["nsenter", "--net", f"--target={_child(_child(one.pid))}", sys.executable, "-c"]
            for one in machines
        ]
        with subprocess.Popen([*inside[0], _SAY], stdout=pipe, text=True) as serving:
            assert _line(serving) == "up"
            heard = subprocess.run(
                [*inside[1], _ASK], capture_output=True, text=True, timeout=60, check=True
            )
        assert heard.stdout == "hello\n"
    finally:
        for one in machines:
            one.communicate("\n\n", timeout=30)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
