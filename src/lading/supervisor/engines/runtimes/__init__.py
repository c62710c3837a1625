"""The program of this machine that makes, keeps and ends a container of the native engine.

The engine has prepared the root, the mounts, the control group and the configuration; it calls
`prepare`, `describe`, `start` in this order. The container waits at a gate until `open_gate`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lading.supervisor.engines import Bind, ContainerSpec, Exec, Execution
from lading.supervisor.engines.bundle import OPEN_LINE
from lading.supervisor.engines.user_namespace import UserNamespace


class Prepared(msgspec.Struct, frozen=True):
    """Parts of the configuration that the runtime needs in a container."""

    gate: str = ""
    """Path from which the container's hook reads the start line; "": it has none."""
    arguments: tuple[str, ...] = ()
    """Arguments of the first process before those of the command."""
    binds: tuple[Bind, ...] = ()
    """Mounts of files of the machine."""
    own_binds: tuple[Bind, ...] = ()
    """Mounts of files that belong to the container's root already."""


class Runtime(Protocol):
    """Makes and keeps the container of one run directory."""

    name: str
    """The program, for messages."""

    async def version(self) -> str:
        """The first line that the program says of itself. Raises ExecutionError(NODE)."""

    def prepare(self, state: Path, namespace: UserNamespace | None, notes: list[str]) -> Prepared:
        """Make the gate, and what the first process needs. `state`: directory for the files of the
        program. Called again after `close_gate`, with another namespace. Raises OSError.
        """

    def describe(self, config: dict[str, Any], bundle: Path) -> None:
        """Take the configuration of a container that has its root in a bundle. Raises OSError."""

    def start(self, spec: ContainerSpec, notice: str) -> subprocess.Popen[bytes]:
        """Make the container up to the gate; `notice` is that of `bundle.Bundle`. Raises OSError,
        ExecutionError.
        """

    def open_gate(self) -> None:
        """Let the command start."""

    def close_gate(self) -> None:
        """Close the gate: what still waits at it ends. Idempotent."""

    def check_started(self, code: int) -> None:
        """Raise ExecutionError if the command was never started. `code`: that of the program."""

    def first(self) -> int | None:
        """The container's first process, when it can be entered."""

    async def stop(self, find_pid: Callable[[], int | None], *, grace: float) -> None:
        """Let each process of the container end, in `grace` seconds at most. `find_pid`: the
        process of the program, None when it has ended.
        """

    async def execute(self, order: Exec) -> Execution:
        """Run a command beside the container's own. Raises ExecutionError."""

    async def hold(self) -> None:
        """Make the container again on the same root, without its command. Raises ExecutionError."""

    async def end(self) -> None:
        """End what the control group does not have. Raises ExecutionError."""

    async def remove(self) -> None:
        """Remove what belongs to an ended container. Idempotent."""


class StartGate:
    """A pipe at which a container waits for a line; the end of the pipe starts nothing."""

    def __init__(self) -> None:
        self.reading = self.writing = -1

    def make(self) -> str:
        """Make the pipe; the path of its reading end while that is open here. Raises OSError."""
        self.reading, self.writing = os.pipe2(os.O_CLOEXEC)
        return f"/proc/{os.getpid()}/fd/{self.reading}"

    def open(self) -> None:
        """Write the line."""
        # The reader has ended already; its message is read later.
        with suppress(BrokenPipeError):
            os.write(self.writing, OPEN_LINE)

    def close_reading(self) -> None:
        """Close the reading end: the pipe has ended when its only reader has."""
        if self.reading >= 0:
            os.close(self.reading)
        self.reading = -1

    def close(self) -> None:
        """Close both ends. Idempotent."""
        self.close_reading()
        if self.writing >= 0:
            os.close(self.writing)
        self.writing = -1
