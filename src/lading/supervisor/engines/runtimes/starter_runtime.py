"""Containers of the native engine made by `lading-start`."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lading.supervisor.engines import ContainerSpec, Exec, Execution, crun
from lading.supervisor.engines.runtimes import Prepared, StartGate
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.limits.cgroup import Cgroup
from lading.supervisor.starter import starter
from lading.supervisor.starter.plan import Gate
from lading.supervisor.starter.starter import Starter


class StarterRuntime:
    """A container of `lading-start`, which is its first process, too."""

    name = starter.NAME

    def __init__(self, run: Path, log: Path, cgroup: Cgroup) -> None:
        self._log, self._cgroup = log, cgroup
        self._starter = Starter(run, log)
        self._state = run
        self._namespace: UserNamespace | None = None
        self._config: dict[str, Any] = {}
        self._gate = StartGate()

    async def version(self) -> str:
        """See `Runtime`."""
        return await crun.version(str(starter.PROGRAM), "check")

    def prepare(self, state: Path, namespace: UserNamespace | None, notes: list[str]) -> Prepared:
        """See `Runtime`."""
        del notes
        self._state, self._namespace = state, namespace
        self._place.mkdir(mode=0o700, exist_ok=True)
        return Prepared(gate=self._gate.make())

    def describe(self, config: dict[str, Any], bundle: Path) -> None:
        """See `Runtime`."""
        del bundle
        self._config = config

    def adopt(
        self, state: Path, namespace: UserNamespace | None, config: Mapping[str, Any]
    ) -> None:
        """Go on with a container that another process has made, in place of `prepare`, `describe`
        and `start`.
        """
        self._state, self._namespace = state, namespace
        self._starter.adopt(config)

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the started container."""
        return self._starter.config

    @property
    def code(self) -> int | None:
        """See `Starter.code`."""
        return self._starter.code

    def start(self, spec: ContainerSpec, notice: str) -> subprocess.Popen[bytes]:
        """See `Runtime`."""
        gate = Gate(descriptor=self._gate.reading, join=self._cgroup.join_files, notice=notice)
        try:
            return self._starter.start(spec, self._config, gate, self._namespace)
        finally:
            self._gate.close_reading()

    def open_gate(self) -> None:
        """See `Runtime`."""
        self._gate.open()

    def close_gate(self) -> None:
        """See `Runtime`."""
        self._gate.close()

    def check_started(self, code: int) -> None:
        """See `Runtime`."""
        del code
        crun.check_started(self._log)

    def first(self) -> int | None:
        """See `Runtime`."""
        return self._starter.first

    async def stop(self, find_pid: Callable[[], int | None], *, grace: float) -> None:
        """See `Runtime`."""
        del find_pid
        await self._starter.stop(grace=grace)

    async def execute(self, order: Exec) -> Execution:
        """See `Runtime`."""
        return await self._starter.execute(
            order, join=self._cgroup.join_files, directory=self._place
        )

    async def hold(self) -> None:
        """See `Runtime`."""
        self._gate.close()
        self._gate.writing = await self._starter.hold(join=self._cgroup.join_files)

    async def end(self) -> None:
        """See `Runtime`."""
        self._starter.end()

    async def remove(self) -> None:
        """See `Runtime`."""
        await asyncio.to_thread(self._starter.remove)

    @property
    def _place(self) -> Path:
        """Directory for files of sessions."""
        return self._state / "bundle"
