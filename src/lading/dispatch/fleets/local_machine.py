"""This machine as its dispatcher reports it, and the orders of admins for it.

A machine that is held starts nothing more; what runs there goes on. The order is kept in a file
beside the run directory, so that it outlives the dispatcher. `kill` ends what runs and holds the
machine: else the same would start here again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterator
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
from lading.core.scheduling.instance_types import NO_GPU, Gpu
from lading.core.scheduling.machines import (
    MOST_NOTES,
    MachineAction,
    MachineGpu,
    MachineKind,
    MachineNote,
    MachineReport,
    MachineUse,
    amount,
)
from lading.dispatch.fleet import FleetView, LookUp
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
    """Implements MachineSource. `changed` is called when it is held, or no longer is; `gpu` are its
    GPUs, and `see_gpus` tells who has which.
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
        gpu: Gpu = NO_GPU,
        see_gpus: Callable[[], tuple[MachineGpu, ...]] = tuple,
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
        self._gpu_kind = _kind_in_words(gpu)
        self._see_gpus = see_gpus
        self._wall = wall
        self._root = root
        self._history: deque[MachineNote] = deque(maxlen=MOST_NOTES)
        self.held: str | None = None
        """The reason for which it is held, None when it is not."""
        with suppress(OSError, UnicodeDecodeError):
            self.held = self._path.read_text()

    @property
    def shortage(self) -> str:
        """Reason why no container is started here, or ""."""
        if self.held is None:
            return ""
        return f"An admin holds this machine{f': {self.held}' if self.held else ''}"

    def machines(self) -> MachineReport:
        """This machine."""
        view = self._fleet.view()
        state = describe_worker(view, self._worker, self._look_up, kind=MachineKind.HOST)
        lasting = MachineAction.HOLD if self.held is None else MachineAction.RUN
        kill = (MachineAction.KILL,) if state.containers else ()
        state = msgspec.structs.replace(
            state,
            type=socket.gethostname()[:400],
            behavior="run" if self.held is None else "hold",
            total=amount(self._capacity),
            price=self._price,
            used=measure_use(self._root),
            gpu_kind=self._gpu_kind,
            gpus=self._see_gpus(),
            actions=(lasting, *kill),
            note=(self.held or view.shortage)[:400],
        )
        return MachineReport(machines=(state,), history=tuple(self._history))

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Carry out an order of an admin. Raises NotFound, Unavailable."""
        if machine != self._worker:
            raise NotFound(f"{machine}: this dispatcher has no such machine")
        await asyncio.to_thread(self._keep, None if action is MachineAction.RUN else reason)
        if action is MachineAction.KILL:
            for uuid, process in self._fleet.view().processes.items():
                if process.alive:
                    await self._fleet.signal(uuid, Signals.SIGTERM)
        text = f"{action.value}{f': {reason}' if reason else ''}"
        at = format_time(self._wall())
        self._history.append(MachineNote(at=at, machine=self._worker, text=text[:400]))
        self._changed()

    def _keep(self, held: str | None) -> None:
        try:
            if held is None:
                self._path.unlink(missing_ok=True)
            else:
                self._path.write_text(held)
        except OSError as error:
            raise Unavailable(f"{self._path}: cannot be written: {error.strerror}") from error
        self.held = held


def _kind_in_words(gpu: Gpu) -> str:
    if not gpu.count:
        return ""
    words = in_words(
        gpu.count, memory=gpu.vram, kinds=gpu.targets, version=gpu.driver, stack=gpu.stack
    )
    return words[:400]


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


def _sizes(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        # In KiB (proc_meminfo(5)).
        number = rest.split()[:1]
        if number and number[0].isdigit():
            yield name, int(number[0]) * 1024
