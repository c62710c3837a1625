"""Containers that one engine object has started and another one goes on with.

An engine that can do so implements `AdoptingEngine` beside `Engine`; both objects belong to
different processes, of which the first has ended.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from lading.supervisor import linux

PROCESS: Final = "process"
"""Name of the pidfd of the process that runs the container."""
LEASE: Final = "image"
"""Name of the descriptor that keeps the layers of the image."""
ID_LOCK, ID_NAMESPACE = "ids", "id namespace"
"""Names of the descriptors of the range of user ids."""


class RunningContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container whose command runs, as another engine object needs it."""

    pid: int
    """The process that runs it."""
    config: dict[str, Any]
    """Its OCI configuration."""
    root_directory: str
    """Its root file system on this machine, in the mount namespace of its supervisor."""
    first_id: int | None = None
    """The first of its range of user ids; None without a user namespace."""
    sampled_ram: int = 0
    """Bytes that its memory may have by samples, where no control group limits it; 0: none."""


@runtime_checkable
class AdoptingEngine(Protocol):
    """The part of an engine that lets another object of its class go on with a container."""

    def running(self) -> tuple[RunningContainer, dict[str, int]] | None:
        """The container, and the descriptors that another process must keep open for it, by name;
        the engine owns them. None when it does not run, or cannot be adopted.
        """

    def adopt(self, container: RunningContainer, descriptors: Mapping[str, int]) -> None:
        """Go on with a container, in the mount namespace in which it was made. Then `run` waits
        for its end. The descriptors, with `PROCESS` among them, belong to the engine.
        """


class AdoptedProcess:
    """A process that is no child of this one. `read_code` reads its exit code, None when it left
    none: then it was killed.
    """

    def __init__(self, pid: int, descriptor: int, read_code: Callable[[], int | None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Exit code as `subprocess.Popen` has it; None before its end was seen."""
        self._descriptor = descriptor
        self._read_code = read_code

    def poll(self) -> int | None:
        """Look whether it has ended; return the exit code."""
        return self._look(0)

    def wait(self) -> int:
        """Block until it has ended; return the exit code."""
        code = self._look(None)
        return -signal.SIGKILL if code is None else code

    async def ended(self) -> None:
        """Wait for its end."""
        if self.returncode is None:
            await linux.readable(self._descriptor)

    def _look(self, milliseconds: int | None) -> int | None:
        if self.returncode is None:
            ending = select.poll()
            ending.register(self._descriptor, select.POLLIN)
            if ending.poll(milliseconds):
                code = self._read_code()
                self.returncode = -signal.SIGKILL if code is None else code
                os.close(self._descriptor)
        return self.returncode


def read_root(container: RunningContainer) -> Path | None:
    """The root directory of a container, where it has one."""
    return Path(container.root_directory) if container.root_directory else None
