"""A gang on this machine: several containers of one record, made and watched by a conductor.

The conductor is a process of its own (`python -m lading.hpc.conductor`) in the container's cgroup
together with its containers, so killing the cgroup ends all of them. Its input is one file; it
answers by its exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, Exit, Spread
from lading.supervisor.engines.refusals import first_process_refusal

if TYPE_CHECKING:
    from lading.supervisor.gang.gang_output import GangOutput

COULD_NOT = 75
"""The conductor's exit code when nothing could be run; EX_TEMPFAIL of sysexits.h."""
GATHER_TIME = 8.0
"""Seconds for a conductor, after the grace of its ranks, to collect their results."""
NO_WAY_OUT = (
    "the network of a gang joins its ranks only:"
    " neither the API nor the internet is reached from it"
)
"""Note about a gang that asks for a network."""


class GangFiles(msgspec.Struct, frozen=True):
    """Paths of a gang in a run directory."""

    run: Path

    def bundle(self, rank: int) -> Path:
        """The OCI bundle of a rank."""
        return self.run / "bundle" / str(rank)

    def entered(self, uuid: str) -> tuple[str, Path]:
        """Name and bundle of the container that sessions enter: rank 0."""
        return f"{uuid}-0", self.bundle(0)

    @property
    def spool(self) -> Path:
        """Directory in which the conductor collects output until all ranks are dead."""
        return self.run / "bundle" / "spool"

    @property
    def plan(self) -> Path:
        """Input of the conductor."""
        return self.run / "bundle" / "plan.json"

    @property
    def fault(self) -> Path:
        """File with the conductor's reason when nothing could be run."""
        return self.run / "bundle" / "fault.txt"

    def write_plan(
        self,
        uuid: str,
        spec: ContainerSpec,
        *,
        crun: Sequence[str] = (),
        cwd: str,
        docker: Mapping[str, object] | None = None,
    ) -> GangOutput:
        """Write the plan, for crun or for a Docker daemon; return the output to merge when all
        ranks are dead.

        Raises OSError, and ExecutionError when the output is not a directory of this machine.
        """
        output = next((bind.source for bind in spec.binds if bind.target == spec.output_path), "")
        if not output:
            raise ExecutionError(
                f"{uuid}: a gang needs an output directory that is a mount of kind tmp",
                Failure.USER,
            )
        plan = {
            "name": uuid,
            "bundles": [str(self.bundle(rank)) for rank in range(spec.nodes)],
            "crun": list(crun),
            "command": spec.command,
            "environment": spec.environment,
            "cwd": cwd,
            "output_path": spec.output_path,
            "spool": str(self.spool),
            "fault": str(self.fault),
            "slots": max(1, spec.vcpus if spec.spread else spec.vcpus // spec.nodes),
            "launcher": spec.launcher,
            "policy": spec.rank_failure,
            "stop_grace": spec.stop_grace,
            "docker": docker,
            **_spread(spec.spread),
            "notices": spec.notices if spec.notices >= 0 else 2,
            "files": dict(spec.files),
        }
        # Made with mode 0600 before the environment, which may hold secrets, is written.
        self.plan.touch(mode=0o600)
        self.plan.write_bytes(msgspec.json.encode(plan))
        self.spool.mkdir(mode=0o700, exist_ok=True)
        # A container that is no gang does not import it.
        from lading.supervisor.gang.gang_output import GangOutput

        return GangOutput(self.spool, output, spec.nodes)

    @staticmethod
    def here(spec: ContainerSpec) -> range:
        """The ranks on this machine."""
        return (
            range(spec.nodes)
            if spec.spread is None
            else range(spec.spread.rank, spec.spread.rank + 1)
        )

    def command(self) -> list[str]:
        """Command that runs the conductor."""
        return [sys.executable, "-m", "lading.hpc.conductor", str(self.plan)]

    def ended(
        self, code: int, *, stopped: bool, out_of_memory: bool = False, notes: tuple[str, ...] = ()
    ) -> Exit:
        """Exit of the gang from the conductor's exit code (negative: a signal). Raises
        ExecutionError when nothing was run.
        """
        self._check(code)
        # The ranks end with the conductor, so the outcome of the command is unknown.
        is_lost = code < 0 and not stopped and not out_of_memory
        lost = f"the conductor of its gang was ended by signal {-code}" if is_lost else ""
        return Exit(
            code=code if code >= 0 else 128 - code,
            out_of_memory=out_of_memory,
            lost=lost,
            notes=notes,
        )

    def _check(self, code: int) -> None:
        if code != COULD_NOT or not self.fault.exists():
            return
        told = msgspec.json.decode(self.fault.read_bytes(), type=_Fault)
        raise first_process_refusal(told.fault) or ExecutionError(told.fault, told.failure)


class _Fault(msgspec.Struct, frozen=True):
    """The conductor's reason when nothing could be run."""

    fault: str
    failure: Failure


def _spread(spread: Spread | None) -> dict[str, object]:
    if spread is None:
        return {}
    annex = {"rank": spread.rank, "leader": spread.leader} if spread.rank else None
    return {"wire": spread.wire, "pipes": spread.pipes, "annex": annex}
