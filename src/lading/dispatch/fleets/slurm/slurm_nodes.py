"""The nodes of a Slurm cluster as the dispatcher reports them.

`reserved` is what Slurm has given away, to jobs of whomever; `used` what the node measures. Nodes
take no orders here: who may drain a node is a matter of Slurm. A line that cannot be read is left
out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lading.core.errors import LadingError
from lading.core.resources import MIB
from lading.core.scheduling.machines import (
    MachineAction,
    MachineAmount,
    MachineKind,
    MachineReport,
    MachineState,
    MachineUse,
)
from lading.dispatch.fleets.slurm.slurm_commands import GPUS, Slurm

FIELDS: Final = (
    "NodeList", "StateComplete", "CPUsState", "Memory", "AllocMem", "CPUsLoad", "FreeMem", "Gres",
    "Reason",
)  # fmt: skip
_ARGUMENTS: Final = ("--Node", f"--Format={','.join(f'{name}:.200' for name in FIELDS)}")
# Columns of each field in the answer of `sinfo`; see `_ARGUMENTS`.
_WIDTH: Final = 200
# `%C` of sinfo(1): allocated, idle, other, total.
_CPUS: Final = re.compile(r"(\d+)/(\d+)/(\d+)/(\d+)")
_NO_REASON: Final = "none"


class SlurmNodes:
    """Implements MachineSource. `look` asks Slurm."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._report = MachineReport()

    async def look(self) -> None:
        """Learn the present nodes. Raises Unavailable."""
        text = await self._slurm.nodes(_ARGUMENTS)
        # A node is listed once for each of its partitions.
        found = {one.id: one for one in read_nodes(text)}
        self._report = MachineReport(machines=tuple(found[name] for name in sorted(found)))

    def machines(self) -> MachineReport:
        """The nodes as they were seen last."""
        return self._report

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Refuse an order. Raises LadingError."""
        raise LadingError(f"{machine}: {action} ({reason}): orders for nodes are given in Slurm")


def read_nodes(text: str) -> Iterator[MachineState]:
    """The nodes in the output of `sinfo` with the arguments above."""
    for line in text.splitlines():
        cells = [line[at : at + _WIDTH].strip() for at in range(0, len(line), _WIDTH)]
        if len(cells) < len(FIELDS) - 1:
            continue
        name, state, cpus, memory, given, load, free, gres = cells[:8]
        reason = cells[8] if len(cells) > 8 else ""
        processors, numbers = _CPUS.fullmatch(cpus), (memory, given)
        if not name or processors is None or not all(one.isdigit() for one in numbers):
            continue
        gpus = sum(int(count) for count in GPUS.findall(gres))
        yield MachineState(
            id=name,
            kind=MachineKind.NODE,
            state=state.lower(),
            total=MachineAmount(vcpus=int(processors[4]), ram=int(memory) * MIB, gpus=gpus),
            reserved=MachineAmount(vcpus=int(processors[1]), ram=int(given) * MIB),
            used=_use(load, memory, free),
            note="" if reason == _NO_REASON else reason,
        )


def _use(load: str, memory: str, free: str) -> MachineUse | None:
    try:
        return MachineUse(vcpus=float(load), ram=max(0, int(memory) - int(free)) * MIB)
    except ValueError:
        # N/A: the node is down.
        return None
