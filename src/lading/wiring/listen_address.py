"""The address that a server listens on, and the choice of its port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from lading.core.errors import Invalid

DEFAULT_LISTEN = "127.0.0.1:9440"
# Free ports that are tried; each may be claimed by another start.
_MOST_TRIES = 20


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; port 0 means any free port. Raises Invalid."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise Invalid(f"--listen {listen}: not HOST:PORT; write for example {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)


@contextmanager
def claimed_address(listen: str, *, last: str) -> Iterator[str]:
    """An address of the same host that can be listened on: that of the last start, so that pages
    keep their addresses, else `listen`, else one with a free port, as where another user of the
    machine has that one. Inside the context no other start of Lading chooses its port, which is
    free until the server has bound it. Raises Invalid.
    """
    host = listen.rpartition(":")[0]
    candidates = [
        address
        for address in (last, listen)
        if address.rpartition(":")[0] == host and _is_free(address)
    ]
    for address in candidates:
        if (claim := _claim(address)) is not None:
            break
    else:
        address, claim = _free_address(host)
    with claim:
        yield address


def _free_address(host: str) -> tuple[str, socket.socket]:
    for _ in range(_MOST_TRIES):
        address = choose_port(f"{host}:0")
        if (claim := _claim(address)) is not None:
            return address, claim
    raise Invalid(f"--listen {host}: other starts have taken each free port; try again")


def _claim(address: str) -> socket.socket | None:
    """The right to a port among all starts on this machine, whoever starts; None if another one has
    it. The kernel ends it with the process.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # An abstract name (unix(7)): it leaves no file, and every network namespace has its own, as
        # it has its own ports.
        claim.bind(f"\0lading-port-{parse_listen(address)[1]}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(address: str) -> bool:
    """Whether nothing listens at an address of this machine."""
    try:
        host, port = parse_listen(address)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # As the server itself: connections of an earlier one in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (Invalid, OSError):
        return False
    return True


def choose_port(listen: str) -> str:
    """The address with a free port in place of 0. Raises Invalid."""
    host, port = parse_listen(listen)
    if port:
        return listen
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # A program other than Lading may take the port before the server binds it; the start then
        # fails.
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    except OSError as error:
        raise Invalid(f"--listen {listen}: cannot be used: {error.strerror}") from error
    return f"{listen.rpartition(':')[0]}:{port}"
