"""What a daemon takes for a container without Lading, measured in turns with Lading's own.

The container has the image, the command and the limits of Lading's. Nothing of it is saved. The
daemon makes it by the calls of its API, and by its own program (`run --rm`). Lading says that a
container is Complete before it removes it, so the time to add to is the one without the removal.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiodocker

from bench.figures import Figure, durations, percentile
from bench.floors import time_command
from lading.supervisor.engines import Bind, ContainerSpec
from lading.supervisor.engines.daemon.configuration import make_config

ADDED_LIMIT = 200.0
"""Milliseconds that Lading may add to its daemon, from Queued to Complete, log and output saved."""
_RAM, _PROCESSES = 64 << 20, 1000
_PATIENCE = 60.0
_PAUSE = 0.01


class DaemonFloor:
    """The times of one daemon. `engine`: docker or podman. `out`: a directory for what the
    containers write.
    """

    def __init__(
        self,
        engine: str,
        docker: aiodocker.Docker,
        *,
        socket: str,
        command: Sequence[str],
        out: Path,
    ) -> None:
        self._engine, self._docker, self._socket = engine, docker, socket
        self._spec = ContainerSpec(
            command=tuple(command),
            cwd="/out",
            binds=(Bind(str(out), "/out", False),),
            ram=_RAM,
            vcpus=1,
            processes=_PROCESSES,
        )
        self._ends: list[float] = []
        self._removals: list[float] = []
        self._programs: list[float] = []

    async def measure(self, *, counted: bool) -> None:
        """Make one container by the API and one by the daemon's program, once Lading has removed
        its own.
        """
        await self._wait_until_idle()
        image = str((await self._docker.images.list())[0]["Id"])
        image = image if image.startswith("sha256:") else f"sha256:{image}"
        ended, removed = await self._by_api(image)
        program = await asyncio.to_thread(time_command, self._run(image))
        await self._wait_until_idle()
        if counted:
            self._ends.append(ended)
            self._removals.append(removed)
            self._programs.append(program)

    def figures(self, ends: Sequence[float]) -> list[Figure]:
        """The daemon's own times, and what Lading adds; `ends`: Lading's seconds from Queued to
        Complete.
        """
        engine = self._engine
        added = (percentile(ends, 0.5) - percentile(self._ends, 0.5)) * 1000
        return [
            durations(
                f"{engine} alone: create, start, wait",
                self._ends,
                note="by its API; nothing is saved",
            ),
            durations(f"{engine} alone: create, start, wait, remove", self._removals),
            durations(f"{engine} run --rm", self._programs),
            Figure(
                name=f"Added by Lading to {engine}",
                unit="ms",
                count=len(ends),
                p50=added,
                target=f"p50 <= {ADDED_LIMIT:g} ms",
                met=added <= ADDED_LIMIT,
                note="p50 from Queued to Complete, less p50 of create, start, wait; in turns",
            ),
        ]

    async def _by_api(self, image: str) -> tuple[float, float]:
        """Seconds until the container has ended, and until it is removed. Raises RuntimeError when
        it failed.
        """
        began = time.perf_counter()
        container = await self._docker.containers.create(make_config(self._spec, image=image))
        await container.start()
        code = int((await container.wait(condition="not-running"))["StatusCode"])
        ended = time.perf_counter() - began
        await container.delete(force=True, v=True)
        if code:
            raise RuntimeError(
                f"{self._engine}: the container of the floor ended with exit code {code}"
            )
        return ended, time.perf_counter() - began

    def _run(self, image: str) -> list[str]:
        host = f"unix://{self._socket}"
        to = ["--remote", "--url", host] if self._engine == "podman" else ["--host", host]
        return [self._engine, *to, "run", "--rm", "--network", "none", image, *self._spec.command]

    async def _wait_until_idle(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            while await self._docker.containers.list(all=True):
                await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def floor_of(
    engine: str, *, socket: str, command: Sequence[str]
) -> AsyncIterator[DaemonFloor]:
    """The floor of the daemon that listens on `socket`."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        async with aiodocker.Docker(url=f"unix://{socket}") as docker:
            yield DaemonFloor(engine, docker, socket=socket, command=command, out=Path(folder))
