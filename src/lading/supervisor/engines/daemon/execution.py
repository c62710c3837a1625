"""A command beside the container's own, by the exec calls of the Docker API.

The daemon gives it the rights of the container's command: the same capabilities, no new privileges.
The API has no call to signal or end such a command, so that is done by its number on this machine,
where this process has permission.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

import aiohttp
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.execs import Exec as DockerExec
from aiodocker.stream import Stream

from lading.core.errors import ExecutionError, Failure
from lading.process.concurrency import finish_within
from lading.supervisor.engines import Exec, Execution, Size

# Seconds between HUP and KILL.
_GRACE = 2.0
# Seconds between two queries of the exit code.
_LOOK = 0.05


async def execute(order: Exec, container: DockerContainer) -> Execution:
    """Run it. Raises ExecutionError(USER) when it cannot be started."""
    try:
        docker_exec = await container.exec(
            list(order.command),
            stdin=True,
            tty=order.terminal is not None,
            user=order.user,
            environment=[f"{name}={value}" for name, value in order.environment],
        )
        execution = DockerExecution(docker_exec)
        await execution.start()
        if order.terminal is not None:
            await execution.resize(order.terminal)
    except DockerError as error:
        raise ExecutionError(
            f"the command cannot be started: {error.message}", Failure.USER
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ExecutionError(f"docker does not answer: {error}", Failure.NODE) from error
    return execution


async def hold(
    docker: Docker, container: DockerContainer, config: dict[str, Any], *, name: str, image: str
) -> DockerContainer:
    """Make a container of `config` from the present files of `container`, in its place; its shell
    only waits.

    `image` is the name of the image that is made for it. Raises ExecutionError, also when there is
    no /bin/sh.
    """
    # With an open standard input the shell's `read` never returns.
    waits = {
        "Image": image, "Entrypoint": ["/bin/sh", "-c", "read line"], "Cmd": [], "OpenStdin": True,
        "AttachStdin": False, "AttachStdout": False, "AttachStderr": False, "StdinOnce": False,
    }  # fmt: skip
    try:
        # podman requires a configuration, even an empty one.
        await container.commit(
            repository=image, tag="latest", pause=False, config={"Labels": {"lading": name}}
        )
        await container.delete(force=True, v=False)
        replacement = await docker.containers.create(config | waits, name=name)
        await replacement.start()
    except DockerError as error:
        raise ExecutionError(f"{name}: cannot be kept: {error.message}", Failure.NODE) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ExecutionError(f"docker does not answer: {error}", Failure.NODE) from error
    return replacement


class DockerExecution:
    """Implements `engines.Execution`."""

    def __init__(self, docker_exec: DockerExec) -> None:
        self._exec = docker_exec
        self._stream: Stream | None = None
        self._closed = False

    async def start(self) -> None:
        """Start it. Raises DockerError."""
        self._stream = self._exec.start(detach=False)
        # The stream connects with its first use.
        # aiodocker connects with the first use; a command that cannot start is reported here.
        await self._stream._init()

    async def write(self, data: bytes) -> None:
        """Give it input."""
        if self._stream is None or self._closed:
            return
        # The command has ended: its input is dropped.
        with contextlib.suppress(OSError, aiohttp.ClientError, RuntimeError):
            if data:
                await self._stream.write_in(data)
                return
            # aiodocker has no call to end the input, so the connection is half closed.
            response = self._stream._resp
            transport = response.connection.transport if response and response.connection else None
            if transport is not None and transport.can_write_eof():
                transport.write_eof()

    async def read(self) -> tuple[int, bytes]:
        """Next output."""
        if self._stream is None:
            return 1, b""
        # A broken stream counts as its end.
        with contextlib.suppress(OSError, aiohttp.ClientError):
            message = await self._stream.read_out()
            if message is not None:
                return (message.stream, message.data)
        return 1, b""

    async def resize(self, size: Size) -> None:
        """Set the size of the terminal."""
        # The command may have ended already.
        with contextlib.suppress(DockerError):
            await self._exec.resize(h=size.rows, w=size.columns)

    async def signal(self, number: int) -> None:
        """Send it a signal, if this process may."""
        pid = int((await self._look()).get("Pid") or 0)
        if pid > 1:
            # The process may have ended, or its number may belong to another process now.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    async def wait(self) -> int:
        """Its exit code."""
        # The daemon closes the stream a moment before it knows the exit code.
        while True:
            shown = await self._look()
            if not shown.get("Running"):
                return int(shown.get("ExitCode") or 0) if "ExitCode" in shown else 1
            await asyncio.sleep(_LOOK)

    async def close(self) -> None:
        """Close the connection."""
        if self._closed:
            return
        self._closed = True
        try:
            if (await self._look()).get("Running"):
                await self.signal(signal.SIGHUP)
                # The command did not end in time and is killed below.
                with contextlib.suppress(TimeoutError):
                    await finish_within(self.wait(), _GRACE)
                if (await self._look()).get("Running"):
                    await self.signal(signal.SIGKILL)
        finally:
            if self._stream is not None:
                await self._stream.close()

    async def _look(self) -> dict[str, Any]:
        """State of the command in the daemon; empty when the container is gone."""
        try:
            return dict(await self._exec.inspect())
        except (DockerError, aiohttp.ClientError, OSError):
            # Without an answer nothing is known about the command.
            return {}
