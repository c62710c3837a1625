"""Remote ranks of a gang as the supervisor sees them, and the TLS connections to their machines.

For a gang on several machines, one process on each further machine prepares and starts a rank. The
supervisor starts these processes with the command of its assignment (`annex_command`), or connects
to listeners (`rank_launcher`), sends each its invitation, and passes their pipes to the conductor
(`hpc.ranks`). A remote rank ends with its pipe, so none outlives the supervisor.

`python -m lading.supervisor --line` is the TLS connection to a listener, with one certificate and
key on both ends. The first line of standard input has the destination and the certificate; further
input is sent there, and received data is written to standard output. It ends when either side does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import ssl
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError, Failure, RequestError
from lading.net import rpc
from lading.process.concurrency import cancel_all
from lading.supervisor.engines import Spread
from lading.supervisor.supervisor_config import SupervisorConfig

RANK = "{rank}"
# VXLAN network identifiers have 24 bits (RFC 7348, section 5).
_MOST_WIRES = 1 << 24
# Seconds for a remote rank to end by itself.
_LEAVE_TIME = 30.0
# Seconds for TCP and TLS to the other machine, which may just have booted.
_CONNECT_TIME = 60.0
# Bytes read at a time.
_CHUNK = 1 << 18


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """First message to a remote rank: its rank, the network number, the assignment of the first
    machine.
    """

    rank: int
    wire: int
    assignment: SupervisorConfig
    certificate: str = ""
    """Contents of the assignment's `api_ca_file`."""


class RemoteRankClient:
    """The remote ranks of one gang. Each has `leave_time` seconds to end by itself."""

    def __init__(self, assignment: SupervisorConfig, *, leave_time: float = _LEAVE_TIME) -> None:
        self._assignment, self._leave_time = assignment, leave_time
        self.processes: list[subprocess.Popen[bytes]] = []
        """The connections to them; empty for a gang on this machine alone."""
        # Random, so that gangs on the same machines have different networks.
        self._wire = 1 + secrets.randbelow(_MOST_WIRES - 1)

    def open(self, nodes: int) -> Spread | None:
        """Start them; None when the gang is on this machine alone. Raises ExecutionError."""
        command, outposts = self._assignment.annex_command, self._assignment.outposts
        if outposts is not None:
            command = (sys.executable, "-m", "lading.supervisor", "--line")
        if nodes == 1 or not command:
            return None
        if outposts is not None and len(outposts.ranks) != nodes - 1:
            raise ExecutionError(
                f"there are {len(outposts.ranks)} rank launchers for {nodes - 1} further ranks"
            )
        try:
            for rank in range(1, nodes):
                self._start([word.replace(RANK, str(rank)) for word in command], rank)
        except OSError as error:
            raise ExecutionError(f"{command[0]} cannot be run: {error}", Failure.NODE) from error
        pipes = [(process.stdout, process.stdin) for process in self.processes]
        ends = tuple(
            (out.fileno(), into.fileno())
            for out, into in pipes
            if out is not None and into is not None
        )
        return Spread(wire=self._wire, pipes=ends)

    def hand_over(self) -> None:
        """Close the pipes here: the conductor has its own copies."""
        for process in self.processes:
            for end in (process.stdin, process.stdout):
                if end is not None:
                    # Buffered bytes for a process that has ended.
                    with contextlib.suppress(BrokenPipeError):
                        end.close()

    def close(self) -> None:
        """Wait for their end, or end them. Idempotent."""
        self.hand_over()
        for process in self.processes:
            try:
                process.wait(self._leave_time)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
        self.processes.clear()

    def _start(self, command: list[str], rank: int) -> None:
        config = self._assignment
        certificate = Path(config.api_ca_file).read_text() if config.api_ca_file else ""
        alone = structs.replace(config, outposts=None)
        lines: list[object] = [
            Invitation(rank=rank, wire=self._wire, assignment=alone, certificate=certificate)
        ]
        if config.outposts is not None:
            address, port = config.outposts.ranks[rank - 1]
            known = {"certificate": config.outposts.certificate, "key": config.outposts.key}
            lines.insert(0, HandshakeState(address=address, port=port, **known))
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                # A process that has ended has reported its reason.
                for line in lines:
                    rpc.write_line(process.stdin.fileno(), line)


def main() -> int:
    """Run the connection; return the exit code of the process."""
    try:
        asyncio.run(serve(read_course(0)))
    except (ExecutionError, OSError, TimeoutError) as error:
        fault = (
            error.message
            if isinstance(error, ExecutionError)
            else str(error) or "it does not answer"
        )
        # The reader has closed the connection.
        with contextlib.suppress(BrokenPipeError):
            rpc.write_line(1, {"fault": fault})
        return 1
    return 0


def read_course(descriptor: int) -> HandshakeState:
    """The first line, and nothing after it. Raises ExecutionError."""
    try:
        course = rpc.read_line(descriptor, HandshakeState)
    except RequestError as error:
        raise ExecutionError("where this line leads cannot be read") from error
    if course is None:
        raise ExecutionError("the destination of the connection is missing")
    return course


async def serve(course: HandshakeState) -> None:
    """Copy in both directions until one of them has ended. Raises OSError, TimeoutError,
    ExecutionError.
    """
    context = trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), course.certificate, course.key)
    try:
        async with asyncio.timeout(_CONNECT_TIME):
            reader, writer = await asyncio.open_connection(course.address, course.port, ssl=context)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no answer in {_CONNECT_TIME:.0f} s"
        there = f"{course.address}, port {course.port}"
        raise ExecutionError(f"its machine cannot be reached at {there}: {why}") from error
    keep_alive(writer.get_extra_info("socket"))
    outward, inward = asyncio.create_task(_send(writer)), asyncio.create_task(_receive(reader))
    try:
        await asyncio.wait((outward, inward), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(outward, inward)
        # Abort: unsent data has no reader any more.
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: protocol, os.fdopen(os.dup(0), "rb", buffering=0)
    )
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_CHUNK):
        await asyncio.to_thread(rpc.write_all, 1, data)


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
        # Milliseconds without an acknowledgement; keep-alive does not cover that case (tcp(7)).
        connection.setsockopt(level, name, value)
