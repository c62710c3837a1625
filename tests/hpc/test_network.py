"""The private network, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.hpc import network
from tests.reality import need_program, need_root

_TWO = """
import asyncio, subprocess
from lading.hpc import network
async def main():
    await network.make_bridge()
    ranks = [subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; read x"], stdin=-1, stdout=-1) for _ in range(2)]
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
    before = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    done = subprocess.run([sys.executable, "-c", _TWO], capture_output=True, text=True, timeout=60, check=True)
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
wire = network.make_wire(4711)
network.leave_network()
network.take_wire(wire)
print(wire.port, flush=True)
own, other = int(sys.argv[1]), int(sys.stdin.readline())
pipe, command = subprocess.PIPE, ["unshare", "--net", "sh", "-c", "echo ready; read x"]
rank = subprocess.Popen(command, stdin=pipe, stdout=pipe)
rank.stdout.readline()
async def main():
    await network.make_bridge(wire, alone=own > 0)
    await network.tell_peers(wire, own=own, peers=[[own, "127.0.0.1", wire.port], [1 - own, "127.0.0.1", other]])
    await network.connect(own, rank.pid, spread=True)
asyncio.run(main())
print("there", flush=True)
sys.stdin.readline()
rank.communicate(b"\\n")
"""
_ASK = "import socket; s = socket.create_connection(('10.77.0.1', 22), 30); print(s.recv(9).decode())"
_SAY = (
    "import socket; s = socket.create_server(('10.77.0.1', 22)); print('up', flush=True); s.accept()[0].send(b'hello')"
)


def test_a_wire_joins_the_bridges_of_several_machines() -> None:
    """Two processes with a network each, as two machines have them."""
    need_root()
    for program in ("ip", "bridge", "nsenter", "unshare"):
        need_program(program)
    pipe = subprocess.PIPE
    machines = [
        subprocess.Popen([sys.executable, "-c", _WIRED, str(own)], stdin=pipe, stdout=pipe, text=True) for own in (0, 1)
    ]
    try:
        ports = [_line(one) for one in machines]
        for one, port in zip(machines, reversed(ports), strict=True):
            assert one.stdin is not None
            print(port, file=one.stdin, flush=True)
        assert [_line(one) for one in machines] == ["there", "there"]
        inside = [["nsenter", "--net", f"--target={_child(one)}", sys.executable, "-c"] for one in machines]
        with subprocess.Popen([*inside[0], _SAY], stdout=pipe, text=True) as serving:
            assert _line(serving) == "up"
            heard = subprocess.run([*inside[1], _ASK], capture_output=True, text=True, timeout=60, check=True)
        assert heard.stdout == "hello\n"
    finally:
        for one in machines:
            one.communicate("\n\n", timeout=30)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _child(process: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
