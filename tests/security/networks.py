"""Surroundings for attacks on networks: services of the host, and machines that are namespaces."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from lading.supervisor.network.container_network import inside

PORT = 7171
"""Of every service in the other namespace."""
GATEWAY, INTERNET, LISTED = "203.0.113.1", "203.0.113.7", "10.66.66.5"
METADATA, METADATA6, INTERNET6 = "169.254.169.254", "fd00:ec2::254", "2001:db8:77::7"
NEIGHBOUR = "172.31.254.2"
"""A container of somebody else's, on a bridge of this machine."""
BRIDGE_ADDRESS = "172.31.254.1"
_VETH, _BRIDGE, _PORT_OF_BRIDGE = "ladingt0", "ladingtb0", "ladingt1"


class Services:
    """Sockets that greet whoever connects with a name, served by a process of their own: this one
    must have no other thread when it changes its mount namespace."""

    def __init__(self) -> None:
        self._names: dict[socket.socket, str] = {}
        self._process = 0

    def add(self, name: str, listening: socket.socket) -> int:
        """One more, before they are served; its port."""
        self._names[listening] = name
        address = listening.getsockname()
        return int(address[1]) if isinstance(address, tuple) else 0

    def serve(self) -> None:
        """Begin."""
        self._process = os.fork()
        if not self._process:
            self._greet()
        for one in self._names:
            one.close()

    def close(self) -> None:
        """End."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)

    def _greet(self) -> NoReturn:
        with selectors.DefaultSelector() as waiting:
            for one in self._names:
                waiting.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select():
                    with contextlib.suppress(OSError):
                        connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                        with connection:
                            connection.sendall(self._names[key.fileobj].encode())  # type: ignore[index]


@dataclass(frozen=True)
class Surroundings:
    """What attackers look for. Ports of services of the host."""

    loopback: int
    everywhere: int
    abstract: str
    api: int
    api_on_address: int


@contextlib.contextmanager
def surroundings() -> Iterator[Surroundings]:
    """The host's services, and another machine that is the internet, a cloud's metadata service and
    a network that the configuration lists. Needs root."""
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(other_namespace())
        services = Services()
        stack.callback(services.close)

        def serve(name: str, host: str, port: int = 0) -> int:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return services.add(name, socket.create_server((host, port), family=family))

        for host in (INTERNET, LISTED, METADATA, METADATA6, INTERNET6, NEIGHBOUR):
            inside(namespace, partial(serve, host, host, PORT))
        abstract = f"lading-attack-{os.getpid()}"
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"\0{abstract}")
        listening.listen()
        services.add("abstract", listening)
        made = Surroundings(
            loopback=serve("loopback", "127.0.0.1"),
            everywhere=serve("everywhere", "0.0.0.0"),
            abstract=abstract,
            api=serve("api", "127.0.0.1"),
            api_on_address=serve("api", GATEWAY),
        )
        services.serve()
        yield made


@contextlib.contextmanager
def other_namespace() -> Iterator[int]:
    """A descriptor of a namespace that routes of the host lead to; all of it is gone at the end."""
    before = _links()
    assert not before & {_VETH, _BRIDGE, _PORT_OF_BRIDGE}, (
        "left by an earlier run: ip link del NAME"
    )
    holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stdin=subprocess.DEVNULL)
    try:
        _wait_for_namespace(holder.pid)
        _ip(
            f"link add {_VETH} type veth peer name eth0 netns {holder.pid}",
            f"addr add {GATEWAY}/24 dev {_VETH}",
            f"link set {_VETH} up",
            f"link add {_BRIDGE} type bridge",
            f"addr add {BRIDGE_ADDRESS}/24 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
            f"link add {_PORT_OF_BRIDGE} type veth peer name eth1 netns {holder.pid}",
            f"link set {_PORT_OF_BRIDGE} master {_BRIDGE} up",
            f"route add {METADATA}/32 dev {_VETH} src {GATEWAY}",
            f"route add {LISTED}/32 dev {_VETH} src {GATEWAY}",
            f"addr add 2001:db8:77::1/64 dev {_VETH} nodad",
            f"route add {METADATA6}/128 dev {_VETH} src 2001:db8:77::1",
        )
        descriptor = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
        inner = [
            "link set lo up",
            f"addr add {INTERNET}/24 dev eth0",
            f"addr add {METADATA}/32 dev eth0",
            f"addr add {LISTED}/32 dev eth0",
            f"addr add {INTERNET6}/64 dev eth0 nodad",
            f"addr add {METADATA6}/128 dev eth0 nodad",
            "link set eth0 up",
            f"addr add {NEIGHBOUR}/24 dev eth1",
            "link set eth1 up",
        ]
        inside(descriptor, lambda: _ip(*inner))
        yield descriptor
        os.close(descriptor)
    finally:
        holder.kill()
        holder.wait()
        for name in (_VETH, _PORT_OF_BRIDGE, _BRIDGE):
            subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
    assert _links() == before


def give_address(address: str) -> None:
    """Give the host one more, which goes with the rest."""
    _ip(f"addr add {address}/32 dev {_VETH}")


def _wait_for_namespace(pid: int) -> None:
    own = Path("/proc/self/ns/net").readlink()
    while Path(f"/proc/{pid}/ns/net").readlink() == own:
        os.sched_yield()


def _links() -> set[str]:
    return {one.name for one in Path("/sys/class/net").iterdir()}


def _ip(*lines: str) -> None:
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        ["ip", "-batch", "-"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
