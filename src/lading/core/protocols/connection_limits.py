"""Limits on the connections of an HTTP server (`ConnectionTable`).

A connection is a stranger's until a request on it was authenticated. Strangers are counted per
address, and a waiting stranger is dropped for a new connection when the limit is reached: so idle
strangers never exclude anybody. Connections that answer a request count for the user who asked, who
has a part of them at most. The Unix socket is for local processes of one user and is not
counted. Times are seconds of a monotonic clock. Standard library only: the HPC daemon uses this.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid

NEVER: Final = float("inf")
LOCAL: Final = ""
"""The address of a peer on a Unix socket."""
# An Internet provider gives a customer at least this prefix, with 2**64 addresses.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits of every HTTP server of the product. Sizes are bytes, times are seconds."""

    head_bytes: int = 64 << 10
    """Largest head of a message, also of the trailer of a body."""
    head_seconds: float = 30.0
    """Longest TLS handshake, and longest time from the first byte of a head to its last."""
    idle_seconds: float = 60.0
    """Longest time between two requests of one connection."""
    stall_seconds: float = 600.0
    """Longest time in which a peer reads nothing of a response; for strangers `idle_seconds`."""
    connections: int = 8192
    """Most connections at once, without those of the Unix socket."""
    connections_per_address: int = 1024
    """Most connections of strangers at once from one IPv4 address or one IPv6 /64."""
    connections_per_user: int = 1024
    """Most connections at once on which requests of one user are being answered."""
    trusted: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks to which `connections_per_address` does not apply."""
    stranger_body_bytes: int = 64 << 10
    """Largest body that is read before the sender is authenticated."""
    pipelined: int = 16
    """Most requests of one connection that wait for earlier responses."""
    linger_bytes: int = 4 << 20
    """Most bytes of a refused body that are read and discarded, so that its sender receives the
    response.
    """
    linger_seconds: float = 5.0
    """Longest time for that."""


class Connection:
    """State of one connection."""

    __slots__ = ("deadline", "holder", "is_known", "is_waiting", "origin")

    def __init__(self, origin: str, deadline: float) -> None:
        self.origin = origin
        """Network that the peer is counted for; LOCAL for the Unix socket."""
        self.deadline = deadline
        """Time at which the connection is dropped unless it becomes active."""
        self.is_known = origin == LOCAL
        """Whether a request on it was authenticated."""
        self.is_waiting = True
        """Whether no request is being answered."""
        self.holder = ""
        """User whose request is being answered; "" before the user is known."""


class ConnectionTable:
    """The open connections of one server. Raises Invalid for an invalid trusted network."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self._trusted = tuple(_network(network) for network in limits.trusted)
        self._all: dict[Connection, None] = {}
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._waiting: dict[Connection, None] = {}
        """Waiting strangers, the longest waiting first. Dictionaries keep the order of
        insertion.
        """
        self._idle: dict[Connection, None] = {}
        """Waiting known peers, in the same order."""
        self._answering: dict[str, int] = {}
        """Number of connections that answer requests of a user."""
        self._remote = 0
        self.listeners: list[Callable[[float], None]] = []
        """Called with each new deadline."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def admit(self, address: str, now: float) -> tuple[Connection | None, Connection | None]:
        """The new connection, None if it is refused; and a connection to drop for it, mostly None.

        The caller closes the dropped connection, which the table has removed already.
        """
        limits = self.limits
        deadline = now + limits.head_seconds
        if address == LOCAL:
            return self._add(Connection(LOCAL, deadline)), None
        origin, is_trusted = self._origin(address)
        dropped = None
        own = self._strangers.get(origin, {})
        # At the limit of one address its own strangers compete with each other only.
        # One that waits is dropped: a stranger who holds connections open without requests loses
        # them to one who uses his.
        if not is_trusted and len(own) >= limits.connections_per_address:
            dropped = next((connection for connection in own if connection.is_waiting), None)
            if dropped is None:
                return None, None
        elif self._remote >= limits.connections:
            dropped = self.longest_waiting()
            if dropped is None:
                return None, None
        if dropped is not None:
            self.release(dropped)
        return self._add(Connection(origin, deadline)), dropped

    def longest_waiting(self) -> Connection | None:
        """The connection to drop first: an unauthenticated one before a known peer."""
        # Never one whose request is being answered.
        return next(iter(self._waiting), None) or next(iter(self._idle), None)

    def wait(self, connection: Connection, deadline: float) -> None:
        """The connection waits for a request, and is dropped at the deadline."""
        if connection in self._all and not connection.is_waiting:
            self._let_go(connection)
            connection.is_waiting = True
            self._queue(connection)
        self._limit(connection, deadline)

    def serve(self, connection: Connection) -> None:
        """A request is being answered."""
        connection.deadline = NEVER
        if connection.is_waiting:
            connection.is_waiting = False
            self._waiting.pop(connection, None)
            self._idle.pop(connection, None)

    def stall(self, connection: Connection, now: float) -> None:
        """The peer reads nothing of a response; `serve` or `wait` ends that state."""
        limits = self.limits
        patience = limits.stall_seconds if connection.is_known else limits.idle_seconds
        # A stranger could read nothing of a large response for ever, and so hold memory and a
        # connection.
        self._limit(connection, min(connection.deadline, now + patience))

    def know(self, connection: Connection) -> None:
        """Record that a request on the connection was authenticated."""
        if connection.is_known:
            return
        connection.is_known = True
        if connection in self._all:
            self._forget_stranger(connection)
            if connection.is_waiting:
                self._queue(connection)

    def hold(self, connection: Connection, holder: str) -> bool:
        """Count the connection for the user whose request it answers, until that is answered; False
        when the user has as many as are allowed. Idempotent.
        """
        if connection.origin == LOCAL or connection not in self._all or not holder:
            return True
        if connection.holder == holder:
            return True
        if self._answering.get(holder, 0) >= self.limits.connections_per_user:
            return False
        # A pipelined request may be one of another user, behind a proxy.
        self._let_go(connection)
        connection.holder = holder
        self._answering[holder] = self._answering.get(holder, 0) + 1
        return True

    def release(self, connection: Connection) -> None:
        """Remove an ended connection. Idempotent."""
        if connection not in self._all:
            return
        self._let_go(connection)
        del self._all[connection]
        self._remote -= connection.origin != LOCAL
        self._idle.pop(connection, None)
        if not connection.is_known:
            self._forget_stranger(connection)

    def overdue(self, now: float) -> list[Connection]:
        """The connections whose deadline has passed."""
        return [connection for connection in self._all if connection.deadline <= now]

    def next_deadline(self) -> float:
        """The first deadline of all; NEVER when there is none."""
        return min((connection.deadline for connection in self._all), default=NEVER)

    def _add(self, connection: Connection) -> Connection:
        self._all[connection] = None
        self._remote += connection.origin != LOCAL
        if not connection.is_known:
            self._strangers.setdefault(connection.origin, {})[connection] = None
        self._queue(connection)
        self._limit(connection, connection.deadline)
        return connection

    def _limit(self, connection: Connection, deadline: float) -> None:
        connection.deadline = deadline
        for tell in self.listeners:
            tell(deadline)

    def _queue(self, connection: Connection) -> None:
        if connection.origin != LOCAL:
            (self._idle if connection.is_known else self._waiting)[connection] = None

    def _let_go(self, connection: Connection) -> None:
        if connection.holder:
            self._answering[connection.holder] -= 1
            if not self._answering[connection.holder]:
                del self._answering[connection.holder]
            connection.holder = ""

    def _forget_stranger(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        own = self._strangers[connection.origin]
        del own[connection]
        if not own:
            del self._strangers[connection.origin]

    def _origin(self, address: str) -> tuple[str, bool]:
        try:
            # Without the zone of a link-local address.
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            # Not an address, for example a Unix socket.
            return address, False
        # IPv4 addresses on an IPv6 socket count as IPv4.
        mapped = getattr(ip, "ipv4_mapped", None)
        ip = mapped or ip
        is_trusted = any(ip in network for network in self._trusted)
        if ip.version == 4:
            return str(ip), is_trusted
        # A single subscriber has at least a /64, and could take a new address for each connection.
        return str(ipaddress.ip_network((ip, _IPV6_PREFIX), strict=False)), is_trusted


class SharedAllowance:
    """A number of bytes shared by several holders, at most `limit` at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take `size` bytes, if available; each success needs one `give_back`."""
        if self.taken + size > self._limit:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        self.taken -= size


def _network(network: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(network, strict=False)
    except ValueError as error:
        raise Invalid(
            f"API.TrustedAddresses, TrustedProxies: {network[:60]!r} is not a network; "
            "write for example 10.0.0.0/8"
        ) from error
