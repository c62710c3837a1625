"""The network of one container: set up in the namespace of its engine, before its command.

    the API         a listener in the namespace, at the address in the container's environment;
                    the supervisor makes the connection (`forwarder`)
    the internet    an interface whose packets a program turns into connections of the host
                    (`uplink`); a packet filter in the namespace refuses this machine, metadata
                    services and the configured networks; a resolver (`forwarder`)

The host's namespace gets no address, route or filter: everything ends with the processes of the
container and with the supervisor, also when they are killed. The container cannot change the
filter, as it has no rights over its own namespace (CAP_NET_ADMIN).
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from lading.core.containers import container_network as rules
from lading.core.containers.container_network import Endpoint
from lading.core.errors import ExecutionError, Failure, Invalid, LadingError
from lading.process.concurrency import cancel_all, together
from lading.supervisor.engines import Bind, NetworkAccess
from lading.supervisor.network import routes, uplink
from lading.supervisor.network.forwarder import CONFIGURATION, PORT, Forwarder, Resolver
from lading.supervisor.network.uplink import Uplink, UplinkProgram
from lading.supervisor.rootless import entered

FILTER_PROGRAM = "nft"
_HOSTS, _RESOLV = Path("/etc/hosts"), Path("/etc/resolv.conf")
# Seconds for each helper program.
_TIMEOUT = 20.0
# Connections that wait to be accepted.
_BACKLOG = 128
# Of linux/in6.h; the socket module has no name for it.
_IPV6_FREEBIND = 78
_logger = logging.getLogger("lading.supervisor")
# Of linux/sched.h.
_CLONE_NEWNET = 0x40000000
_Answer = TypeVar("_Answer")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class _Sockets:
    """Sockets made in the namespace."""

    listening: list[tuple[Endpoint, socket.socket]] = field(default_factory=list)
    questions: socket.socket | None = None
    long_questions: socket.socket | None = None

    def close(self) -> None:
        for opened in (*(end for _, end in self.listening), self.questions, self.long_questions):
            if opened is not None:
                opened.close()


class ContainerNetwork:
    """The network of `reach`, with its files in `directory`; `hostname` is the container's."""

    def __init__(
        self,
        reach: NetworkAccess,
        directory: Path,
        *,
        hostname: str,
        timeout: float = _TIMEOUT,
        programs: Sequence[UplinkProgram] = (),
    ) -> None:
        self._timeout = timeout
        # Root of a user namespace is an ordinary user outside of it.
        self._programs = programs or uplink.usable_programs(is_root=entered() is None)
        self._reach, self._directory, self._hostname = reach, directory, hostname
        self._namespace = -1
        self._services: list[Forwarder | Resolver] = []
        self._uplink: Uplink | None = None
        self._own: tuple[str, ...] = ()
        self._watching: socket.socket | None = None
        self._refreshing: asyncio.Task[None] | None = None

    def binds(self) -> tuple[Bind, ...]:
        """Write the container's /etc/hosts and /etc/resolv.conf; return their binds. Raises
        OSError, ExecutionError.
        """
        self._directory.mkdir(mode=0o755, exist_ok=True)
        files = {
            str(_HOSTS): rules.hosts_file(
                self._endpoints(),
                hostname=self._hostname,
                machine=_read(_HOSTS) if self._reach.internet else "",
            ),
            str(_RESOLV): rules.resolver_file(_read(CONFIGURATION), internet=self._reach.internet),
        }
        binds = []
        for target, content in files.items():
            path = self._directory / Path(target).name
            path.write_text(content)
            path.chmod(0o644)
            binds.append(Bind(str(path), target, True))
        return tuple(binds)

    async def open(self, pid: int) -> None:
        """Connect the namespace of a process that runs no user code yet. Raises ExecutionError."""
        try:
            self._namespace = open_namespace(pid)
            # Rules in the host's namespace would cut off the host.
            if is_own(self._namespace):
                raise ExecutionError(
                    "the container has no network namespace of its own", Failure.NODE
                )
            sockets = await asyncio.to_thread(inside, self._namespace, self._prepare)
            await self._serve(sockets)
            if self._reach.internet:
                await self._connect()
        except OSError as error:
            await self.close()
            raise _fault(error) from error
        except BaseException:
            await self.close()
            raise

    @property
    def uplink(self) -> asyncio.subprocess.Process | None:
        """The program that connects the container with the internet, while it does."""
        return self._uplink.process if self._uplink is not None else None

    async def close(self) -> None:
        """Disconnect it. Idempotent."""
        if self._watching is not None:
            asyncio.get_running_loop().remove_reader(self._watching)
            self._watching.close()
            self._watching = None
        if self._refreshing is not None:
            await cancel_all(self._refreshing)
            self._refreshing = None
        await self._end_uplink()
        services, self._services = self._services, []
        for service in services:
            await service.close()
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1

    def _endpoints(self) -> list[Endpoint]:
        try:
            return list(dict.fromkeys(rules.read_endpoint(address) for address in self._reach.api))
        except Invalid as error:
            raise ExecutionError(
                f"the API cannot be reached from the container: {error.message}"
            ) from error

    # Run in the namespace, by a thread.

    def _prepare(self) -> _Sockets:
        routes.bring_loopback_up()
        sockets = _Sockets()
        try:
            for (address, port), endpoint in rules.places(self._endpoints()).items():
                if not address.is_loopback:
                    routes.own(address)
                sockets.listening.append((endpoint, _listen(str(address), port)))
            if self._reach.internet:
                sockets.long_questions = _listen(rules.RESOLVER, PORT)
                sockets.questions = socket.socket(
                    socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
                )
                sockets.questions.bind((rules.RESOLVER, PORT))
        except BaseException:
            # One of several sockets could not be bound: the ones before it would leak.
            sockets.close()
            raise
        return sockets

    # Run in the supervisor's namespace.

    async def _serve(self, sockets: _Sockets) -> None:
        self._services += [Forwarder(to, end) for to, end in sockets.listening]
        if sockets.questions is not None and sockets.long_questions is not None:
            self._services.append(Resolver(sockets.questions, sockets.long_questions))
        for service in self._services:
            await service.start()

    async def _connect(self) -> None:
        """Load the filter and start the uplink at the same time: no user code runs before both are
        done.
        """
        # Before the first look, so that every later change is seen.
        watching = self._watching = routes.watch()
        self._own = routes.own_networks()
        text = rules.ruleset(
            rules.refusals(self._reach.refused), rules.with_translations(self._own)
        )
        await together(
            self._start_uplink(),
            asyncio.to_thread(inside, self._namespace, partial(_load_filter, text, self._timeout)),
        )
        asyncio.get_running_loop().add_reader(watching, self.refresh)

    async def _start_uplink(self) -> None:
        self._uplink = Uplink(
            self._namespace,
            self._directory / "uplink.log",
            programs=self._programs,
            on_fault=self._reach.on_fault,
            timeout=self._timeout,
        )
        await self._uplink.open()

    async def _end_uplink(self) -> None:
        connection, self._uplink = self._uplink, None
        if connection is not None:
            await connection.close()

    def refresh(self) -> asyncio.Task[None]:
        """Follow the addresses of the machine, which may have changed; the task that does so."""
        if self._watching is not None:
            routes.drain(self._watching)
        # One task at a time: it repeats until the addresses are unchanged.
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(), name="addresses")
        return self._refreshing

    async def _refresh(self) -> None:
        """Let the filter refuse the present addresses of the machine; on failure, disconnect the
        internet.
        """
        try:
            while (own := await asyncio.to_thread(routes.own_networks)) != self._own:
                text = rules.update(rules.with_translations(own))
                await asyncio.to_thread(
                    inside, self._namespace, partial(_load_filter, text, self._timeout)
                )
                self._own = own
        except (OSError, ExecutionError) as error:
            fault = f"the container loses the internet, as its filter cannot be updated: {error}"
            _logger.error("%s", fault)
            self._reach.on_fault(fault)
            await self._end_uplink()


