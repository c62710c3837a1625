"""TLS between machines of a gang, with one certificate and key on both ends."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeState:
    """Destination of a connection; certificate and key are PEM texts."""

    address: str
    port: int
    certificate: str
    key: str = field(repr=False)


def trust(context: ssl.SSLContext, certificate: str, key: str) -> ssl.SSLContext:
    """Let a context trust the gang's certificate and nothing else. Raises ssl.SSLError, OSError."""
    # The libraries for X.509 take 50 modules, and most supervisors have no gang.
    from lading.net.certificates import load_identity

    # The certificate is made for the gang, not for a host name.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    load_identity(context, certificate, key)
    return context


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel report the loss of the other machine within a minute (tcp(7))."""
    # 20 s idle plus 4 probes at 5 s; unacknowledged data ends the connection after 40 s.
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
