"""An outpost: on a machine that has ranks of a gang whose supervisor is elsewhere, it starts their
annexes.

The dispatcher has it made before the supervisor is (`forkserver`, `admit`), and gives both the same
certificate and key, made for this gang alone: whoever has the key belongs to it, nobody else gets
further than the handshake. The supervisor connects once for each rank (`line`), which gets an annex
(`remote_rank`) at the other end of the connection.

The key is in the memory of the processes only. An outpost ends when all its ranks have ended, when
it is told so (TERM), or when nobody came; its directory `outposts/<container uuid>` then goes. When
a connection is lost, its annex ends.
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

from lading import removal
from lading.core.errors import LadingError
from lading.supervisor import linux
from lading.supervisor.gang.mutual_tls import keep_alive, trust
from lading.supervisor.process import crash_cleanup, lockfile
from lading.supervisor.supervisor import EngineMaker

DIRECTORY, ANNEXES = "outposts", "annex"
"""Below the directory of a machine, beside that of the supervisors."""
_RANKS = "ranks"
_PATIENCE = 3600.0
"""Seconds for the supervisor to prepare what it needs itself."""
_HANDSHAKE_TIME = 30.0
_END_TIME = 20.0
_LOOK_PERIOD = 0.05
_CHUNK = 1 << 18
_logger = logging.getLogger("lading.supervisor")


@dataclass(frozen=True, slots=True)
class Order:
    """For which container, for how many ranks, and what both ends know each other by (PEM)."""

    uuid: str
    ranks: int
    certificate: str
    key: str = field(repr=False)


def place(run_root: Path, uuid: str) -> Path:
    """The directory of the outpost for a container."""
    return run_root.parent / DIRECTORY / uuid


def listen() -> socket.socket:
    """A socket that others can connect to by IPv4, and by IPv6 where there is that, at a port that
    nobody uses.

    Raises OSError.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def reachable_address() -> str:
    """The address of this machine in the network that it belongs to; "" when it cannot be told."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel only looks which way it would go.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def write_down(directory: Path, order: Order) -> None:
    """Say how many ranks there are, for those who list outposts."""
    (directory / _RANKS).write_text(str(order.ranks))


def look(run_root: Path) -> list[dict[str, object]]:
    """The outposts that are here, alive or not cleared away: container and number of ranks."""
    root = run_root.parent / DIRECTORY
    found: list[dict[str, object]] = []
    for one in sorted(root.iterdir()) if root.is_dir() else []:
        try:
            ranks = int((one / _RANKS).read_text())
        except (OSError, ValueError):
            ranks = 1
        found.append({"uuid": one.name, "ranks": ranks})
    return found


def hold(order: Order, listener: socket.socket, directory: Path) -> int:
    """Be the outpost, in a process of its own which holds the lock of the directory; the exit
    code.
    """
    try:
        asyncio.run(Outpost(order, listener).serve())
        _discard(directory)
    except (LadingError, OSError) as error:
        _logger.error("container=%s its outpost ends: %s", order.uuid, error)
        return 1
    return 0


class Outpost:
    """Serves the connections of one gang. `command` starts an annex, with the address of its
    supervisor added.
    """

    def __init__(
        self,
        order: Order,
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def serve(self) -> None:
        """Until all ranks have come and ended, TERM, or the end of patience. Raises OSError."""
        context = trust(
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._order.certificate, self._order.key
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        server = await asyncio.start_server(
            self._take, sock=self._listener, ssl=context, ssl_handshake_timeout=_HANDSHAKE_TIME
        )
        loop.call_later(self._patience, self._give_up)
        try:
            await self._over.wait()
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _give_up(self) -> None:
        if self._left:
            self._over.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if self._left == 0 or task is None:
            writer.close()
            return
        self._left -= 1
        self._tasks.add(task)
        try:
            await self._relay(reader, writer)
        except OSError as error:
            _logger.error("container=%s its annex cannot be started: %s", self._order.uuid, error)
        finally:
            writer.close()
            self._tasks.discard(task)
            if not self._left and not self._tasks:
                self._over.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One annex, from its start to its end."""
        keep_alive(writer.get_extra_info("socket"))
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
            inward.cancel()
            await asyncio.gather(inward, return_exceptions=True)
            process.stdin.close()
            await _end(process)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, and the end of it to a pipe; where it cannot be passed on it is thrown
    away.
    """
    is_open = True
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
    """Wait for the end of an annex, which has been told; then end it."""
    for end in (process.terminate, process.kill):
        try:
            async with asyncio.timeout(_END_TIME):
                await process.wait()
                return
        except TimeoutError:
            end()
    await process.wait()


async def clear(run_root: Path, uuid: str, *, engines: EngineMaker) -> None:
    """End the outpost for a container, and undo what it and its annexes left. Idempotent.

    Raises ExecutionError or OSError for what cannot be undone.
    """
    directory = place(run_root, uuid)
    if directory.exists():
        await asyncio.to_thread(_end_holder, directory)
    for one in sorted((run_root.parent / ANNEXES).glob(f"{uuid}-*")):
        await crash_cleanup.finish(one, engines=engines)
    await asyncio.to_thread(_discard, directory)


def _discard(directory: Path) -> None:
    linux.discard_directory(directory, aside=removal.beside(directory), last=lockfile.NAME)


def _end_holder(directory: Path) -> None:
    """End the process that holds the lock of an outpost."""
    began = time.monotonic()
    while lockfile.is_held(directory):
        holder = lockfile.read_holder(directory)
        if holder is not None:
            patient = time.monotonic() - began < 2 * _END_TIME
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder.PID, signal.SIGTERM if patient else signal.SIGKILL)
        time.sleep(_LOOK_PERIOD)
