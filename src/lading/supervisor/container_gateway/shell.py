"""An SSH server whose sessions are all in one container.

The server has authorized the caller already, so no password or key is asked for. A session runs a
command or a shell by the engine's `execute`, with a terminal if the client requests one; sftp runs
the image's own sftp-server. Connections are forwarded to ports of the container itself. All other
requests (agent, X11, listening here, other machines) are refused.

The detach keys leave a terminal while its command continues, until the command or the container
ends.

Source: docs/spec/shell, section SSH server.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import asyncssh
from asyncssh.forward import SSHForwarder

from lading.core.containers import sessions
from lading.core.errors import LadingError
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe, join
from lading.process.concurrency import cancel_all
from lading.supervisor.container_gateway import ports
from lading.supervisor.container_gateway.first_process import first_process
from lading.supervisor.engines import Engine, Exec, Execution, Size

DEFAULT_USER = "root"
# SSH user names that stand for no user; the second is that of Arvados' programs.
_NAMELESS = ("", "_")
# Seconds between keep-alive messages, so that idle connections survive NAT and proxies.
_KEEPALIVE = 60
# Ciphers with hardware support; the data is inside TLS already.
_CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "aes128-ctr"]
# Refused requests to listen that are told to a session.
_MOST_REFUSALS = 10
# Bytes of unread input of a command, above which the client is asked to wait.
_HIGH = 1 << 18


class ShellServer:
    """SSH server of one container. Its host key is made with the first session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._key: asyncssh.SSHKey | None = None
        self._left: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End the commands that were detached."""
        await cancel_all(*self._left)

    def leave(self, execution: Execution, typed: bytes) -> None:
        """Let the detached command `execution` continue, after the last input `typed`."""
        task = asyncio.create_task(_go_on(execution, typed), name="command that was left")
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    async def serve(self, pipe: Pipe, user: str, keys: str = "") -> None:
        """Serve one SSH connection until either side ends it; the detach `keys` leave its sessions.

        Sessions run as `user`, or when that is "", as the user of the SSH client.
        """
        if self._key is None:
            self._key = asyncssh.generate_private_key("ssh-ed25519")
        # asyncssh needs a socket, but the connection is a pipe of our HTTP server: a socket pair
        # joins the two.
        with contextlib.ExitStack() as undo:
            ours, theirs = (undo.enter_context(end) for end in socket.socketpair())
            near = Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))
            undo.pop_all()
        is_taken = False

        def log_in() -> _Login:
            nonlocal is_taken
            is_taken = True
            return _Login(_Entry(self._engine, user, keys, self.leave))

        joined = join(pipe, near)
        carrying = asyncio.create_task(joined, name="ssh bytes")
        try:
            connection = await asyncssh.run_server(
                ours,
                server_factory=log_in,
                server_host_keys=[self._key],
                encoding=None,
                encryption_algs=_CIPHERS,
                compression_algs=["none"],
                agent_forwarding=False,
                x11_forwarding=False,
                allow_scp=False,
                keepalive_interval=_KEEPALIVE,
                login_timeout=60,
            )
            closed = asyncio.create_task(connection.wait_closed(), name="ssh connection")
            try:
                await asyncio.wait((carrying, closed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Not `close()`: its farewell waits for a reader, and a second cancel in that
                # wait would leave the socket pair open.
                connection.abort()
                await cancel_all(closed)
        except (OSError, asyncssh.Error):
            # The client has gone or violated the protocol, and asyncssh has answered.
            return
        finally:
            # Before anything is awaited: a second cancel may come during the wait, and a task that
            # is cancelled before it began has closed nothing.
            near.writer.close()
            if not is_taken:
                # asyncssh reads its options in a thread first; a cancel there leaves the socket.
                ours.close()
            try:
                await cancel_all(carrying)
            finally:
                if carrying.done():
                    joined.close()


def parse_form(form: bytes) -> tuple[str, str]:
    """User of a session form ("" for none) and its detach keys. Raises Invalid for unknown keys."""
    given = parse_qs(form.decode("latin-1"))
    keys = given.get("detach_keys", [""])[0]
    sessions.DetachKeys(keys)
    return given.get("login_username", [""])[0], keys


async def _go_on(execution: Execution, typed: bytes) -> None:
    try:
        if typed:
            # Output of a detached command is discarded, so that it does not block.
            await execution.write(typed)
        while (await execution.read())[1]:
            pass
        await execution.wait()
    finally:
        # Shielded: the end of the supervisor must still end the command.
        await asyncio.shield(asyncio.ensure_future(execution.close()))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A connection: engine, user and detach keys. `user` is "" until the SSH client has named
    one.
    """

    engine: Engine
    user: str
    keys: str
    leave: Callable[[Execution, bytes], None]


