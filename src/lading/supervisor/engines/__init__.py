"""Container engines: one small protocol, found by the entry point group `lading.engines`.

The engines of this package are known without their entry points: to read those of all installed
packages takes some 35 ms, which a supervisor that starts for one container would wait for.

An engine object serves one container. The supervisor calls prepare, create, run in this order, and
`remove` at the end in any case. `remove` is also called by another process after a crash, on a new
object made from the same settings: it must find everything by the settings alone. `check` can be
called beforehand.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from lading.client.caches.disk_space import is_full
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.rootless import entered

GROUP = "lading.engines"
AUTOMATIC = "auto"
NATIVE = "native"
CRUN = "crun"
STARTER = Path(__file__).parent.parent / "starter" / "lading-start"
"""The program that starts containers of the native engine; crun does where it was not built."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings by which an engine finds its objects, also after a crash. Plain values, since they
    are journalled.
    """

    container_uuid: str
    run_directory: str
    cache_directory: str
    docker_socket: str = "/var/run/docker.sock"
    podman_socket: str = "/run/podman/podman.sock"
    cache_size: int = 20 << 30
    disk_reserve: int = -1
    """Bytes, and files, of the disk that stay free (`core.containers.disk_space.reserve`)."""
    disk_reserve_files: int = -1
    user_namespaces: str = "auto"
    """`engines.user_namespace.Policy`; used by the native engine only."""


class LiveSource(msgspec.Struct, frozen=True):
    """A file or directory of users of the machine, held open by `descriptor`. In the container the
    files of the user and the group with these ids belong to root. Files of `further_groups` belong
    to other groups there: the kernel lets nobody write a file whose group the container lacks.
    """

    descriptor: int
    user: int
    group: int
    further_groups: tuple[int, ...] = ()


class Bind(msgspec.Struct, frozen=True):
    """A host file or directory that the container sees at `target`.

    `memory` is not None when the engine makes an empty file system in memory instead, of at most so
    many bytes (0: no limit). With `live` the source is a path of this process alone, which no task
    can lead elsewhere.
    """

    source: str
    target: str
    readonly: bool
    memory: int | None = None
    live: LiveSource | None = None


def check_live(binds: Iterable[Bind], reason: str) -> None:
    """Raise ExecutionError(NODE) for a live mount, where ids of users cannot be mapped for a
    `reason`: the container's root would be that of the machine, among files of users.
    """
    for bind in binds:
        if bind.live is not None:
            raise ExecutionError(
                f"mounts[{bind.target}]: a live mount needs the native engine and a user namespace"
                f" of the container's own: {reason}",
                Failure.NODE,
            )


def check_disk(path: str | Path) -> None:
    """Raise ExecutionError(NODE) when the disk of a directory is full."""
    if is_full(path):
        raise ExecutionError(f"{path}: no space is left on its disk", Failure.NODE)


class Device(msgspec.Struct, frozen=True):
    """A device file of the host that the container sees at `target`, and may read and write."""

    source: str
    target: str


class EngineHook(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the machine that is run on the way to the container, at a `stage` of the OCI
    runtime specification; `arguments` begin with its name. A timeout is in seconds, 0: none.
    """

    stage: str
    path: str
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: int = 0


def ignore_fault(sentence: str) -> None:
    """Tell nobody of a fault of a network."""


class NetworkAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Destinations that a container with a network may reach; all others are refused
    (`lading.supervisor.network`).
    """

    api: tuple[str, ...] = ()
    """HOST:PORT of the API and of the services in its configuration, as seen from the container."""
    internet: bool = False
    """Every destination of the host except the host itself, link-local addresses and metadata
    services of clouds.
    """
    refused: tuple[str, ...] = ()
    """Networks that are excluded from the internet, such as 10.0.0.0/8."""
    on_fault: Callable[[str], None] = ignore_fault
    """Hears a sentence when a running container loses a destination."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A gang with one node on each machine. `wire` is the number of the network that joins them.

    On the first machine `pipes` are descriptors to read from and write to the remote ranks; on the
    other machines `rank` is the own rank, and `leader` the address of the first machine.
    """

    wire: int
    pipes: tuple[tuple[int, int], ...] = ()
    rank: int = 0
    leader: str = ""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors of all pipes."""
        return tuple(end for pipe in self.pipes for end in pipe)


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The command and its container. Values of the image replace empty ones: entry point,
    environment, directory, user.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    """Empty: the image's own."""
    binds: tuple[Bind, ...] = ()
    """In the order of mounting: parents first."""
    network: bool = False
    """More network than the container's own loopback interface: `reach`. Never the host's."""
    reach: NetworkAccess = NetworkAccess(internet=True)
    ram: int = 0
    """Bytes; 0 is no limit."""
    vcpus: int = 0
    processes: int = 0
    """Maximum of processes and threads at a time; 0 is no limit."""
    devices: tuple[Device, ...] = ()
    cuda: tuple[int, ...] = ()
    """Numbers of the NVIDIA GPUs among the devices, for NVIDIA's hook that adds the driver's
    libraries.
    """
    hooks: tuple[EngineHook, ...] = ()
    """Programs of the maker of a device; the native engine runs them, by crun."""
    stdin: int = -1
    """Descriptor the command reads; -1: empty input."""
    stdout: int = -1
    """Descriptor for the command's output; the caller keeps and closes its own copy."""
    stderr: int = -1
    nodes: int = 1
    """Number of containers of the gang (`core.hpc.gang`); the amounts above are for all
    together.
    """
    spread: Spread | None = None
    """The other machines of the gang, if any: then the amounts are for one node."""
    launcher: str = ""
    """The ranks of a gang that are started."""
    rank_failure: str = ""
    """Effect of a failed rank on the others."""
    stop_grace: float = 2.0
    """Seconds between TERM and KILL of a rank."""
    output_path: str = ""
    """The directory that all ranks of a gang share, and that becomes the output."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and paths of files that each rank of a gang gets a copy of, from its daemon."""
    notices: int = -1
    """Descriptor for lines about the ranks of a gang."""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """End of the command: `code` as a shell shows it (128 + signal when a signal ended it)."""

    code: int
    out_of_memory: bool = False
    sampled_memory: int = 0
    """Bytes of memory that a sample found, where the supervisor ended the container for them and
    not the kernel.
    """
    refused_processes: int = 0
    """Number of new processes and threads that the kernel refused because of the limit."""
    lost: str = ""
    """The process outside the command whose end took the command with it, or ""."""
    notes: tuple[str, ...] = ()
    """Sentences for the container's log."""


def owners(devices: Iterable[Device]) -> tuple[int, ...]:
    """Groups other than root's that own device files: their members may use them. Raises
    OSError.
    """
    # Never root's group: membership in it would open far more than the device.
    return tuple(sorted({Path(device.source).stat().st_gid for device in devices} - {0}))


class Size(msgspec.Struct, frozen=True):
    """Size of a terminal, in characters."""

    columns: int = 80
    rows: int = 24


