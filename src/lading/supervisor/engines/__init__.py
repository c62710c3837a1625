"""Container engines: one small protocol, found by entry point group `lading.engines`.

An engine object serves one container. The supervisor calls prepare, create, run in this order, and `remove` at the end
whatever happened. `remove` is also called by another process after a crash, on a fresh object made from the same
settings: it must find what was left by the settings alone. `check` is for whoever wants to know beforehand.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from lading.core.errors import ExecutionError, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine needs to find its things, also after a crash. Plain values: it is journalled."""

    container_uuid: str
    run_directory: str
    cache_directory: str
    docker_socket: str = "/var/run/docker.sock"
    cache_size: int = 20 << 30


@dataclass(frozen=True, slots=True)
class Bind:
    """A host file or directory that the container sees at `target`."""

    source: str
    target: str
    readonly: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to run. The image's settings fill what is empty here: entry point, environment, directory, user."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    """Empty: the image's own."""
    binds: tuple[Bind, ...] = ()
    """In the order in which they are made: parents first."""
    network: bool = False
    """The network of the host; false: none but loopback."""
    ram: int = 0
    """Bytes; 0 is no limit."""
    vcpus: int = 0
    stdin: int = -1
    """Descriptor the command reads; -1: empty input."""
    stdout: int = -1
    """Descriptor that gets the command's output; the caller keeps and closes its own copy."""
    stderr: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the command ended: `code` as a shell shows it (128 + signal when a signal ended it)."""

    code: int
    out_of_memory: bool = False


class ImageSource(Protocol):
    """An image as a collection holds it: one tar archive in docker-save layout."""

    @property
    def pdh(self) -> str:
        """The collection."""
        ...

    async def name(self) -> str:
        """`sha256:<hex>`, the image's id. Raises ExecutionError(IMAGE)."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The archive's bytes. Raises ExecutionError(IMAGE)."""
        ...


class Engine(Protocol):
    """Runs one container."""

    sees_private_mounts: bool
    """Whether the container can be given what is mounted in the supervisor's own mount namespace only."""

    notes: list[str]
    """Sentences for the container's log, there when `create` is done: limits that cannot be enforced here."""

    @property
    def pid(self) -> int | None:
        """A process in the container's cgroup on this machine while `run` is under way, else None."""
        ...

    async def check(self) -> str:
        """One line that names the engine and its version. Raises ExecutionError(NODE) when this machine cannot."""
        ...

    async def prepare(self, image: ImageSource) -> None:
        """Have the image ready to start. Raises ExecutionError."""
        ...

    async def create(self, spec: Spec) -> None:
        """Make the container, all but started. No user code runs. Raises ExecutionError."""
        ...

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Start the command and wait for its end. Raises ExecutionError when it cannot be started.

        When `stop` is set the command gets TERM, and KILL after `stop_grace` seconds; its end is then returned.
        """
        ...

    async def remove(self) -> None:
        """Undo everything: processes, cgroups, mounts, daemon objects. Idempotent; nothing there is no error."""
        ...


EngineFactory = Callable[[EngineSettings], Engine]
GROUP = "lading.engines"
AUTOMATIC = "auto"


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of this installation by name. Looking for them reads many files, so a warm parent does it once."""

    found: Mapping[str, EntryPoint]

    def make(self, name: str, settings: EngineSettings) -> Engine:
        """The engine called `name`; `auto` is native where this machine can run it, else docker.

        Raises ExecutionError(NODE) naming the engines there are.
        """
        name = choose_engine() if name == AUTOMATIC else name
        if name not in self.found:
            known = ", ".join(sorted(self.found)) or "none"
            raise ExecutionError(f"container engine {name!r} is not installed; there are: {known}", Failure.NODE)
        factory: EngineFactory = self.found[name].load()
        return factory(settings)

    def preload(self) -> None:
        """Import the engine that `auto` stands for, so that a process forked from this one need not."""
        chosen = self.found.get(choose_engine())
        if chosen is not None:
            chosen.load()


def find_engines() -> Engines:
    """What is registered in the entry point group `lading.engines`."""
    return Engines({one.name: one for one in entry_points(group=GROUP)})


def choose_engine() -> str:
    """What `auto` means on this machine."""
    return "native" if os.geteuid() == 0 and shutil.which("crun") else "docker"