def _load_filter(rule_text: str, timeout: float) -> None:
    """Load rules into the namespace of this thread. Raises ExecutionError, OSError."""
    try:
        done = subprocess.run(
            [FILTER_PROGRAM, "-f", "-"],
            input=rule_text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=uplink.program_environment(),
            cwd="/",
        )
    except FileNotFoundError as error:
        raise uplink.missing_program(FILTER_PROGRAM, "nftables") from error
    except subprocess.TimeoutExpired as error:
        raise ExecutionError(f"{FILTER_PROGRAM} does not end", Failure.NODE) from error
    if done.returncode != 0:
        fault = " ".join(done.stderr.split())
        raise ExecutionError(f"{FILTER_PROGRAM} refuses the packet filter: {fault}", Failure.NODE)


def _fault(error: OSError) -> ExecutionError:
    hint = "; only root can do that" if isinstance(error, PermissionError) and os.geteuid() else ""
    # Errors of system calls name a part in place of a file, if anything.
    part = f"{error.filename}: " if error.filename else ""
    said = f"{part}{error.strerror or error}{hint}"
    return ExecutionError(f"the network of the container cannot be made: {said}", Failure.NODE)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(
        family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    )
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # For IPv6 a local route does not suffice to bind to an address, as it does for IPv4.
            listener.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def open_namespace(pid: int) -> int:
    """A descriptor of the network namespace of a process. Raises OSError."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def is_own(descriptor: int) -> bool:
    """Whether this process is in the namespace."""
    theirs, ours = os.fstat(descriptor), Path("/proc/self/ns/net").stat()
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def inside(descriptor: int, work: Callable[[], _Answer]) -> _Answer:
    """Do some work in the namespace; sockets that it makes stay there. Raises OSError, and
    LadingError of the work.

    The work runs in a thread that ends with it: setns(2) applies to the thread, which must not be
    used again.
    """
    answers: list[_Answer] = []
    faults: list[OSError | LadingError] = []

    def do() -> None:
        try:
            if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), "network namespace")
            answers.append(work())
        except (OSError, LadingError) as error:
            faults.append(error)

    thread = threading.Thread(target=do, name="network namespace")
    thread.start()
    thread.join()
    for fault in faults:
        raise fault
    return answers[0]
