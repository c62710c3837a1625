"""A reusable supervisor process of the warm parent: it serves one container after the other, each
from a clean start.

A newly forked process copies every page that it writes to, and specialises code again; that costs
more than everything else that a supervisor does for a short container. So a supervisor that has
ended a container in good order waits for the next.

Good order: nothing was raised, the run directory is gone (with it every mount and every file of
that container), no task is left, and the process has not grown. Otherwise it exits, which the
parent notices at once.

Protocol, in packets (`net.rpc`): the parent sends an assignment, with the locked descriptor of its
run directory. The worker sends {"op": "preparing"} and {"op": "asking"}
(`supervisor.process.turn`), {"op": "free"} when the command has ended and only its results are
still to be saved, and {"op": "done"} when it has ended in good order and released the lock. When
the parent's end closes, the worker ends as soon as it serves no container.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from pathlib import Path

from lading.client.transport import Transport
from lading.core.errors import LadingError
from lading.net import rpc
from lading.supervisor import supervisor_config
from lading.supervisor.process import lockfile
from lading.supervisor.process.environment import Signals, ignore_probes, live, take_own_mounts
from lading.supervisor.process.turn import Turn
from lading.supervisor.session import open_transport
from lading.supervisor.supervisor import EngineMaker
from lading.supervisor.supervisor_config import SupervisorConfig

FREE = rpc.encode({"op": "free"})
DONE = rpc.encode({"op": "done"})
_LIVES = 1000
"""Containers that one process serves at most."""
_LARGE = 96 << 20
"""Resident bytes above which a process is not used again."""
_ROUNDS = 3
"""Iterations of the event loop in which cancelled tasks may end."""
_PAGE = resource.getpagesize()
_logger = logging.getLogger("lading.supervisor")


def work(connection: socket.socket, run_root: Path, *, engines: EngineMaker) -> int:
    """Serve containers, with run directories below `run_root`, until there is a reason to end;
    return the exit code.
    """
    ignore_probes()
    take_own_mounts(run_root)
    return asyncio.run(serve(connection, engines))


async def serve(connection: socket.socket, engines: EngineMaker, *, large: int = _LARGE) -> int:
    """Like `work`, in a prepared process, which is not used again above `large` bytes of memory."""
    signals, way = Signals(), _Way()
    connection.setblocking(False)
    try:
        for _ in range(_LIVES):
            order = await _receive(connection)
            if order is None:
                return 0
            config, lock = order
            signals.renew()
            lockfile.write_holder(
                lock, lockfile.LockHolder(UUID=config.container_uuid, PID=os.getpid())
            )
            code = await live(
                config,
                signals,
                engines=engines,
                transport=await way.to(config),
                on_idle=lambda: _say(connection, FREE),
                turn=_turn(connection, signals.go),
            )
            # The lock is then released by the end of the process, after which the parent cleans up.
            if not await _in_good_order(config, large):
                return code
            lockfile.release(lock)
            await asyncio.get_running_loop().sock_sendall(connection, DONE)
    except (LadingError, BrokenPipeError, ConnectionResetError) as error:
        _logger.error("a supervisor ends: %s", error)
        return 1
    finally:
        await way.close()
    return 0


def _say(connection: socket.socket, word: bytes) -> None:
    # The parent may be gone; an unheard word costs only time.
    with contextlib.suppress(OSError):
        connection.send(word)


def _turn(connection: socket.socket, go: asyncio.Event) -> Turn:
    """The turn of the current container."""

    def say(word: bytes) -> bool:
        try:
            connection.send(word)
        except OSError:
            # The warm parent has ended.
            return False
        return True

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        # The parent sends nothing now, so its descriptor becomes readable only when it is closed;
        # then nobody sends `go` any more.
        loop.add_reader(connection.fileno(), go.set)
        try:
            await go.wait()
        finally:
            loop.remove_reader(connection.fileno())

    return Turn(say, wait)


class _Way:
    """The connection to the server, kept from one container to the next while the address stays the
    same.
    """

    def __init__(self) -> None:
        self._open: Transport | None = None
        self._address: tuple[object, ...] = ()

    async def to(self, config: SupervisorConfig) -> Transport:
        """Transport for an assignment."""
        address = (config.api_socket, config.api_url, config.api_ca_file, config.api_insecure)
        if self._open is None or address != self._address:
            await self.close()
            self._open, self._address = open_transport(config), address
        return self._open

    async def close(self) -> None:
        """Close it."""
        way, self._open = self._open, None
        if way is not None:
            await way.close()


async def _receive(connection: socket.socket) -> tuple[SupervisorConfig, int] | None:
    """The next assignment and the lock of its run directory; None when there will be none."""
    packet = await rpc.wait_packet(connection, descriptors=1)
    return (supervisor_config.parse(packet.data), packet.descriptors[0]) if packet.data else None


async def _in_good_order(config: SupervisorConfig, large: int) -> bool:
    """Whether nothing of the served container is left in this process."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
    # One task: this one.
    return (
        len(asyncio.all_tasks()) == 1 and not _exists(config.run_directory) and _resident() < large
    )


def _exists(directory: str) -> bool:
    return os.path.lexists(directory)


def _resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