class Exec(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run beside the container's own. It gets the container's environment with this
    one added.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    user: str = ""
    """In the form of a USER line of an image; empty: the user of the container's own command."""
    terminal: Size | None = None
    """With a terminal there is one stream of output, and no end of input."""


class Execution(Protocol):
    """A command that runs beside the container's own, until it ends or is closed."""

    async def write(self, data: bytes) -> None:
        """Write to its input; b"" ends the input. Data after its end is dropped."""

    async def read(self) -> tuple[int, bytes]:
        """Next output: stream 1 or 2 and data; b"" at the end."""

    async def resize(self, size: Size) -> None:
        """Change the size of its terminal."""

    async def signal(self, number: int) -> None:
        """Send it a signal."""

    async def wait(self) -> int:
        """Exit code as a shell shows it."""

    async def close(self) -> None:
        """Hang up: send HUP, and KILL when it does not end. Idempotent."""


class ImageSource(Protocol):
    """An image in a collection: one tar archive in docker-save layout."""

    @property
    def pdh(self) -> str:
        """Portable data hash of the collection."""

    async def name(self) -> str:
        """`sha256:<hex>`, the image's id. Raises ExecutionError(IMAGE)."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the archive. Raises ExecutionError(IMAGE)."""


class Engine(Protocol):
    """Runs one container."""

    sees_private_mounts: bool
    """Whether the container can be given mounts that exist in the supervisor's own mount namespace
    only.
    """

    notes: list[str]
    """Sentences for the container's log, complete after `create`: limits that cannot be enforced
    here.
    """

    @property
    def pid(self) -> int | None:
        """A process in the container's cgroup on this machine during `run`, else None."""

    async def check(self) -> str:
        """One line with the engine and its version. Raises ExecutionError(NODE) when it cannot run
        here: the machine of a failed container is then taken out of service.
        """

    async def prepare(self, image: ImageSource) -> None:
        """Make the image ready to start. Raises ExecutionError."""

    async def create(self, spec: ContainerSpec) -> None:
        """Make the container without starting it. No user code runs. Raises ExecutionError."""

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Start the command and wait for its end. Raises ExecutionError when it cannot be started.

        When `stop` is set the command gets TERM, and KILL after `stop_grace` seconds; its exit is
        then returned.
        """

    async def abort(self) -> None:
        """Kill the running command and everything in its container at once, without TERM; `run`
        then returns.

        For commands that do harm by continuing. Does nothing when the command does not run.
        """

    @property
    def first(self) -> int | None:
        """The container's first process, by its number on this machine, during `run`, else None.

        Once it is known, `execute` works.
        """

    async def execute(self, order: Exec) -> Execution:
        """Run a command beside the container's own. Raises ExecutionError(USER) when it cannot be
        started.
        """

    async def hold(self) -> None:
        """After the end of the command: make its container again, with all its files and no
        command.

        Then `first` and `execute` work, until `remove`. Raises ExecutionError.
        """

    async def kill(self) -> None:
        """After the end of the command: end every other process of the container, including those
        of a held one and of sessions.

        Afterwards none runs and none can be started, so that nobody changes the files while they
        are read. Quick when no process is left, as usual. Raises ExecutionError when a process
        cannot be killed.
        """

    async def remove(self) -> None:
        """Undo everything: processes, cgroups, mounts, objects of a daemon. Idempotent."""


def root_directory(engine: Engine) -> Path | None:
    """The root file system of an engine's container on this machine, after the end of its command
    and until `remove`; None where it cannot be read here, as a daemon has it.

    It is the attribute `root_directory` of the engine, which is optional and so no part of the
    protocol that other people's engines implement.
    """
    directory: Path | None = getattr(engine, "root_directory", None)
    return directory


def is_occupied(engine: Engine, path: str) -> bool:
    """Whether the image of a prepared engine may have anything at an absolute path but an empty
    directory. It is the method `is_occupied` of the engine, optional as `root_directory` is: True
    where the engine cannot tell.
    """
    known: Callable[[str], bool] | None = getattr(engine, "is_occupied", None)
    return known is None or known(path)


EngineFactory = Callable[[EngineSettings], Engine]
EngineMaker = Callable[[str, EngineSettings], Engine]
"""Makes the engine of a name."""


class EngineEntry(Protocol):
    """An engine that can be imported; `importlib.metadata.EntryPoint` is one."""

    def load(self) -> Any:
        """Import its factory."""


class OwnEngine(msgspec.Struct, frozen=True):
    """An engine of this package, by the module and the name of its factory there."""

    module: str
    factory: str

    def load(self) -> Any:
        """Import its factory."""
        return getattr(importlib.import_module(f"{__name__}.{self.module}"), self.factory)


OWN: Mapping[str, EngineEntry] = MappingProxyType(
    {
        "docker": OwnEngine("docker", "DockerEngine"),
        NATIVE: OwnEngine("native", "NativeEngine"),
        "native-crun": OwnEngine("native_crun", "CrunEngine"),
        "podman": OwnEngine("podman", "make_engine"),
    }
)
"""The engines of this package by name, as pyproject.toml registers them."""
ROOTLESS = OwnEngine("rootless_engine", "RootlessEngine")
"""The native engine of a process in the namespaces of an ordinary user."""


@functools.cache
def registered() -> Mapping[str, EngineEntry]:
    """The engines of the entry point group, of all installed packages. Reads many files, once."""
    # Imported here, because few supervisors need an engine of another package.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


class Engines(msgspec.Struct, frozen=True):
    """The engines of this installation by name. `others` are asked for a name that is not in
    `by_name`.
    """

    by_name: Mapping[str, EngineEntry]
    has_native: bool = False
    """Whether `auto` was the native engine when this was made: the search for its program takes
    0.1 ms, which no container needs to wait for.
    """
    others: Callable[[], Mapping[str, EngineEntry]] = dict

    def make(self, name: str, settings: EngineSettings) -> Engine:
        """Make the engine `name`; `auto` is native where this machine supports it, else docker.

        Raises ExecutionError(NODE) naming the available engines.
        """
        if name == AUTOMATIC:
            name = NATIVE if self.has_native else choose_engine()
        entry = self._find(name)
        if entry is None:
            known = ", ".join(sorted({**self.others(), **self.by_name})) or "none"
            raise ExecutionError(
                f"container engine {name!r} is not installed; there are: {known}", Failure.NODE
            )
        factory: EngineFactory = entry.load()
        return factory(settings)

    def preload(self, name: str = AUTOMATIC) -> None:
        """Import the engine `name`, if it exists, for processes forked from this one.

        A factory may have a method `warm` for other preparations that all forks share.
        """
        chosen = self._find(choose_engine() if name == AUTOMATIC else name)
        if chosen is not None:
            # Optional, and so no part of the protocol that other people's engines implement.
            warm = getattr(chosen.load(), "warm", None)
            if warm is not None:
                warm()

    def _find(self, name: str) -> EngineEntry | None:
        if name == NATIVE and entered() is not None:
            return ROOTLESS
        return self.by_name.get(name) or self.others().get(name)


def command_failure(message: str) -> ExecutionError:
    """The error for a command that was never started, by the `message` of the engine."""
    reason = message.lower()
    if "chdir" in reason:
        advice = "is its working directory (--workdir) one of the image or of a mount?"
    elif "permission denied" in reason:
        advice = "is it an executable program, or a script whose interpreter is executable?"
    elif "exec format error" in reason:
        advice = (
            "is it a program for this processor, or a script that begins with the line of its "
            "interpreter, as #!/bin/sh?"
        )
    elif "argument list too long" in reason:
        advice = (
            "Linux takes 128 KiB in one argument or variable, and some 2 MiB in all: give long "
            "texts in a file (--input)"
        )
    else:
        advice = "is the program, or the interpreter it names, in the image?"
    return ExecutionError(f"the command cannot be started: {message}; {advice}", Failure.USER)


def find_engines() -> Engines:
    """The engines of this package, and of the entry point group `lading.engines`."""
    return Engines(OWN, has_native=choose_engine() == NATIVE, others=registered)


def choose_engine() -> str:
    """The engine for `auto` on this machine."""
    # Native needs root for mounts: that of the machine, or of the namespaces of an ordinary user.
    return NATIVE if os.geteuid() == 0 and has_native_program() else "docker"


def has_native_program() -> bool:
    """Whether this machine has a program that starts containers of the native engine."""
    return os.access(STARTER, os.X_OK) or shutil.which(CRUN) is not None
