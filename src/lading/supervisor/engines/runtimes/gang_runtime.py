"""The ranks of a gang on this machine: containers of crun, made by a conductor (`engines.gang`)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError
from lading.supervisor.engines import ContainerSpec, Exit, crun
from lading.supervisor.engines.container_init import rank_init
from lading.supervisor.engines.gang import GangFiles
from lading.supervisor.engines.runtimes import Prepared
from lading.supervisor.engines.runtimes.crun_runtime import CrunRuntime
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.limits.cgroup import Cgroup

if TYPE_CHECKING:
    from lading.supervisor.gang.gang_output import GangOutput


class GangRuntime(CrunRuntime):
    """A gang. Sessions enter rank 0."""

    def __init__(self, uuid: str, run: Path, log: Path, cgroup: Cgroup) -> None:
        super().__init__(uuid, run, log, cgroup)
        self.files = GangFiles(run)
        self._output: GangOutput | None = None
        self._conductor: subprocess.Popen[bytes] | None = None

    def prepare(self, state: Path, namespace: UserNamespace | None, notes: list[str]) -> Prepared:
        """See `Runtime`. The conductor has the gate, and its ranks none."""
        self._state, self._namespace = state, namespace
        binds, arguments = rank_init(notes)
        return Prepared(arguments=arguments, binds=binds)

    def describe(self, config: dict[str, Any], bundle: Path) -> None:
        """See `Runtime`."""
        config = {name: value for name, value in config.items() if name != "hooks"}
        (bundle / "config.json").write_bytes(msgspec.json.encode(config))

    def start(self, spec: ContainerSpec, notice: str) -> subprocess.Popen[bytes]:
        """Start the conductor up to its gate; the directory of `spec` is absolute. Raises OSError,
        ExecutionError.
        """
        del notice
        self._output = self.files.write_plan(self._uuid, spec, crun=self.command(), cwd=spec.cwd)
        self._gate.make()
        # A remote rank gets its input from the supervisor on the first machine.
        is_remote = spec.spread is not None and spec.spread.rank > 0
        given = spec if is_remote else structs.replace(spec, stdin=self._gate.reading)
        join = crun.joining(self._cgroup.join_files)
        self._conductor = crun.spawn(
            given, [*join, *self.files.command()], environment=dict(os.environ)
        )
        return self._conductor

    async def ended(self, code: int, *, stop: asyncio.Event, out_of_memory: bool) -> Exit:
        """Merge the output of ended ranks; the exit of a gang whose conductor ended with `code`.
        Raises ExecutionError when nothing was run.
        """
        notes: tuple[str, ...] = ()
        if self._output is not None:
            notes = await asyncio.to_thread(self._output.merge, stop=stop.is_set)
        return self.files.ended(
            code, stopped=stop.is_set(), out_of_memory=out_of_memory, notes=notes
        )

    async def stop(self, find_pid: Callable[[], int | None], *, grace: float) -> None:
        """Let the conductor end its ranks."""
        del find_pid, grace
        if self._conductor is not None:
            self._conductor.terminate()

    async def hold(self) -> None:
        """Raise ExecutionError: its network went with its processes."""
        raise ExecutionError(
            f"{self._uuid}: is a gang, which cannot be kept: its network went with its processes"
        )

    @property
    def _entered(self) -> tuple[str, Path]:
        return self.files.entered(self._uuid)
