"""A real ssh server in this process: runs commands as this user, knows a secret, lets one key
in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncssh

from lading.dispatch.fleets.cloud.ssh_connection import SshAddress


@dataclass
class Server:
    """Where it is. `answers` replace commands that begin so: exit code and output."""

    target: SshAddress
    host_key: asyncssh.SSHKey
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    async def handle(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = process.command or ""
        self.ran.append(command)
        for start, (code, out) in self.answers.items():
            if start in command:
                process.stdout.write(out.encode())
                process.exit(code)
                return
        child = await asyncio.create_subprocess_shell(
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        feeding = asyncio.create_task(_feed(process, child.stdin))
        try:
            await asyncio.gather(
                _pass_on(child.stdout, process.stdout), _pass_on(child.stderr, process.stderr)
            )
            process.exit(await child.wait())
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            # Whatever the shell has started ends with its input.
            child.stdin.close()
            if child.returncode is None:
                child.kill()
                await child.wait()


async def _pass_on(out: asyncio.StreamReader, to: asyncssh.SSHWriter[bytes]) -> None:
    while piece := await out.read(1 << 16):
        to.write(piece)


async def _feed(process: asyncssh.SSHServerProcess[bytes], to: asyncio.StreamWriter) -> None:
    while piece := await process.stdin.read(1 << 16):
        to.write(piece)
        await to.drain()
    to.close()


@asynccontextmanager
async def ssh_server(
    *, host_key: asyncssh.SSHKey | None = None, port: int = 0
) -> AsyncIterator[Server]:
    """A server, for one client key."""
    own = host_key or asyncssh.generate_private_key("ssh-ed25519")
    client = asyncssh.generate_private_key("ssh-ed25519")
    allowed = asyncssh.import_authorized_keys(client.export_public_key().decode())
    made: list[Server] = []

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await made[0].handle(process)

    listener = await asyncssh.listen(
        "127.0.0.1", port, server_host_keys=[own], authorized_client_keys=allowed,
        process_factory=handle, encoding=None, allow_scp=False,
    )  # fmt: skip
    made.append(
        Server(
            SshAddress(address="127.0.0.1", port=listener.get_port(), user="root", key=client), own
        )
    )
    try:
        yield made[0]
    finally:
        listener.close()
        await listener.wait_closed()