class _Login(asyncssh.SSHServer):
    def __init__(self, entry: _Entry) -> None:
        self._entry = entry
        self._connection: asyncssh.SSHServerConnection | None = None
        self._refusals: list[str] = []

    def begin_auth(self, username: str) -> bool:
        # The form takes precedence: ssh by itself sends the name of the caller's local user.
        if not self._entry.user:
            user = DEFAULT_USER if username in _NAMELESS else username
            self._entry = replace(self._entry, user=user)
        # False: no authentication; the caller was authorized by the server.
        return False

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        refusals, self._refusals = self._refusals, []
        return _Session(self._entry, refusals)

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        self._refuse_listening(listen_host, listen_port)
        return False

    def unix_server_requested(self, listen_path: str) -> bool:
        self._refuse_listening(listen_path, -1)
        return False

    def _refuse_listening(self, host: str, port: int) -> None:
        """Tell why nothing listens here: the refusal of SSH has no room for a reason, so that it is
        in a message for the log of the client, and in the error stream of the next session.
        """
        reason = sessions.listening_refusal(host, port)
        if self._connection is not None:
            self._connection.send_debug(reason, always_display=True)
        if len(self._refusals) < _MOST_REFUSALS:
            self._refusals.append(reason)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[Any]:
        del orig_host, orig_port
        return self._connect(dest_host, dest_port)

    async def _connect(self, host: str, port: int) -> SSHForwarder:
        if host.strip("[]").lower() not in sessions.LOCAL_NAMES:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                f"{host}: only ports of the container itself; use localhost",
            )
        try:
            first = await first_process(self._entry.engine)
            target = await ports.connect(first, port)
            _, peer = await asyncio.get_running_loop().create_connection(SSHForwarder, sock=target)
        except (LadingError, OSError) as error:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, str(error)) from error
        return SSHForwarder(peer)


class _Session(asyncssh.SSHServerSession[bytes]):
    """One channel: input of the client goes to the command, its output to the client."""

    def __init__(self, entry: _Entry, refusals: Sequence[str] = ()) -> None:
        self._entry = entry
        self._refusals = refusals
        self._keys = sessions.DetachKeys(entry.keys)
        self._is_left = False
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._requested: tuple[str | None, str | None] = (None, None)
        self._terminal: str | None = None
        self._size = Size()
        self._input: deque[bytes] = deque()
        self._waiting = 0
        self._typed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._execution: Execution | None = None
        self._task: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()

    # Events of the client.

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        del term_modes
        self._terminal, self._size = term_type, Size(term_size[0] or 80, term_size[1] or 24)
        return True

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._requested = (command, None)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._requested = (None, subsystem)
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ssh session")

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        del datatype
        if self._is_left:
            return
        if self._terminal is not None:
            data, self._is_left = self._keys.feed(data)
        if data:
            # Empty data would mean the end of input.
            self._input.append(data)
        self._waiting += len(data)
        self._typed.set()
        if self._waiting > _HIGH and self._channel is not None:
            self._channel.pause_reading()
        # Ends the session but not the command; see _end.
        if self._is_left and self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        self._input.append(b"")
        self._typed.set()
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        del pixwidth, pixheight
        self._size = Size(width or 80, height or 24)
        if self._execution is not None:
            self._do(self._execution.resize(self._size))

    def signal_received(self, signal: str) -> None:
        self._send_signal(f"SIG{signal}")

    def break_received(self, msec: int) -> bool:
        del msec
        self._send_signal("SIGINT")
        return True

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    # Work of the session.

    async def _run(self) -> None:
        channel = self._channel
        assert channel is not None
        code = 1
        variables = _texts(channel.get_environment())
        told = [*self._refusals]
        if names := sessions.refused_variables(variables):
            told.append(sessions.variables_refusal(names))
        for sentence in told:
            channel.write(f"{sentence}\r\n".encode(), asyncssh.EXTENDED_DATA_STDERR)
        try:
            order = Exec(
                command=sessions.shell_command(*self._requested),
                environment=sessions.session_environment(variables, self._terminal),
                user=self._entry.user,
                terminal=self._size if self._terminal is not None else None,
            )
            await first_process(self._entry.engine)
            self._execution = execution = await self._entry.engine.execute(order)
            code = await self._converse(channel, execution)
        except LadingError as error:
            channel.write(f"{sessions.refusal(error)}\r\n".encode(), asyncssh.EXTENDED_DATA_STDERR)
        finally:
            await self._end(channel, code)

    async def _converse(
        self, channel: asyncssh.SSHServerChannel[bytes], execution: Execution
    ) -> int:
        feeding = asyncio.create_task(self._feed(channel, execution), name="ssh input")
        try:
            while True:
                stream, data = await execution.read()
                if not data:
                    break
                # The client reads slowly; the command then blocks on its pipe.
                await self._writable.wait()
                channel.write(data, asyncssh.EXTENDED_DATA_STDERR if stream == 2 else None)
            return await execution.wait()
        finally:
            await cancel_all(feeding)

    async def _feed(self, channel: asyncssh.SSHServerChannel[bytes], execution: Execution) -> None:
        while True:
            while self._input:
                data = self._input.popleft()
                await execution.write(data)
                self._waiting -= len(data)
                # Half of the limit: resuming at the limit itself would pause again at once.
                if self._waiting <= _HIGH // 2:
                    channel.resume_reading()
            self._typed.clear()
            await self._typed.wait()

    async def _end(self, channel: asyncssh.SSHServerChannel[bytes], code: int) -> None:
        if not channel.is_closing():
            # Leaving with the detach keys is a success.
            channel.exit(0 if self._is_left else code)
        for task in self._beside:
            task.cancel()
        if self._execution is not None and self._is_left:
            self._entry.leave(self._execution, b"".join(self._input))
        elif self._execution is not None:
            # Shielded: the processes of a session must end even when the session is cancelled.
            await asyncio.shield(asyncio.ensure_future(self._execution.close()))

    def _send_signal(self, name: str) -> None:
        number = getattr(signal, name, None)
        if self._execution is not None and isinstance(number, signal.Signals):
            self._do(self._execution.signal(number))

    def _do(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name="ssh request")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)


def _texts(variables: Any) -> dict[str, str]:
    texts = {}
    for name, value in dict(variables).items():
        # Variables that are not UTF-8 are left out.
        with contextlib.suppress(UnicodeDecodeError, AttributeError):
            texts[_text(name)] = _text(value)
    return texts


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
