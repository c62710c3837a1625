"""A gang of containers of a Docker daemon: made by a conductor, identified by labels.

The conductor ends with the supervisor that started it. The clean-up removes every container and
network with the label, also after a crash of all processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiodocker
from aiodocker.exceptions import DockerError
from msgspec import structs

from lading.core.errors import ExecutionError
from lading.process.concurrency import cancel_all
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, Exit
from lading.supervisor.engines.container_init import rank_init
from lading.supervisor.engines.daemon.configuration import make_mount
from lading.supervisor.engines.gang import GATHER_TIME, GangFiles
from lading.supervisor.gang.gang_output import GangOutput

LABEL = "lading.gang"
NO_ADDRESS = {"com.docker.network.bridge.inhibit_ipv4": "true"}
"""Option of Docker's networks: the machine has no address in it, at which containers would reach
its services.
"""
# Ten seconds in all for another process that removes the same containers.
_ATTEMPTS, _PAUSE = 40, 0.25


def each(spec: ContainerSpec) -> ContainerSpec:
    """Specification of one rank of the gang: the image's own first process, with its share of the
    resources.
    """
    ram, processes = spec.ram // spec.nodes, spec.processes // spec.nodes
    # No container has less than a processor, also where several share it; 0 is no limit.
    vcpus = max(1, spec.vcpus // spec.nodes) if spec.vcpus else 0
    return structs.replace(
        spec,
        command=(),
        environment=(),
        cwd="",
        stdin=-1,
        ram=ram,
        vcpus=vcpus,
        processes=processes,
    )


def with_init(
    config: Mapping[str, Any], image: Mapping[str, Any], notes: list[str]
) -> Mapping[str, Any]:
    """The configuration of a rank with `lading-start` as its first process, if this installation
    has it: that starts the command of the image's settings. Without a command it stays as it is.
    """
    command = [*(image.get("Entrypoint") or ()), *(image.get("Cmd") or ())]
    binds, before = rank_init(notes)
    if not command or not before:
        return config
    around = config["HostConfig"]
    mounts = [*around["Mounts"], *map(make_mount, binds)]
    return {
        **config,
        "Entrypoint": [*before, *command],
        "HostConfig": {**around, "Mounts": mounts},
    }


class DockerGang:
    """The gang of one container record.

    `enter`: the machine has no address in the gang's network, so the conductor enters it; `hidden`:
    the network is made so (Docker only; needs root).
    """

    def __init__(
        self, uuid: str, run: Path, socket: str, *, enter: bool = False, hidden: bool = False
    ) -> None:
        self._uuid, self._socket, self._enter = uuid, socket, enter or hidden
        self._options = NO_ADDRESS if hidden else {}
        self._files = GangFiles(run)
        self._output: GangOutput | None = None
        self._gate = -1
        self._conductor: subprocess.Popen[bytes] | None = None

    async def create(self, spec: ContainerSpec, config: Mapping[str, object]) -> None:
        """Start the conductor up to its gate. Raises ExecutionError or OSError."""
        self._files.bundle(0).mkdir(parents=True)
        image = {
            name: value
            for name, value in config.items()
            if name not in ("Cmd", "AttachStdout", "AttachStderr")
        }
        docker: dict[str, object] = {"socket": self._socket, "config": image, "enter": self._enter}
        if self._options:
            docker["options"] = self._options
        cwd = spec.cwd if spec.cwd not in ("", ".") else "/"
        self._output = self._files.write_plan(self._uuid, spec, cwd=cwd, docker=docker)
        self._conductor = self._spawn(spec)

    async def run(
        self, *, stop: asyncio.Event, stop_grace: float, end: Callable[[], Awaitable[None]]
    ) -> Exit:
        """Open the gate, wait for the end, merge the output. Raises ExecutionError when nothing was
        run.

        `end` kills the containers that the conductor has left running.
        """
        conductor = self._conductor
        if conductor is None:
            raise ExecutionError(f"{self._uuid}: no conductor was started")
        # A conductor that has ended has reported why.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"go\n")
        stopping = asyncio.create_task(_stop_when(stop, stop_grace, conductor), name="stopper")
        try:
            await linux.ended(conductor.pid)
        finally:
            await cancel_all(stopping)
            self._close()
        code = conductor.wait()
        await end()
        notes: tuple[str, ...] = ()
        if self._output is not None:
            # In a thread: the output may be large.
            notes = await asyncio.to_thread(self._output.merge, stop=stop.is_set)
        return self._files.ended(code, stopped=stop.is_set(), notes=notes)

    def _spawn(self, spec: ContainerSpec) -> subprocess.Popen[bytes]:
        reading, self._gate = os.pipe2(os.O_CLOEXEC)
        null = subprocess.DEVNULL
        try:
            return subprocess.Popen(
                self._files.command(),
                stdin=reading,
                stdout=spec.stdout if spec.stdout >= 0 else null,
                stderr=spec.stderr if spec.stderr >= 0 else null,
                pass_fds=[spec.notices] if spec.notices >= 0 else (),
                cwd="/",
            )
        finally:
            os.close(reading)

    def _close(self) -> None:
        os.close(self._gate)


async def _stop_when(stop: asyncio.Event, grace: float, conductor: subprocess.Popen[bytes]) -> None:
    await stop.wait()
    conductor.terminate()
    await asyncio.sleep(grace + GATHER_TIME)
    conductor.kill()


async def remove_gang(docker: aiodocker.Docker, uuid: str, *, pause: float = _PAUSE) -> None:
    """Kill and remove the containers and networks of a gang, if any. Raises DockerError."""
    label = json.dumps({"label": [f"{LABEL}={uuid}"]})
    for attempt in range(1, _ATTEMPTS + 1):
        # A container that another process is removing is listed for a moment longer.
        for container in await docker.containers.list(all=True, filters=label):
            try:
                await container.delete(force=True, v=True)
            except DockerError:
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(pause)
                break
        else:
            break
    for network in await docker.networks.list(filters={"label": [f"{LABEL}={uuid}"]}):
        await (await docker.networks.get(network["Id"])).delete()
