"""The docker engine: any daemon that speaks the Docker API (podman's does) on a Unix socket.

The container is named after its record, so that whoever cleans up after a crash finds it. Its image is loaded from
the image collection when the daemon does not have it; nothing is ever pulled. Mounts are binds of host paths, so the
daemon must run on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.stream import Stream

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.cgroup import LEAST_RAM, MOST_PROCESSES, PERIOD
from lading.supervisor.engines import Bind, EngineSettings, Exit, ImageSource, Spec
from lading.supervisor.engines.bundle import CAPABILITIES, HOSTNAME

_TIMEOUT = 60.0
_DRAIN = 300.0
_CHUNK = 1 << 16
_NOT_FOUND = 404
_NO_CONNECTION = 900
"""aiodocker's own status."""


class DockerEngine:
    """One container run by a Docker daemon."""

    sees_private_mounts = False

    def __init__(self, settings: EngineSettings) -> None:
        self._uuid = settings.container_uuid
        self._socket = settings.docker_socket
        self._docker: aiodocker.Docker | None = None
        self._container: DockerContainer | None = None
        self._image = ""
        self._streams = (-1, -1, -1)
        self._pid: int | None = None
        self.notes: list[str] = []

    @property
    def pid(self) -> int | None:
        """The container's first process."""
        return self._pid

    async def check(self) -> str:
        """The daemon's version. Raises ExecutionError(NODE) when it does not answer."""
        with self._faults("cannot be reached"):
            version = await asyncio.wait_for(self._client().version(), _TIMEOUT)
        return f"docker {version['Version']} (API {version['ApiVersion']})"

    async def prepare(self, image: ImageSource) -> None:
        """Have the daemon load the image unless it has it. Raises ExecutionError."""
        self._image = await image.name()
        if await self._has_image():
            return
        with self._faults("cannot load the image", Failure.IMAGE):
            async for line in self._client().images.import_image(_chunks(image), stream=True):
                if "error" in line:
                    raise ExecutionError(f"docker cannot load image {image.pdh}: {line['error']}", Failure.IMAGE)
        if not await self._has_image():
            raise ExecutionError(
                f"image {image.pdh}: docker loaded it under another id than {self._image}", Failure.IMAGE
            )

    async def create(self, spec: Spec) -> None:
        """Create the container. Raises ExecutionError."""
        with self._faults("cannot create the container"):
            await self._remove_container()
            config = make_config(spec, image=self._image)
            self._container = await self._client().containers.create(config, name=self._uuid)
        streams = (spec.stdin, spec.stdout, spec.stderr)
        self._streams = tuple(os.dup(one) if one >= 0 else -1 for one in streams)  # type: ignore[assignment]

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Start it, move its streams, wait. Raises ExecutionError when it cannot be started."""
        container = self._container
        if container is None:
            raise ExecutionError(f"{self._uuid}: no container was created")
        with self._faults("cannot run the container"):
            attached = container.attach(stdin=self._streams[0] >= 0, stdout=True, stderr=True, logs=False)
            async with attached as stream:
                ending = asyncio.create_task(container.wait(condition="next-exit"), name="wait")
                moving = asyncio.create_task(self._move(stream), name="streams")
                stopping = asyncio.create_task(self._stop_when(stop, stop_grace, container), name="stopper")
                try:
                    await self._start(container)
                    await ending
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(moving, _DRAIN)
                finally:
                    for task in (ending, moving, stopping):
                        task.cancel()
                    await asyncio.gather(ending, moving, stopping, return_exceptions=True)
            state = (await container.show())["State"]
        return Exit(code=int(state["ExitCode"]), out_of_memory=bool(state.get("OOMKilled")))

    async def remove(self) -> None:
        """Remove the container, running or not, and what belongs to this object. Idempotent."""
        self._pid = None
        streams, self._streams = self._streams, (-1, -1, -1)
        for descriptor in streams:
            if descriptor >= 0:
                os.close(descriptor)
        try:
            with self._faults("cannot remove the container"):
                await self._remove_container()
        finally:
            docker, self._docker = self._docker, None
            if docker is not None:
                await docker.close()

    def _client(self) -> aiodocker.Docker:
        if self._docker is None:
            self._docker = aiodocker.Docker(url=f"unix://{self._socket}")
        return self._docker

    @contextlib.contextmanager
    def _faults(self, what: str, failure: Failure = Failure.NODE) -> Any:
        try:
            yield
        except DockerError as error:
            if error.status == _NO_CONNECTION:
                raise ExecutionError(
                    f"docker {what}: no answer from {self._socket}; is the daemon running?", Failure.NODE
                ) from error
            raise ExecutionError(f"docker {what}: {error.message}", failure) from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ExecutionError(
                f"docker {what}: no answer from {self._socket} ({error}); is the daemon running?", Failure.NODE
            ) from error

    async def _has_image(self) -> bool:
        with self._faults("cannot look for the image"):
            try:
                await self._client().images.inspect(self._image)
            except DockerError as error:
                if error.status != _NOT_FOUND:
                    raise
                return False
        return True

    async def _start(self, container: DockerContainer) -> None:
        try:
            await container.start()
        except DockerError as error:
            raise _start_failure(str(error.message)) from error
        self._pid = int((await container.show())["State"].get("Pid") or 0) or None

    async def _move(self, stream: Stream) -> None:
        """Everything between the container's streams and the descriptors of the spec."""
        feeding = asyncio.create_task(self._feed(stream), name="stdin")
        try:
            while (message := await stream.read_out()) is not None:
                target = self._streams[message.stream]
                if target >= 0:
                    await asyncio.to_thread(_write_all, target, message.data)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(self, stream: Stream) -> None:
        source = self._streams[0]
        if source < 0:
            return
        while data := await asyncio.to_thread(os.read, source, _CHUNK):
            await stream.write_in(data)
        await stream.write_in(b"")
        transport = stream._resp.connection.transport if stream._resp and stream._resp.connection else None
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    async def _stop_when(self, stop: asyncio.Event, grace: float, container: DockerContainer) -> None:
        await stop.wait()
        for name in ("SIGTERM", "SIGKILL"):
            with contextlib.suppress(DockerError):
                await container.kill(signal=name)
            await asyncio.sleep(grace)

    async def _remove_container(self) -> None:
        try:
            await self._client().containers.container(self._uuid).delete(force=True, v=True)
        except DockerError as error:
            if error.status != _NOT_FOUND:
                raise


