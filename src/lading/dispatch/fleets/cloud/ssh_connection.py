"""One multiplexed ssh connection to a VM for commands with time limits; the host key is pinned.

Clouds give VMs random host keys, so the first server that answers is trusted only after it has
proved that it knows the secret with which the VM was created (docs/spec/cloud, section Reaching an
instance). Nothing else is sent before that; afterwards only its key is accepted.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import asyncssh

from lading.core.errors import Invalid, Unavailable
from lading.process.concurrency import cancel_all

SECRET_PATH = "/var/run/arvados-instance-secret"
# Seconds, and how often no answer may come: a dead connection is noticed within 40 s.
_KEEPALIVE, _KEEPALIVE_MISSES = 10.0, 3
# Bytes that are read of a file at a time: eight packets of ssh.
_PIECE = 1 << 18


class Unverified(Unavailable):
    """The VM is not the one that was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """Address and credentials of an ssh server. `pinned` is the key of the host once it is known,
    in OpenSSH's form.
    """

    address: str
    port: int
    user: str
    key: asyncssh.SSHKey = field(repr=False)
    pinned: str = ""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command."""

    code: int
    out: bytes
    err: bytes

    @property
    def words(self) -> str:
        """The last line of the command's output."""
        lines = (self.err.strip() or self.out.strip()).decode(errors="replace").splitlines()
        return lines[-1][:300] if lines else ""


def read_key(value: str) -> asyncssh.SSHKey:
    """A private key from PEM, or from the file of a file:// URL. Raises Invalid."""
    try:
        data = (
            Path(value.removeprefix("file://")).read_text()
            if value.startswith("file://")
            else value
        )
        return asyncssh.import_private_key(data)
    except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        shown = value if value.startswith("file://") else "a text"
        raise Invalid(
            f"configuration: Containers.DispatchPrivateKey: {shown} is no private key ({error});"
            " write one in PEM without a passphrase, or file:///PATH of one"
        ) from error


def keep_key(path: Path) -> asyncssh.SSHKey:
    """The key in a file, made when there is none."""
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="lading dispatcher")
        path.parent.mkdir(parents=True, exist_ok=True)
        # A key that is written half must not be read after a crash: written beside, then renamed.
        # The mode is set before the content is there.
        part = path.with_name(f"{path.name}~")
        part.touch(mode=0o600)
        part.write_bytes(key.export_private_key())
        part.replace(path)
    return read_key(f"file://{path}")


class _Client(asyncssh.SSHClient):
    """Accepts the pinned host key; without one, the first key."""

    def __init__(self, pinned: str) -> None:
        self._pinned = pinned

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Whether this is the host."""
        del host, addr, port
        return not self._pinned or hmac.compare_digest(self._pinned, public_text(key))


def public_text(key: asyncssh.SSHKey) -> str:
    """Kind and body of a public key in OpenSSH's form, without its comment."""
    return " ".join(key.export_public_key("openssh").decode().split()[:2])


class Shell:
    """A connection; use as `async with`."""

    def __init__(self, target: SshAddress, *, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._connection: asyncssh.SSHClientConnection | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises Unavailable, Unverified when the host has another key than the pinned
        one.
        """
        target = self._target
        try:
            async with asyncio.timeout(self._timeout):
                self._connection = await asyncssh.connect(
                    target.address,
                    target.port,
                    username=target.user,
                    client_keys=[target.key],
                    client_factory=lambda: _Client(target.pinned),
                    # No known_hosts, ssh_config or agent of this user: the host key is judged by
                    # `_Client`, and only the dispatcher's key is shown to a VM.
                    known_hosts=([], [], []),
                    config=None,
                    agent_path=None,
                    keepalive_interval=_KEEPALIVE,
                    keepalive_count_max=_KEEPALIVE_MISSES,
                )
        except asyncssh.HostKeyNotVerifiable as error:
            raise Unverified(
                f"{target.address}: its ssh host key is not the one it had before"
            ) from error
        except asyncssh.PermissionDenied as error:
            raise Unavailable(
                f"{target.address}: ssh does not let {target.user} in"
                " with the key of Containers.DispatchPrivateKey"
            ) from error
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise Unavailable(f"{target.address}: no ssh connection: {_why(error)}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
            await connection.wait_closed()

    @property
    def host_key(self) -> str:
        """The key of the host that answered."""
        assert self._connection is not None
        key = self._connection.get_server_host_key()
        return public_text(key) if key is not None else ""

    async def verify(self, secret: str, *, path: str = SECRET_PATH) -> None:
        """Verify that the VM knows the secret. Raises Unavailable while it has none yet, Unverified
        for another one.
        """
        done = await self.run(f"{self.sudo}cat {path}")
        if done.code:
            raise Unavailable(
                f"{self._target.address}: its secret cannot be read yet: {done.words}"
            )
        # In constant time: a host that is not ours must learn nothing of the secret.
        if not hmac.compare_digest(done.out.strip(), secret.encode()):
            raise Unverified(
                f"{self._target.address}: it does not know the secret that the instance was made "
                "with"
            )

    @property
    def sudo(self) -> str:
        """Prefix of a command that needs root."""
        # -n: sudo must not wait for a password.
        return "" if self._target.user == "root" else "sudo -n "

    async def run(
        self, command: str, *, data: Path | None = None, timeout: float | None = None
    ) -> CommandResult:
        """Run a command; `data` is a file for its standard input. Raises Unavailable."""
        try:
            async with asyncio.timeout(timeout or self._timeout):
                return await self._run(command, data)
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise Unavailable(
                f"{self._target.address}: {_why(error)} at: {command[:60]}"
            ) from error

    async def _run(self, command: str, data: Path | None) -> CommandResult:
        assert self._connection is not None
        process = await self._connection.create_process(command, encoding=None)
        sending = asyncio.create_task(_send(process, data), name="input")
        try:
            out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
            await process.wait_closed()
        finally:
            # Without waiting for the other side: it may be gone without a word.
            process.close()
            await cancel_all(sending)
        code = process.exit_status
        return CommandResult(255 if code is None else code, bytes(out or b""), bytes(err or b""))

    async def open(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command that keeps running. Raises Unavailable."""
        assert self._connection is not None
        try:
            async with asyncio.timeout(self._timeout):
                return await self._connection.create_process(command, encoding=None)
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise Unavailable(
                f"{self._target.address}: {_why(error)} at: {command[:60]}"
            ) from error

    def abort(self) -> None:
        """Drop the connection with all that runs over it, without a word. Idempotent."""
        if self._connection is not None:
            self._connection.abort()


async def _send(process: asyncssh.SSHClientProcess[bytes], path: Path | None) -> None:
    if path is not None:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                process.stdin.write(piece)
                await process.stdin.drain()
    process.stdin.write_eof()


def _why(error: BaseException) -> str:
    return (
        "no answer in time"
        if isinstance(error, TimeoutError)
        else str(error) or type(error).__name__
    )
