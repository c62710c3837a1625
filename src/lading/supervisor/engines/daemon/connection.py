"""The connection of an engine to its daemon, and the daemon's faults as errors of a container."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from lading.core.errors import ExecutionError, Failure
from lading.net.docker_api import learn_version
from lading.supervisor.engines.refusals import image_refusal, machine_fault

NOT_FOUND = 404
"""Status of the API for a container or an image that is not there."""
NO_CONNECTION = 900
"""Status of aiodocker's own error when it cannot connect."""


class DaemonConnection:
    """A connection to the Docker API at a Unix socket; `name` is the daemon's in messages."""

    def __init__(self, name: str, socket: str) -> None:
        self.name, self._socket = name, socket
        self._docker: aiodocker.Docker | None = None

    async def open(self) -> aiodocker.Docker:
        """The client of the daemon, connected once. Raises aiohttp.ClientError, TimeoutError."""
        if self._docker is None:
            self._docker = aiodocker.Docker(url=f"unix://{self._socket}")
        await learn_version(self._docker)
        return self._docker

    async def close(self) -> None:
        """Close the connection, if there is one; `open` makes a new one."""
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()

    @contextlib.contextmanager
    def faults(
        self, action: str, cause: Callable[[str], Failure] = machine_fault
    ) -> Iterator[None]:
        """Raise ExecutionError for faults of the daemon, and of the way to it, inside the context.

        `action` says in the message what failed; `cause` tells the failure from the message.
        """
        try:
            yield
        except DockerError as error:
            if error.status == NO_CONNECTION:
                raise ExecutionError(
                    f"{self.name} {action}: no answer from {self._socket}; is the daemon running?",
                    Failure.NODE,
                ) from error
            message = f"{self.name} {action}: {error.message}"
            raise image_refusal(message) or ExecutionError(message, cause(message)) from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ExecutionError(
                f"{self.name} {action}: no answer from {self._socket} ({error});"
                " is the daemon running?",
                Failure.NODE,
            ) from error