def make_config(spec: Spec, *, image: str) -> dict[str, Any]:
    """What the daemon is told."""
    ram = max(spec.ram, LEAST_RAM) if spec.ram else 0
    config: dict[str, Any] = {
        "Image": image,
        "Cmd": list(spec.command),
        "Env": [f"{name}={value}" for name, value in spec.environment],
        "Hostname": HOSTNAME,
        "AttachStdin": spec.stdin >= 0,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": spec.stdin >= 0,
        "StdinOnce": spec.stdin >= 0,
        "Tty": False,
        "HostConfig": {
            "Mounts": [_mount(bind) for bind in spec.binds],
            "NetworkMode": "host" if spec.network else "none",
            "Memory": ram,
            "MemorySwap": ram,
            "CpuPeriod": PERIOD if spec.vcpus else 0,
            "CpuQuota": PERIOD * spec.vcpus,
            "PidsLimit": MOST_PROCESSES,
            "CapDrop": ["ALL"],
            "CapAdd": [name.removeprefix("CAP_") for name in CAPABILITIES],
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "none"},
        },
    }
    if spec.cwd not in ("", "."):
        config["WorkingDir"] = spec.cwd
    return config


def _mount(bind: Bind) -> dict[str, Any]:
    return {"Type": "bind", "Source": bind.source, "Target": bind.target, "ReadOnly": bind.readonly}


async def _chunks(image: ImageSource) -> AsyncIterator[bytes]:
    async for chunk in image.chunks():
        yield chunk


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _start_failure(said: str) -> ExecutionError:
    if "exec" in said or "chdir" in said or "no such file" in said:
        advice = "is the program, or the interpreter it names, in the image?"
        return ExecutionError(f"the command cannot be started: {said}; {advice}", Failure.USER)
    return ExecutionError(f"the container cannot be started: {said}", Failure.NODE)
