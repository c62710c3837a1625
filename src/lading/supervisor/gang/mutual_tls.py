"""What the two ends of a line between machines of a gang have in common: how they know each
other.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field

from lading.net.certificates import load_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Where a line leads; certificate and key are PEM texts."""

    address: str
    port: int
    certificate: str
    key: str = field(repr=False)


def trust(context: ssl.SSLContext, certificate: str, key: str) -> ssl.SSLContext:
    """Let a context know its gang, and nobody else. Raises ssl.SSLError, OSError."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    load_identity(context, certificate, key)
    return context


def keep_alive(connection: socket.socket) -> None:
    """Have the loss of the other machine noticed within a minute."""
    options = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    )
    more = (
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    )
    for level, name, value in (
        *options,
        *more,
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 40_000),
    ):
        connection.setsockopt(level, name, value)
