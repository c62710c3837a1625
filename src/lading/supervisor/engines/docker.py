"""The docker engine: a daemon with the Docker API on a Unix socket.

The container is named after its record, so that the clean-up after a crash finds it. Its image is
loaded from the image collection when the daemon does not have it, without the names in the archive;
nothing is ever pulled. Before a daemon's image is used for a collection, the collection is proven
to contain it (`image_archive`). Mounts are binds of host paths, so the daemon must run on this
machine.

Podman differs in little (`podman`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.stream import Stream
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import ImageConfig, check_command
from lading.process.concurrency import cancel_all, drain, finish_within
from lading.supervisor.engines import (
    Bind,
    ContainerSpec,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    ImageSource,
    check_disk,
    check_live,
    stopping,
)
from lading.supervisor.engines.bundle import MASKED
from lading.supervisor.engines.container_init import ContainerInit, open_init
from lading.supervisor.engines.daemon.configuration import make_config
from lading.supervisor.engines.daemon.connection import (
    NO_CONNECTION,
    NOT_FOUND,
    DaemonConnection,
)
from lading.supervisor.engines.daemon.gang import DockerGang, each, remove_gang, with_init
from lading.supervisor.engines.daemon.images import DaemonImage
from lading.supervisor.engines.gang import NO_WAY_OUT, GangFiles
from lading.supervisor.engines.limit_events import LimitEvents, events_at_end, reported_late
from lading.supervisor.engines.refusals import (
    start_refusal,
)
from lading.supervisor.engines.seccomp import make_profile

if TYPE_CHECKING:
    from lading.supervisor.engines.daemon.network import DockerNetwork

NETWORK_SUFFIX = "-network"
"""Suffix of the name of the container that holds the network of another (`daemon.network`)."""
KEPT = "lading-kept"
"""Repository of the images of kept containers."""
# Seconds for one call of the daemon.
_TIMEOUT = 60.0
# Seconds to receive the rest of the output after the end of the command.
_DRAIN = 300.0
# Seconds to receive the output of a command after its stop signal.
_STOP_DRAIN = 2.0
# Bytes read at a time.
_CHUNK = 1 << 16
# Words of the daemons' messages about the command itself.
_COMMAND = ("exec", "chdir", "no such file")


@dataclass(frozen=True, slots=True)
class DockerDaemon:
    """A daemon and its differences.

    `nvidia`: accepts numbers of NVIDIA GPUs. `reads_options`: takes security options as podman's
    command line does, a seccomp profile by its path, and either no limits of processes or those of
    files and processes too; otherwise as Docker's API does, a profile by its content.
    `makes_early`: makes the first process before the start.
    """

    name: str
    socket: str
    nvidia: bool = True
    reads_options: bool = False
    makes_early: bool = False


class DockerEngine:
    """One container run by a daemon with Docker's API; Docker itself unless another is named."""

    sees_private_mounts = False

    def __init__(self, settings: EngineSettings, daemon: DockerDaemon | None = None) -> None:
        self._uuid = settings.container_uuid
        self._daemon = daemon or DockerDaemon("docker", settings.docker_socket)
        self._name, self._socket = self._daemon.name, self._daemon.socket
        self.connection = DaemonConnection(self._name, self._socket)
        self._container: DockerContainer | None = None
        self._config: dict[str, Any] = {}
        self._gang: DockerGang | None = None
        self._network: DockerNetwork | None = None
        self._init: ContainerInit | None = None
        self._run = Path(settings.run_directory)
        self._streams = (-1, -1, -1)
        self._pid: int | None = None
        self._is_started = self._is_held = False
        self.notes: list[str] = []
        self._image = DaemonImage(self.connection, settings, self.notes)

    @property
    def pid(self) -> int | None:
        """The container's first process."""
        return self._pid

    async def check(self) -> str:
        """The daemon's version. Raises ExecutionError(NODE) when it does not answer, and when its
        disk is full.
        """
        with self.connection.faults("cannot be reached"):
            async with asyncio.timeout(_TIMEOUT):
                docker = await self.connection.open()
                version, about = await docker.version(), await docker.system.info()
        for directory in (str(about.get("DockerRootDir") or ""), self._run):
            check_disk(directory)
        return f"{self._name} {version['Version']} (API {version['ApiVersion']})"

    async def prepare(self, image: ImageSource) -> None:
        """Let the daemon load the image unless it has it. Raises ExecutionError."""
        await self._image.prepare(image)

    async def create(self, spec: ContainerSpec) -> None:
        """Create the container. Raises ExecutionError."""
        check_live(spec.binds, "the container would be made by docker or podman")
        if spec.spread is not None:
            raise ExecutionError(
                f"{self._uuid}: a gang over several machines needs the native engine", Failure.NODE
            )
        self.notes += [
            f"the hook {hook.path} is not run: {self._name} takes none" for hook in spec.hooks
        ]
        if spec.nodes > 1:
            if spec.network:
                self.notes.append(NO_WAY_OUT)
            config = with_init(self._configure(each(spec)), self._image.settings, self.notes)
            podman = self._name == "podman"
            hidden = not podman and os.geteuid() == 0
            self._gang = DockerGang(
                self._uuid, self._run, self._socket, enter=podman, hidden=hidden
            )
            with self.connection.faults("cannot create the containers"):
                await self._gang.create(spec, config)
            return
        with self.connection.faults("cannot create the container"):
            # Left by an earlier supervisor that was killed.
            await self._remove_container()
            joined = ""
            if spec.network:
                joined, binds = await self._connect(spec)
                spec = structs.replace(spec, binds=(*binds, *spec.binds))
            spec, command = self._completed(spec)
            self._config = self._configure(self._with_init(spec), joined=joined)
            if self._init is not None:
                self._config |= {"Entrypoint": list(self._init.arguments()), "Cmd": list(command)}
            self._container = await (await self.connection.open()).containers.create(
                self._config, name=self._uuid
            )
        streams = (spec.stdin, spec.stdout, spec.stderr)
        # Copies: the caller closes its own after create.
        self._streams = tuple(  # type: ignore[assignment]
            os.dup(descriptor) if descriptor >= 0 else -1 for descriptor in streams
        )

    def _completed(self, spec: ContainerSpec) -> tuple[ContainerSpec, tuple[str, ...]]:
        """Complete the specification from the image; with it the whole command, entry point first.
        Raises ExecutionError when neither names a command.
        """
        entrypoint, command = (
            tuple(self._image.settings.get(name) or ()) for name in ("Entrypoint", "Cmd")
        )
        check_command(
            ImageConfig(diff_ids=(), entrypoint=entrypoint, command=command), spec.command
        )
        whole = (*entrypoint, *(spec.command or command))
        # The daemon does not resolve relative directories.
        if spec.cwd in ("", ".") or spec.cwd.startswith("/"):
            return spec, whole
        base = posixpath.join("/", self._image.settings.get("WorkingDir") or "")
        return structs.replace(spec, cwd=posixpath.normpath(posixpath.join(base, spec.cwd))), whole

    def _with_init(self, spec: ContainerSpec) -> ContainerSpec:
        """The specification with the mounts of the first process, if this installation has it.
        Raises OSError.
        """
        init = self._init = open_init(self._run, self.notes)
        return structs.replace(spec, binds=(*spec.binds, *(init.binds if init else ())))

    async def _connect(self, spec: ContainerSpec) -> tuple[str, tuple[Bind, ...]]:
        """Make the namespace of its network; return how to join it, and the files about it."""
        # Imported here, because few containers have a network.
        from lading.supervisor.engines.daemon.network import DockerNetwork

        network = self._network = DockerNetwork(
            f"{self._uuid}{NETWORK_SUFFIX}", spec.reach, self._run
        )
        binds = network.binds()
        await network.open(await self.connection.open(), self._image.identity)
        return network.mode, binds

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Start it, move its streams, wait. Raises ExecutionError when it cannot be started."""
        if self._gang is not None:
            with self.connection.faults("cannot run the containers"):
                return await self._gang.run(stop=stop, stop_grace=stop_grace, end=self._remove_gang)
        container = self._container
        if container is None:
            raise ExecutionError(f"{self._uuid}: no container was created")
        with self.connection.faults("cannot run the container"):
            async with self._attached(container) as stream:
                # Podman has the process already; Docker makes it with the start.
                counting = await self._watch_limits(container) if self._daemon.makes_early else None
                moving = asyncio.create_task(self._move(stream), name="streams")
                stopping = asyncio.create_task(
                    self._stop_when(stop, stop_grace, container), name="stopper"
                )
                try:
                    await self._start(container)
                    self._is_started = True
                    counting = counting or await self._watch_limits(container)
                    # "next-exit" would miss a command that ended at once; after the start,
                    # "not-running" can only mean ended.
                    await container.wait(condition="not-running")
                    await drain(moving, stop, limit=_DRAIN, grace=_STOP_DRAIN)
                    events = await finish_within(counting, _TIMEOUT) if counting else LimitEvents()
                finally:
                    tasks = [moving, stopping, *([counting] if counting else [])]
                    await cancel_all(*tasks)
                    # The readers of the streams wait for their end.
                    self._close_streams()
            state = (await container.show())["State"]
            if self._init is not None and not stop.is_set():
                self._init.check_started(int(state["ExitCode"]))
            full = bool(state.get("OOMKilled") or events.kills)
            if not (full or stop.is_set() or self._daemon.makes_early):
                full = await reported_late(await self.connection.open(), state, self._uuid)
        return Exit(
            code=int(state["ExitCode"]),
            out_of_memory=full,
            refused_processes=events.refused,
        )

    async def abort(self) -> None:
        """Let the daemon kill the container, or each one of a gang."""
        # A container that survives is stopped by `run`.
        with (
            contextlib.suppress(ExecutionError),
            self.connection.faults("cannot kill the container"),
        ):
            if self._gang is not None:
                await self._remove_gang()
            elif self._container is not None:
                await self._container.kill(signal="SIGKILL")

    @property
    def first(self) -> int | None:
        """The container's first process, None before its start, also where podman has made it."""
        return self._pid if self._is_started or self._is_held else None

    async def execute(self, order: Exec) -> Execution:
        """Start it by the daemon. Raises ExecutionError(USER) when it cannot be started."""
        # Imported here, because few containers are ever entered.
        from lading.supervisor.engines.daemon import execution

        if self._container is None:
            raise ExecutionError(f"{self._uuid}: is not running")
        return await execution.execute(order, self._container)

    async def hold(self) -> None:
        """Let the daemon make the container again from its present files, with a shell that
        waits.
        """
        from lading.supervisor.engines.daemon import execution

        if self._container is None:
            raise ExecutionError(f"{self._uuid}: was not made")
        image = f"{KEPT}/{self._uuid}"
        self._is_held = True
        self._container = await execution.hold(
            await self.connection.open(),
            self._container,
            self._config,
            name=self._uuid,
            image=image,
        )
        self._pid = int((await self._container.show())["State"].get("Pid") or 0) or None

    async def kill(self) -> None:
        """Let the daemon end a held container. Any other has ended with its first process."""
        if self._is_held:
            with self.connection.faults("cannot end the container"):
                await self._delete(self._uuid)
            self._is_held, self._pid = False, None

    async def remove(self) -> None:
        """Remove the container, running or not, and everything that belongs to this object.
        Idempotent.
        """
        self._pid = None
        self._close_streams()
        if self._init is not None:
            self._init.close()
            self._init = None
        if self._network is not None:
            await self._network.close()
            self._network = None
        try:
            with self.connection.faults("cannot remove the container"):
                await self._remove_container()
                if GangFiles(self._run).plan.exists():
                    await self._remove_gang()
        finally:
            await self.connection.close()

    def _close_streams(self) -> None:
        streams, self._streams = self._streams, (-1, -1, -1)
        for descriptor in streams:
            if descriptor >= 0:
                os.close(descriptor)

    def _configure(self, spec: ContainerSpec, *, joined: str = "") -> dict[str, Any]:
        profile = msgspec.json.encode(make_profile(os.uname().machine))
        options = [f"seccomp={profile.decode()}"]
        if self._daemon.reads_options:
            path = self._run / "seccomp.json"
            path.write_bytes(profile)
            options = [f"seccomp={path}", f"mask={':'.join(MASKED)}"]
        return make_config(
            spec,
            image=self._image.identity,
            nvidia=self._daemon.nvidia,
            security=options,
            joined=joined,
            complete_limits=self._daemon.reads_options,
        )

    @contextlib.asynccontextmanager
    async def _attached(self, container: DockerContainer) -> AsyncIterator[Stream]:
        """The container's streams. Raises ExecutionError when it cannot be started."""
        stream = container.attach(stdin=self._streams[0] >= 0, stdout=True, stderr=True, logs=False)
        try:
            await stream.__aenter__()
        except DockerError as error:
            if error.status == NO_CONNECTION:
                raise
            raise start_failure(str(error.message)) from error
        async with stream:
            yield stream

    async def _watch_limits(self, container: DockerContainer) -> asyncio.Task[LimitEvents] | None:
        """Read the limit events of the container's first process; None when it has ended
        already.
        """
        self._pid = int((await container.show())["State"].get("Pid") or 0) or None
        return asyncio.create_task(events_at_end(self._pid), name="limits") if self._pid else None

    async def _start(self, container: DockerContainer) -> None:
        try:
            await container.start()
        except DockerError as error:
            raise start_failure(str(error.message)) from error

    async def _move(self, stream: Stream) -> None:
        """Move data between the container's streams and the descriptors of the spec."""
        feeding = asyncio.create_task(self._feed(stream), name="stdin")
        try:
            while (message := await stream.read_out()) is not None:
                target = self._streams[message.stream]
                if target >= 0:
                    # A full pipe would block the event loop.
                    await asyncio.to_thread(_write_all, target, message.data)
        finally:
            await cancel_all(feeding)

    async def _feed(self, stream: Stream) -> None:
        source = self._streams[0]
        if source < 0:
            return
        while data := await asyncio.to_thread(os.read, source, _CHUNK):
            await stream.write_in(data)
        await stream.write_in(b"")
        # aiodocker has no call to end the input, so the connection is half closed here.
        transport = (
            stream._resp.connection.transport if stream._resp and stream._resp.connection else None
        )
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    async def _stop_when(
        self, stop: asyncio.Event, grace: float, container: DockerContainer
    ) -> None:
        await stop.wait()

        async def send(name: str) -> None:
            # The container may have ended already.
            with contextlib.suppress(DockerError):
                await container.kill(signal=name)

        if self._init is not None:
            await stopping.stop_by_init(send, self._init.ready, grace=grace)
        else:
            await stopping.stop_through_daemon(send, lambda: self.first, grace=grace)

    async def _delete(self, name: str) -> None:
        try:
            await (
                (await self.connection.open()).containers.container(name).delete(force=True, v=True)
            )
        except DockerError as error:
            if error.status != NOT_FOUND:
                raise

    async def _remove_gang(self) -> None:
        await remove_gang(await self.connection.open(), self._uuid)

    async def _remove_container(self) -> None:
        # The second container holds the network of the first.
        for name in (self._uuid, f"{self._uuid}{NETWORK_SUFFIX}"):
            await self._delete(name)
        try:
            await (await self.connection.open()).images.delete(f"{KEPT}/{self._uuid}", force=True)
        except DockerError as error:
            if error.status != NOT_FOUND:
                raise


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def start_failure(message: str) -> ExecutionError:
    """The error for a daemon's refusal to start a container: the image's fault, the user's or the
    machine's.
    """
    return start_refusal(message, command=_COMMAND)
