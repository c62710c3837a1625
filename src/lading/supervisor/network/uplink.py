"""The program that connects one container with the internet: slirp4netns, or pasta.

It makes an interface in the network namespace of the container, and turns its packets into
connections of the machine. It has the rights of the supervisor's user, gives up those that it does
not need, and ends with the supervisor, also when that is killed. It leads nowhere on the loopback
of the machine.

An ordinary user gets pasta where it is installed, which is faster and which distributions prefer.
Root gets slirp4netns: pasta of root becomes the user nobody, which may not join a namespace.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lading.core.containers import container_network as rules
from lading.core.errors import ExecutionError, Failure
from lading.process.concurrency import cancel_all, finish_within

# Bytes. Larger packets cost less, and these go to the uplink only; slirp4netns allows 65,521.
_MTU = 65520
# An address for documentation (RFC 3849), at the discard port.
_DOCUMENTATION = ("2001:db8::1", 9)
# The kernel ends a process when its parent, whose number is the first argument, has ended. The
# check is for a parent that ended before (PR_SET_PDEATHSIG and SIGKILL, prctl(2)). Python ignores
# SIGPIPE, which pasta of 2023 takes for a failure when it does the same.
_FOLLOW = """
import ctypes, os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
# pasta tells so of each line where the machine has no system log.
_NO_SYSTEM_LOG = "Failed to send"


@dataclass(frozen=True, slots=True)
class Attachment:
    """Descriptors that an uplink program inherits."""

    namespace: int
    """The network namespace of the container."""
    ready: int
    """A pipe to which the program writes when the container is connected."""
    ending: int
    """A pipe whose other end the supervisor closes when the program has to end."""
    ipv6: bool
    """Whether the machine has a route to the internet by IPv6."""


@dataclass(frozen=True, slots=True)
class UplinkProgram:
    """A program that can connect containers, and the package that has it."""

    name: str
    package: str
    command: Callable[[Attachment], list[str]]


def _slirp4netns_command(attachment: Attachment) -> list[str]:
    ipv6 = ["--enable-ipv6"] if attachment.ipv6 else []
    return [
        "slirp4netns", "--configure", f"--mtu={_MTU}", "--disable-host-loopback",
        "--disable-dns", f"--cidr={rules.UPLINK}", "--enable-sandbox", "--enable-seccomp",
        *ipv6, f"--ready-fd={attachment.ready}", f"--exit-fd={attachment.ending}",
        "--netns-type=path", f"/proc/self/fd/{attachment.namespace}", rules.INTERFACE,
    ]  # fmt: skip


def _pasta_command(attachment: Attachment) -> list[str]:
    # By IPv6 it would give the container the address of the machine.
    ipv6 = ["--address", rules.UPLINK_ADDRESS6, "--gateway", rules.UPLINK_GATEWAY6]
    return [
        sys.executable, "-I", "-S", "-c", _FOLLOW, str(os.getpid()),
        "pasta", "--foreground", "--quiet", "--config-net", "--netns-only",
        "--netns", f"/proc/self/fd/{attachment.namespace}", "--ns-ifname", rules.INTERFACE,
        # Nothing leads to the loopback of the machine, and no port of it into the container.
        "--no-map-gw", "--tcp-ports", "none", "--udp-ports", "none",
        "--tcp-ns", "none", "--udp-ns", "none",
        "--mtu", str(_MTU), "--address", rules.UPLINK_ADDRESS, "--netmask", "24",
        "--gateway", rules.UPLINK_GATEWAY, *(ipv6 if attachment.ipv6 else ["--ipv4-only"]),
        "--no-dhcp", "--no-dhcpv6", "--no-ra", "--dns", "none", "--search", "none",
        # It writes its number there when the interface is ready.
        "--pid", f"/proc/self/fd/{attachment.ready}",
    ]  # fmt: skip


SLIRP4NETNS = UplinkProgram("slirp4netns", "slirp4netns", _slirp4netns_command)
PASTA = UplinkProgram("pasta", "passt", _pasta_command)


def usable_programs(*, is_root: bool) -> tuple[UplinkProgram, ...]:
    """The programs that can connect containers of a user, the preferred one first."""
    return (SLIRP4NETNS,) if is_root else (PASTA, SLIRP4NETNS)


