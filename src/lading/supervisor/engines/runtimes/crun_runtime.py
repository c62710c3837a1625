"""Containers of the native engine made by crun.

crun stops at a gate before the command: a hook waits for a line from a pipe that only this process
can write. When this process dies, the pipe ends and nothing is started.

crun is started in the container's control group, which is made here (`--cgroup-manager=disabled`):
by a thread in the group, where groups contain threads (version 1), else by a shell that joins it
and becomes crun. The first process of the container is `lading-start`, as in those of daemons
(`container_init`).
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lading.supervisor.engines import Bind, ContainerSpec, Exec, Execution, crun
from lading.supervisor.engines.container_init import ContainerInit, open_init
from lading.supervisor.engines.runtimes import Prepared, StartGate
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.limits.cgroup import Cgroup


class CrunRuntime:
    """A container of crun."""

    name = crun.PROGRAM

    def __init__(self, uuid: str, run: Path, log: Path, cgroup: Cgroup) -> None:
        self._uuid, self._run, self._log, self._cgroup = uuid, run, log, cgroup
        # Directory of crun's files: in memory with a user namespace, since each file on disk costs
        # time when it is removed.
        self._state = run
        self._namespace: UserNamespace | None = None
        self._gate = StartGate()
        self._init: ContainerInit | None = None
        self._arguments: tuple[str, ...] = ()

    async def version(self) -> str:
        """See `Runtime`."""
        return await crun.version(crun.PROGRAM, "--version")

    def prepare(self, state: Path, namespace: UserNamespace | None, notes: list[str]) -> Prepared:
        """See `Runtime`."""
        self._state, self._namespace = state, namespace
        self._described.mkdir(mode=0o700, exist_ok=True)
        gate = self._gate.make() if namespace is None else self._make_named_gate(namespace)
        self._close_init()
        # The root of a user namespace may not enter the run directory.
        place, owner = (namespace.directory, namespace.root) if namespace else (self._run, 0)
        init = self._init = open_init(place, notes, owner)
        if init is None:
            return Prepared(gate=gate)
        self._arguments = init.arguments()
        own: tuple[Bind, ...] = (init.pipe,)
        return Prepared(gate, self._arguments, binds=(init.program,), own_binds=own)

    def describe(self, config: dict[str, Any], bundle: Path) -> None:
        """See `Runtime`."""
        del bundle
        (self._described / "config.json").write_bytes(msgspec.json.encode(config))

    def start(self, spec: ContainerSpec, notice: str) -> subprocess.Popen[bytes]:
        """See `Runtime`."""
        del notice
        # Hooks start in the bundle's directory, which the root of a user namespace may not enter.
        inside = self._namespace
        place = self._run / "bundle" if inside is None else inside.directory
        files = ["--bundle", str(place), "--config", str(self._described / "config.json")]
        command = [*self.command(), "--log", str(self._log), "run", *files, self._uuid]
        return crun.start(spec, command, self._cgroup, inside)

    def open_gate(self) -> None:
        """See `Runtime`."""
        self._gate.open()

    def close_gate(self) -> None:
        """See `Runtime`."""
        self._gate.close()

    def check_started(self, code: int) -> None:
        """See `Runtime`."""
        crun.check_started(self._log)
        if self._init is not None:
            self._init.check_started(code)

    def first(self) -> int | None:
        """See `Runtime`."""
        return crun.first_process(self._state / "crun" / self._entered[0] / "status")

    async def stop(self, find_pid: Callable[[], int | None], *, grace: float) -> None:
        """See `Runtime`."""
        if self._init is not None:
            await crun.stop_by_init(find_pid, self._init, grace=grace)
        else:
            await crun.stop(find_pid, grace=grace)

    async def execute(self, order: Exec) -> Execution:
        """See `Runtime`."""
        # Imported here, because few containers are ever entered.
        from lading.supervisor.engines import executing

        name, bundle = self._entered
        return await executing.execute(order, name, bundle, command=self._joined())

    async def hold(self) -> None:
        """See `Runtime`."""
        from lading.supervisor.engines import executing

        self._gate.close()
        self._gate.writing = await executing.hold(
            self._uuid, self._described, command=self._joined(), init=self._arguments
        )

    async def end(self) -> None:
        """See `Runtime`. Without control groups a container that never began its command is found
        by the arguments of its crun, which waits for it, and a kept one by the files of its crun.
        """
        if self._cgroup.join_files:
            return
        await asyncio.to_thread(crun.kill_programs, str(self._log))
        await crun.delete(self.command(), (self._run / "crun").glob(f"{self._uuid}*"))

    async def remove(self) -> None:
        """See `Runtime`."""
        self._close_init()

    def command(self) -> list[str]:
        """crun up to its global options."""
        return [crun.PROGRAM, "--root", str(self._state / "crun"), "--cgroup-manager=disabled"]

    def _joined(self) -> list[str]:
        return [*crun.joining(self._cgroup.join_files), *self.command()]

    @property
    def _entered(self) -> tuple[str, Path]:
        """Name and bundle of the container that sessions enter."""
        return self._uuid, self._described

    @property
    def _described(self) -> Path:
        """Directory of the `config.json`."""
        return self._state / "bundle"

    def _make_named_gate(self, namespace: UserNamespace) -> str:
        path, self._gate.writing = namespace.gate()
        return path

    def _close_init(self) -> None:
        if self._init is not None:
            self._init.close()
        self._init, self._arguments = None, ()
