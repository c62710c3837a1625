"""Container engines: one small protocol, found by entry point group `lading.engines`.

An engine object serves one container. The supervisor calls prepare, create, run in this order, and
`remove` at the end whatever happened. `remove` is also called by another process after a crash, on
a fresh object made from the same settings: it must find what was left by the settings alone.
`check` is for whoever wants to know beforehand.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from lading.core.errors import ExecutionError, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine needs to find its things, also after a crash. Plain values: it is
    journalled.
    """

    container_uuid: str
    run_directory: str
    cache_directory: str
    docker_socket: str = "/var/run/docker.sock"
    podman_socket: str = "/run/podman/podman.sock"
    cache_size: int = 20 << 30
    disk_reserve: int = -1
    """Bytes, and files, of the disk that are left to others
    (`core.containers.disk_space.reserve`).
    """
    disk_reserve_files: int = -1
    user_namespaces: str = "auto"
    """`engines.user_namespace.Policy`; other engines than the native one have nothing to do with
    it.
    """


@dataclass(frozen=True, slots=True)
class Bind:
    """A host file or directory that the container sees at `target`.

    `memory` is not None where the engine shows an empty file system in memory instead, of at most
    so many bytes (0: as many as the machine gives).
    """

    source: str
    target: str
    readonly: bool
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device file of the host that the container sees at `target`, and may read and write."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a container with a network reaches; everything else is refused
    (`lading.supervisor.network`).
    """

    api: tuple[str, ...] = ()
    """HOST:PORT of the API and of the services that it names, as the container knows them."""
    internet: bool = False
    """Whatever the host reaches by IP, but not the host, link-local addresses and metadata services
    of clouds.
    """
    refused: tuple[str, ...] = ()
    """Networks that the internet is taken to be without, such as 10.0.0.0/8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A gang on as many machines as it has nodes. `wire` is the number of the network that joins
    them.

    On the first machine `pipes` are descriptors to read from and write to the annexes on the
    others; on those `rank` is theirs, and `leader` the first machine's address.
    """

    wire: int
    pipes: tuple[tuple[int, int], ...] = ()
    rank: int = 0
    leader: str = ""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those of all pipes."""
        return tuple(end for pipe in self.pipes for end in pipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to run. The image's settings fill what is empty here: entry point, environment,
    directory, user.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    """Empty: the image's own."""
    binds: tuple[Bind, ...] = ()
    """In the order in which they are made: parents first."""
    network: bool = False
    """More network than its own loopback: what `reach` says. Never that of the host."""
    reach: Reach = Reach(internet=True)
    ram: int = 0
    """Bytes; 0 is no limit."""
    vcpus: int = 0
    processes: int = 0
    """Most processes and threads at a time; 0 is no limit."""
    devices: tuple[Device, ...] = ()
    cuda: tuple[int, ...] = ()
    """Numbers of the NVIDIA GPUs among the devices, for the tool of their maker that adds its
    driver's libraries.
    """
    stdin: int = -1
    """Descriptor the command reads; -1: empty input."""
    stdout: int = -1
    """Descriptor that gets the command's output; the caller keeps and closes its own copy."""
    stderr: int = -1
    nodes: int = 1
    """Containers to run it in, as one gang (`core.hpc.gang`); the amounts above are for all
    together.
    """
    spread: Spread | None = None
    """Where the other machines of the gang are, when there are any: then the amounts are those of
    one node.
    """
    launcher: str = ""
    """Which ranks of a gang are started."""
    rank_failure: str = ""
    """What a rank that fails means for the others."""
    output_path: str = ""
    """The directory that all ranks of a gang share, and that is kept."""
    notices: int = -1
    """Descriptor that gets lines on what the ranks of a gang do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the command ended: `code` as a shell shows it (128 + signal when a signal ended it)."""

    code: int
    out_of_memory: bool = False
    refused_processes: int = 0
    """How many new processes and threads the kernel refused because there were as many as there may
    be.
    """
    lost: str = ""
    """What ended that was not the command's own, and took the command with it."""
    notes: tuple[str, ...] = ()
    """Sentences for the container's log."""


def owners(devices: Iterable[Device]) -> tuple[int, ...]:
    """The groups other than root's that own device files: their members may use them. Raises
    OSError.
    """
    return tuple(sorted({Path(device.source).stat().st_gid for device in devices} - {0}))


@dataclass(frozen=True, slots=True)
class Size:
    """Of a terminal, in characters."""

    columns: int = 80
    rows: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """What to run beside the container's own command. It sees the container's environment, with
    this added.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    user: str = ""
    """As in a USER line of an image; empty: that of the container's own command."""
    terminal: Size | None = None
    """With a terminal there is one stream of output, and the end of input cannot be told from
    silence.
    """


class Execution(Protocol):
    """A command that runs beside the container's own, until it ends or is closed."""

    async def write(self, data: bytes) -> None:
        """Give it input; nothing is the end of input. What it does not take any more is dropped."""
        ...

    async def read(self) -> tuple[int, bytes]:
        """What it wrote next: to standard output (1) or error (2); b"" when there will be no
        more.
        """
        ...

    async def resize(self, size: Size) -> None:
        """Its terminal has another size now."""
        ...

    async def signal(self, number: int) -> None:
        """Send it a signal."""
        ...

    async def wait(self) -> int:
        """Its exit code, as a shell shows it."""
        ...

    async def close(self) -> None:
        """Hang up: what still runs of it gets HUP, and KILL when it stays. Idempotent."""
        ...


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
    """Whether the container can be given what is mounted in the supervisor's own mount namespace
    only.
    """

    notes: list[str]
    """Sentences for the container's log, there when `create` is done: limits that cannot be
    enforced here.
    """

    @property
    def pid(self) -> int | None:
        """A process in the container's cgroup on this machine while `run` is under way, else
        None.
        """
        ...

    async def check(self) -> str:
        """One line that names the engine and its version. Raises ExecutionError(NODE) when this
        machine cannot.
        """
        ...

    async def prepare(self, image: ImageSource) -> None:
        """Have the image ready to start. Raises ExecutionError."""
        ...

    async def create(self, spec: Spec) -> None:
        """Make the container, all but started. No user code runs. Raises ExecutionError."""
        ...

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Start the command and wait for its end. Raises ExecutionError when it cannot be started.

        When `stop` is set the command gets TERM, and KILL after `stop_grace` seconds; its end is
        then returned.
        """
        ...

    async def abort(self) -> None:
        """End the running command and all else in its container at once, without TERM; `run` then
        returns.

        For when it does harm by going on. Does nothing when the command does not run.
        """
        ...

    @property
    def first(self) -> int | None:
        """The container's first process, by its number on this machine, while `run` is under way,
        else None.
        """
        ...

    async def execute(self, order: Exec) -> Execution:
        """Run a command beside the container's own. Raises ExecutionError(USER) when it cannot be
        started.
        """
        ...

    async def hold(self) -> None:
        """When the command has ended: have its container again, with all its files and no command.

        Then `first` and `execute` go on, until `remove`. Raises ExecutionError.
        """
        ...

    async def kill(self) -> None:
        """When the command has ended: end every other process of the container, a held one's and
        those of sessions too.

        None runs and none can be started when this returns, so what they wrote can be read: nobody
        changes it. Takes no time where nothing is left, as is the rule. Raises ExecutionError when
        a process stays.
        """
        ...

    async def remove(self) -> None:
        """Undo everything: processes, cgroups, mounts, daemon objects. Idempotent; nothing there is
        no error.
        """
        ...


EngineFactory = Callable[[EngineSettings], Engine]
GROUP = "lading.engines"
AUTOMATIC = "auto"


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of this installation by name. Looking for them reads many files, so a warm parent
    does it once.
    """

    found: Mapping[str, EntryPoint]

    def make(self, name: str, settings: EngineSettings) -> Engine:
        """The engine called `name`; `auto` is native where this machine can run it, else docker.

        Raises ExecutionError(NODE) naming the engines there are.
        """
        name = choose_engine() if name == AUTOMATIC else name
        if name not in self.found:
            known = ", ".join(sorted(self.found)) or "none"
            raise ExecutionError(
                f"container engine {name!r} is not installed; there are: {known}", Failure.NODE
            )
        factory: EngineFactory = self.found[name].load()
        return factory(settings)

    def preload(self, name: str = AUTOMATIC) -> None:
        """Import the engine called `name`, if there is one, so that a process forked from this one
        need not.

        A factory may have a method `warm` that does what else can be done once for all of them.
        """
        chosen = self.found.get(choose_engine() if name == AUTOMATIC else name)
        if chosen is not None:
            warm = getattr(chosen.load(), "warm", None)
            if warm is not None:
                warm()


def find_engines() -> Engines:
    """What is registered in the entry point group `lading.engines`."""
    return Engines({one.name: one for one in entry_points(group=GROUP)})


def choose_engine() -> str:
    """What `auto` means on this machine."""
    return "native" if os.geteuid() == 0 and shutil.which("crun") else "docker"
