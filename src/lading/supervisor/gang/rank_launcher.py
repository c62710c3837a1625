"""Listener on a machine with remote ranks of a gang: starts them when the supervisor connects.

The dispatcher starts the listener before the supervisor (`forkserver`, `admit`), and gives both the
same certificate and key, made for this gang alone: the key proves membership, and nobody else gets
further than the handshake. The supervisor connects once for each rank (`remote_rank_client`) and
gets a remote rank (`remote_rank`) at the other end of the connection.

The key is kept in memory only. The listener ends when all its ranks have ended, when it gets TERM,
or when nobody connected in time; its directory `outposts/<container uuid>` is then removed. When a
connection is lost, its rank ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from lading.core.errors import LadingError
from lading.core.protocols.connection_limits import Connection, HttpLimits
from lading.net.acceptor import StreamServer
from lading.process import removal
from lading.process.concurrency import cancel_all, finish_within
from lading.supervisor import journal, linux
from lading.supervisor.engines import EngineMaker
from lading.supervisor.gang.remote_rank_client import keep_alive, trust
from lading.supervisor.process import standalone

DIRECTORY, REMOTE_RANKS = "outposts", "annex"
"""Directories beside that of the supervisors."""
_RANKS = "ranks"
# Seconds for the supervisor to prepare its own inputs.
_PATIENCE = 3600.0
# A gang has a connection for each rank; strangers get no further than the handshake.
_LIMITS = HttpLimits(connections=4096, connections_per_address=64, trusted=())
# Seconds between the end of a connection, TERM and KILL of its rank.
_END_TIME = 20.0
# Seconds between two looks at a lock.
_LOOK_PERIOD = 0.05
# Bytes of one read.
_CHUNK = 1 << 18
_logger = logging.getLogger("lading.supervisor")


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Container, number of ranks, and the certificate and key of both ends (PEM)."""

    uuid: str
    ranks: int
    certificate: str
    key: str = field(repr=False)


def place(run_root: Path, uuid: str) -> Path:
    """Directory of the listener for a container."""
    return run_root.parent / DIRECTORY / uuid


def listen() -> socket.socket:
    """A socket on a free port, for IPv4, and for IPv6 where available.

    Raises OSError.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def reachable_address() -> str:
    """The address of this machine in its network; "" when it cannot be determined."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel only chooses a route (udp(7)). 192.0.2.1 is reserved for
            # documentation (RFC 5737).
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            # No route there.
            return ""


def write_down(directory: Path, order: LaunchOrder) -> None:
    """Write the number of ranks for listings."""
    (directory / _RANKS).write_text(str(order.ranks))


def look(run_root: Path) -> list[dict[str, object]]:
    """The listeners on this machine, live or not cleaned up: container and number of ranks."""
    root = run_root.parent / DIRECTORY
    listeners: list[dict[str, object]] = []
    for directory in sorted(root.iterdir()) if root.is_dir() else []:
        try:
            ranks = int((directory / _RANKS).read_text())
        except (OSError, ValueError):
            # Written a moment later; one is the least.
            ranks = 1
        listeners.append({"uuid": directory.name, "ranks": ranks})
    return listeners


def hold(order: LaunchOrder, listener: socket.socket, directory: Path) -> int:
    """Run the listener in its own process, which holds the lock of the directory; return the exit
    code.
    """
    try:
        asyncio.run(RankLauncher(order, listener).serve())
        _discard(directory)
    except (LadingError, OSError) as error:
        _logger.error("container=%s its rank launcher ends: %s", order.uuid, error)
        return 1
    return 0


class RankLauncher:
    """Serves the connections of one gang. `command` starts a remote rank; the address of its
    supervisor is appended.
    """

    def __init__(
        self,
        order: LaunchOrder,
        listener: socket.socket,
        *,
        command: tuple[str, ...] = (),
        patience: float = _PATIENCE,
    ) -> None:
        self._order = order
        self._patience = patience
        self._listener = listener
        self._command = command or (sys.executable, "-m", "lading.supervisor", "--annex")
        self._left = order.ranks
        self._serving = 0
        self._server = StreamServer(self._take, _LIMITS)
        self._over = asyncio.Event()

    async def serve(self) -> None:
        """Serve until all ranks have connected and ended, or TERM, or the time limit. Raises
        OSError.
        """
        context = trust(
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._order.certificate, self._order.key
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        # The server closes its own copy of the listening socket.
        self._server.start([self._listener.dup()], context=context)
        loop.call_later(self._patience, self._give_up)
        try:
            await self._over.wait()
        finally:
            await self._server.close()

    def _give_up(self) -> None:
        if self._left:
            self._over.set()

    async def _take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        # The handshake has proven the key of the gang.
        self._server.table.know(connection)
        self._server.table.serve(connection)
        # More connections than ranks.
        if self._left == 0:
            return
        self._left -= 1
        self._serving += 1
        try:
            await self._relay(reader, writer)
        except OSError as error:
            _logger.error("container=%s its rank cannot be started: %s", self._order.uuid, error)
        finally:
            self._serving -= 1
            if not self._left and not self._serving:
                self._over.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run one remote rank from its start to its end."""
        keep_alive(writer.get_extra_info("socket"))
        # IPv4 addresses on an IPv6 socket have this prefix (RFC 4291, section 2.5.5.2).
        leader = str(writer.get_extra_info("peername")[0]).removeprefix("::ffff:")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, leader, stdin=pipe, stdout=pipe
        )
        assert process.stdin is not None
        assert process.stdout is not None
        inward = asyncio.create_task(_pour(reader, process.stdin))
        try:
            await _pour(process.stdout, writer)
        finally:
            await cancel_all(inward)
            process.stdin.close()
            await _end(process)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy data, and pass on its end to a pipe; data that cannot be written is discarded, so that
    the sender does not block.
    """
    is_open = True
    # A broken reader counts as its end.
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            if is_open:
                try:
                    writer.write(data)
                    await writer.drain()
                except OSError:
                    is_open = False
    if writer.can_write_eof():
        writer.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a remote rank, whose input has ended; then TERM, then KILL."""
    for end in (process.terminate, process.kill):
        try:
            await finish_within(process.wait(), _END_TIME)
        except TimeoutError:
            end()
        else:
            return
    await process.wait()


async def clear(run_root: Path, uuid: str, *, engines: EngineMaker) -> None:
    """End the listener for a container, and clean up after it and its ranks. Idempotent.

    Raises ExecutionError or OSError when something cannot be undone.
    """
    directory = place(run_root, uuid)
    if directory.exists():
        await asyncio.to_thread(_end_holder, directory)
    for rank_directory in sorted((run_root.parent / REMOTE_RANKS).glob(f"{uuid}-*")):
        await standalone.finish_cleanup(rank_directory, engines=engines)
    await asyncio.to_thread(_discard, directory)


def _discard(directory: Path) -> None:
    linux.discard_directory(directory, aside=removal.beside(directory), last=journal.LOCK_NAME)


def _end_holder(directory: Path) -> None:
    """End the process that holds the lock of a listener."""
    began = time.monotonic()
    while journal.is_held(directory):
        holder = journal.read_holder(directory)
        if holder is not None:
            patient = time.monotonic() - began < 2 * _END_TIME
            # The process has ended already.
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder.PID, signal.SIGTERM if patient else signal.SIGKILL)
        time.sleep(_LOOK_PERIOD)