def program_environment() -> dict[str, str]:
    """The environment of programs for networks. Some are in /usr/sbin, which may not be on PATH."""
    return {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "LC_ALL": "C"}


def has_ipv6() -> bool:
    """Whether this machine has a route to the internet by IPv6. Nothing is sent (udp(7))."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_DOCUMENTATION)
        except OSError:
            # No route to any IPv6 address.
            return False
    return True


def missing_program(name: str, package: str) -> ExecutionError:
    """The error that a program is not installed."""
    return ExecutionError(
        f"a container with the internet needs {name}, which is not installed;"
        f" install the package {package}",
        Failure.NODE,
    )


class Uplink:
    """The connection of one network namespace with the internet, by the first of `programs` that is
    installed and can make it. `log` is a file for the output of the program, `timeout` the seconds
    that it has to connect and to end. `on_fault` hears a sentence when the connection is lost.
    """

    def __init__(
        self,
        namespace: int,
        log: Path,
        *,
        programs: Sequence[UplinkProgram],
        on_fault: Callable[[str], None],
        timeout: float,
    ) -> None:
        self._namespace, self._log, self._timeout = namespace, log, timeout
        self._programs, self._on_fault = programs, on_fault
        self._exit = -1
        self._watching: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        """The program, while the container is connected."""

    async def open(self) -> None:
        """Connect the namespace. Raises ExecutionError, OSError."""
        installed = [program for program in self._programs if _is_installed(program.name)]
        if not installed:
            preferred = self._programs[0]
            raise missing_program(preferred.name, preferred.package)
        *others, last = installed
        for program in others:
            try:
                await self._start(program)
            except ExecutionError as error:
                await self.close()
                self._on_fault(f"{error.message}; trying {last.name}")
            else:
                return
        await self._start(last)

    async def close(self) -> None:
        """Disconnect it. Idempotent."""
        watching, self._watching = self._watching, None
        if watching is not None:
            await cancel_all(watching)
        if self._exit >= 0:
            os.close(self._exit)
            self._exit = -1
        process, self.process = self.process, None
        if process is None or process.returncode is not None:
            return
        # slirp4netns ends at the end of the pipe as well.
        process.terminate()
        try:
            await finish_within(process.wait(), self._timeout)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start(self, program: UplinkProgram) -> None:
        ready, ready_end = os.pipe2(os.O_CLOEXEC)
        ending, self._exit = os.pipe2(os.O_CLOEXEC)
        attachment = Attachment(self._namespace, ready_end, ending, has_ipv6())
        try:
            with self._log.open("wb") as output:
                self.process = await asyncio.create_subprocess_exec(
                    *program.command(attachment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=program_environment(),
                    cwd="/",
                    pass_fds=(self._namespace, ready_end, ending),
                )
        finally:
            os.close(ready_end)
            os.close(ending)
        try:
            async with asyncio.timeout(self._timeout):
                connected = await _first_byte(ready)
        except TimeoutError as error:
            raise ExecutionError(
                f"{program.name} does not join the container in time", Failure.NODE
            ) from error
        finally:
            os.close(ready)
        if not connected:
            raise ExecutionError(
                f"{program.name} cannot join the container: {self._output()}", Failure.NODE
            )
        self._watching = asyncio.create_task(self._watch(self.process, program.name))

    async def _watch(self, process: asyncio.subprocess.Process, name: str) -> None:
        code = await process.wait()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._on_fault(
            f"the container has no internet any more: {name}, which connects it, has ended"
            f" ({end}); run it again"
        )

    def _output(self) -> str:
        """The end of the program's output, in one line."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return " ".join(_words(lines))[-200:]


def _words(lines: Iterable[str]) -> list[str]:
    shown = (line for line in lines if not line.startswith(_NO_SYSTEM_LOG))
    return [word for line in shown for word in line.split()]


def _is_installed(name: str) -> bool:
    return shutil.which(name, path=program_environment()["PATH"]) is not None


async def _first_byte(descriptor: int) -> bytes:
    """First byte of a pipe; empty at its end."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 1)
