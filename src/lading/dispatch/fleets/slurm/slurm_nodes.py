"""The nodes of a Slurm cluster as the dispatcher reports them.

`reserved` is what Slurm has given away, to jobs of whomever; `used` what the node measures. A node
is drained and resumed in Slurm, if the dispatcher's user may do that there; that is looked up now
and then, since an administrator of Slurm may change it. A line that cannot be read is left out.
"""

from __future__ import annotations

import getpass
import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from lading.core.errors import Conflict, LadingError, NotFound, Unavailable
from lading.core.quantities import format_time
from lading.core.resources import MIB
from lading.core.scheduling.machines import (
    MOST_NOTES,
    MachineAction,
    MachineAmount,
    MachineKind,
    MachineNote,
    MachineReport,
    MachineState,
    MachineUse,
)
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus, in_words, total_gpus

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
# Looks at the nodes between two looks at what the user may do.
_LOOKS: Final = 20
_MAY_NOT: Final = (
    "Nodes are drained in Slurm: the dispatcher's user {0} may not change them. An administrator "
    "of Slurm can allow it: sacctmgr modify user {0} set AdminLevel=Administrator"
)
# Beginnings of states of nodes that RESUME ends (scontrol(1)).
_OFF: Final = ("down", "fail")


class SlurmNodes:
    """Implements MachineSource. `look` asks Slurm; `user` is that of this process."""

    def __init__(
        self,
        slurm: Slurm,
        *,
        gpu_types: SlurmGpus = NO_TYPES,
        user: Callable[[], str] = getpass.getuser,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._slurm = slurm
        self._gpu_types = gpu_types
        self._user = user
        self._wall = wall
        self._report = MachineReport()
        self._history: deque[MachineNote] = deque(maxlen=MOST_NOTES)
        self._may_order = False
        self._looks = 0

    async def look(self) -> None:
        """Learn the present nodes, and from time to time what this user may do. Raises
        Unavailable.
        """
        output = await self._slurm.nodes(_ARGUMENTS)
        if self._looks % _LOOKS == 0:
            self._may_order = await self._slurm.may_set_nodes(self._user())
        self._looks += 1
        # A node is listed once for each of its partitions.
        nodes = {node.id: node for node in read_nodes(output, self._gpu_types)}
        self._report = MachineReport(
            machines=tuple(self._with_orders(nodes[name]) for name in sorted(nodes)),
            history=tuple(self._history),
        )

    def machines(self) -> MachineReport:
        """The nodes as they were seen last."""
        return self._report

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Drain a node, or let it work again. Raises NotFound, Conflict, JobRefused,
        Unavailable.
        """
        node = next((node for node in self._report.machines if node.id == machine), None)
        if node is None:
            raise NotFound(f"{machine}: Slurm shows no such node")
        if action not in node.actions:
            raise Conflict(f"{machine}: {action} is not possible now")
        safe_reason = "".join(
            character for character in reason if character.isprintable() and character != '"'
        )
        try:
            if action is MachineAction.RUN:
                await self._slurm.set_node(machine, {"State": "RESUME"})
            else:
                # Slurm wants a reason (scontrol(1)).
                why = f"lading: {safe_reason}" if safe_reason else "lading"
                await self._slurm.set_node(machine, {"State": "DRAIN", "Reason": why})
        except LadingError as error:
            self._note(machine, f"{action} failed: {error.message}", is_fault=True)
            # The right may have been taken away.
            self._looks = 0
            raise
        self._note(machine, f"{action}{f': {safe_reason}' if safe_reason else ''}")
        # The page shows the new state soon; else the next look does.
        try:
            await self.look()
        except Unavailable:
            return

    def _note(self, machine: str, sentence: str, *, is_fault: bool = False) -> None:
        at = format_time(self._wall())
        self._history.append(
            MachineNote(at=at, machine=machine, sentence=sentence[:400], is_fault=is_fault)
        )
        self._report = msgspec.structs.replace(self._report, history=tuple(self._history))

    def _with_orders(self, node: MachineState) -> MachineState:
        if not self._may_order:
            return msgspec.structs.replace(node, takes_none=_MAY_NOT.format(self._user()))
        is_off = node.behavior == "drain" or node.state.startswith(_OFF)
        action = MachineAction.RUN if is_off else MachineAction.DRAIN
        return msgspec.structs.replace(node, actions=(action,))


def read_nodes(output: str, gpu_types: SlurmGpus = NO_TYPES) -> Iterator[MachineState]:
    """The nodes in the output of `sinfo` with the arguments above."""
    for line in output.splitlines():
        cells = [line[at : at + _WIDTH].strip() for at in range(0, len(line), _WIDTH)]
        if len(cells) < len(FIELDS) - 1:
            continue
        name, state, cpus, memory, allocated, load, free, gres = cells[:8]
        reason = cells[8] if len(cells) > 8 else ""
        processors, numbers = _CPUS.fullmatch(cpus), (memory, allocated)
        if not name or processors is None or not all(number.isdigit() for number in numbers):
            continue
        gpus = gpu_types.kinds(gres)
        yield MachineState(
            id=name,
            kind=MachineKind.NODE,
            state=state.lower(),
            behavior="drain" if "drain" in state.lower() else "run",
            total=MachineAmount(
                vcpus=int(processors[4]), ram=int(memory) * MIB, gpus=total_gpus(gpus)
            ),
            reserved=MachineAmount(vcpus=int(processors[1]), ram=int(allocated) * MIB),
            used=_use(load, memory, free),
            gpu_kind=in_words(gpus)[:400],
            note="" if reason == _NO_REASON else reason,
        )


def _use(load: str, memory: str, free: str) -> MachineUse | None:
    try:
        return MachineUse(vcpus=float(load), ram=max(0, int(memory) - int(free)) * MIB)
    except ValueError:
        # N/A: the node is down.
        return None
