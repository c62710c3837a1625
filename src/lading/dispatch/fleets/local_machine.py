"""This machine as its dispatcher reports it, and the orders of admins for it.

A machine that is held starts nothing more; what runs there goes on. The order is kept in a file
beside the run directory, so that it outlives the dispatcher. `kill` ends what runs and holds the
machine: else the same would start here again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Final, Protocol

import msgspec

from lading.core.containers.gpu_words import in_words
from lading.core.errors import NotFound, Unavailable
from lading.core.quantities import format_time
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.machines import (
    MOST_NOTES,
    MachineAction,
    MachineKind,
    MachineNote,
    MachineReport,
    MachineUse,
    amount,
)
from lading.dispatch.fleet import FleetView, LookUp
from lading.dispatch.gpu_watch import GpuWatch
from lading.dispatch.machine_reporter import describe_worker

_HELD: Final = "held"
_ROOT: Final = Path("/")


class LocalProcesses(Protocol):
    """Interface of the local fleet that this module uses."""

    def view(self) -> FleetView:
        """Its present state."""

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a supervisor. Raises Unavailable."""


class LocalMachine:
    """Implements MachineSource. `changed` is called when it is held, or no longer is; `gpus` are
    its GPUs.
    """

    def __init__(
        self,
        fleet: LocalProcesses,
        *,
        worker: str,
        capacity: Resources,
        directory: Path,
        price: float,
        look_up: LookUp,
        changed: Callable[[], None],
        gpus: GpuWatch | None = None,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        root: Path = _ROOT,
    ) -> None:
        self._fleet = fleet
        self._worker = worker
        self._capacity = capacity
        self._path = directory / _HELD
        self._price = price
        self._look_up = look_up
        self._changed = changed
        self._gpus = gpus
        self._wall = wall
        self._root = root
        self._history: deque[MachineNote] = deque(maxlen=MOST_NOTES)
        self.hold_reason: str | None = None
        """The reason for which it is held, None when it is not."""
        with suppress(OSError, UnicodeDecodeError):
            self.hold_reason = self._path.read_text()

    @property
    def shortage(self) -> str:
        """Reason why no container is started here, or ""."""
        if self.hold_reason is None:
            return ""
        return f"An admin holds this machine{f': {self.hold_reason}' if self.hold_reason else ''}"

    def machines(self) -> MachineReport:
        """This machine."""
        view = self._fleet.view()
        state = describe_worker(view, self._worker, self._look_up, kind=MachineKind.HOST)
        lasting = MachineAction.HOLD if self.hold_reason is None else MachineAction.RUN
        kill = (MachineAction.KILL,) if state.containers else ()
        gpus = self._gpus
        restore = (MachineAction.RESTORE,) if gpus and gpus.may_restore else ()
        state = msgspec.structs.replace(
            state,
            type=socket.gethostname()[:400],
            behavior="run" if self.hold_reason is None else "hold",
            total=amount(self._capacity),
            price=self._price,
            used=measure_use(self._root),
            gpu_kind=_in_words(gpus.kinds) if gpus else "",
            gpus=gpus.report() if gpus else (),
            actions=(lasting, *kill, *restore),
            note=(self.hold_reason or view.shortage or _out_of_service(gpus))[:400],
        )
        return MachineReport(machines=(state,), history=tuple(self._history))

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Carry out an order of an admin. Raises NotFound, Unavailable."""
        if machine != self._worker:
            raise NotFound(f"{machine}: this dispatcher has no such machine")
        if action is MachineAction.RESTORE:
            await self._restore()
        else:
            await asyncio.to_thread(self._keep, None if action is MachineAction.RUN else reason)
        if action is MachineAction.KILL:
            for uuid, process in self._fleet.view().processes.items():
                if process.alive:
                    await self._fleet.signal(uuid, Signals.SIGTERM)
        text = f"{action.value}{f': {reason}' if reason else ''}"
        at = format_time(self._wall())
        self._history.append(MachineNote(at=at, machine=self._worker, sentence=text[:400]))
        self._changed()

    def note_gpus(self, fault: str) -> None:
        """Add to the history that GPUs are out of service for a reason; "": all work again."""
        at = format_time(self._wall())
        text = f"GPUs out of service: {fault}" if fault else "all GPUs are in service again"
        note = MachineNote(at=at, machine=self._worker, sentence=text[:400], is_fault=bool(fault))
        self._history.append(note)

    async def _restore(self) -> None:
        if self._gpus is not None:
            try:
                await asyncio.to_thread(self._gpus.restore)
            except OSError as error:
                raise Unavailable(f"The GPUs cannot be restored: {error.strerror}") from error

    def _keep(self, hold_reason: str | None) -> None:
        try:
            if hold_reason is None:
                self._path.unlink(missing_ok=True)
            else:
                self._path.write_text(hold_reason)
        except OSError as error:
            raise Unavailable(f"{self._path}: cannot be written: {error.strerror}") from error
        self.hold_reason = hold_reason


def _out_of_service(gpus: GpuWatch | None) -> str:
    return f"GPUs out of service: {gpus.fault}" if gpus and gpus.fault else ""


def _in_words(kinds: Iterable[Gpu]) -> str:
    return " and ".join(
        in_words(
            kind.count, memory=kind.vram, kinds=kind.targets, version=kind.driver, stack=kind.stack
        )
        for kind in kinds
    )[:400]


def measure_use(root: Path = _ROOT) -> MachineUse | None:
    """Use of this machine by all programs: the mean number of running processes over a minute, and
    the memory that is not available. None where the kernel does not say.
    """
    try:
        load = float((root / "proc/loadavg").read_text().split()[0])
        memory = dict(_sizes((root / "proc/meminfo").read_text()))
        used = memory["MemTotal"] - memory["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return MachineUse(vcpus=round(load, 1), ram=max(0, used))


def _sizes(content: str) -> Iterator[tuple[str, int]]:
    for line in content.splitlines():
        name, _, amount = line.partition(":")
        # In KiB (proc_meminfo(5)).
        number = amount.split()[:1]
        if number and number[0].isdigit():
            yield name, int(number[0]) * 1024
