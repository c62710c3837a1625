"""The GPUs of this machine: who has which, how they are used, and which are out of service.

The holder of a GPU writes its run directory into the file of the GPU; the directory has the name of
the container. A file that is empty, or whose directory is gone, belongs to nobody.

A GPU that has failed has a file beside its lock, with the reason. No supervisor of the machine
takes it as long as the file is there, and no dispatcher offers it. A fault that is read from the
GPU ends when it reads healthy, one of the kernel's log when an admin restores the machine's GPUs or
when the machine was started again (`core.gpus.health`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from lading.core.gpu_architectures import CUDA
from lading.core.gpus.devices import GpuDevice, GpuDevices, only_cards
from lading.core.gpus.health import XidEvent, fault_of, read_xids, short
from lading.core.gpus.readings import GpuReading
from lading.core.ids import Infix, is_uuid
from lading.core.scheduling.gpu_kinds import kind_of, kinds_of
from lading.core.scheduling.instance_types import NO_GPU, Gpu
from lading.core.scheduling.machines import MachineGpu
from lading.process.gpus.inventory import find_devices, find_machine, read_all
from lading.process.gpus.kernel_log import KernelLog

_MOST_GPUS: Final = 256
_LONGEST_PATH: Final = 4096
_MEMORY: Final = "kernel-log"


class GpuFault(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file of a GPU that is out of service: why, whether its readings say so,
    and the boot of the machine in which it failed.
    """

    reason: str
    is_read: bool = False
    boot: str = ""


class GpuWatch:
    """The GPUs below `root` that containers may use. `visible` lists them, "" is all; `configured`
    has their configured properties; `locks` is the directory of the files.

    Raises Invalid for one that is not there. Without any no program is run.
    """

    def __init__(
        self, root: Path, *, locks: Path, visible: str = "", configured: Gpu = NO_GPU
    ) -> None:
        self._root, self._locks = root, locks
        self._readings: Mapping[str, GpuReading] = {}
        machine = find_devices(root)
        gpus = only_cards(machine, visible)
        if gpus.devices:
            machine, self._readings = find_machine(root)
            gpus = only_cards(machine, visible)
        chosen = {gpu.fault_file for gpu in gpus.devices}
        # Each Xid is read once on a machine, by whichever dispatcher comes first.
        self._others = tuple(gpu for gpu in machine.devices if gpu.fault_file not in chosen)
        self.devices = tuple(_with_kind(gpu, gpus, configured) for gpu in gpus.devices[:_MOST_GPUS])
        """The GPUs, each with what is configured of it."""
        self._log = KernelLog(root, locks / _MEMORY)
        self.faults: dict[str, GpuFault] = {}
        """Why GPUs are out of service, by the names of their files."""
        if self.devices:
            self._look_at_faults()

    @property
    def kinds(self) -> tuple[Gpu, ...]:
        """The kinds of the GPUs that are in service, with the number of each."""
        usable = tuple(gpu for gpu in self.devices if gpu.fault_file not in self.faults)
        return kinds_of(GpuDevices(usable), NO_GPU)

    @property
    def fault(self) -> str:
        """The GPUs that are out of service and the reason, in words; "" if all are in service."""
        faults = {gpu.device: self.faults.get(gpu.fault_file) for gpu in self.devices}
        return "; ".join(f"{name}: {fault.reason}" for name, fault in faults.items() if fault)

    @property
    def may_restore(self) -> bool:
        """Whether a GPU is out of service until somebody says that it works."""
        return any(not fault.is_read for fault in self.faults.values())

    def report(self) -> tuple[MachineGpu, ...]:
        """Each GPU with its container, its use and its fault."""
        return tuple(self._describe(gpu) for gpu in self.devices)

    def numbers(self) -> dict[str, tuple[int, ...]]:
        """How many GPUs of each kind containers have, by uuid, in the order of `kinds`."""
        kinds = [structs.replace(kind, count=0) for kind in self.kinds]
        numbers: dict[str, list[int]] = {}
        for gpu in self.devices:
            container = _holder(self._locks / gpu.lock)[1]
            kind = kind_of(gpu, GpuDevices(self.devices), NO_GPU)
            if container and kind in kinds:
                counts = numbers.setdefault(container, [0] * len(kinds))
                counts[kinds.index(kind)] += 1
        return {container: tuple(counts) for container, counts in numbers.items()}

    def look(self) -> bool:
        """Read the GPUs and the kernel's log anew; whether the faults have changed. It runs
        programs for some seconds at most.
        """
        if not self.devices:
            return False
        self._readings = read_all(self._root, GpuDevices(self.devices))
        before = dict(self.faults)
        self._look_at_faults()
        return before != self.faults

    def restore(self) -> None:
        """Take GPUs back into service that failed by the kernel's log. Raises OSError."""
        for name, fault in self.faults.copy().items():
            if not fault.is_read:
                (self._locks / name).unlink(missing_ok=True)
        self._look_at_faults()

    def _look_at_faults(self) -> None:
        xids = {event.bus: event for event in read_xids(self._log.read()) if event.is_fault}
        faults: dict[str, GpuFault] = {}
        for gpu in self.devices:
            path = self._locks / gpu.fault_file
            fault = _read_fault(path)
            if fault is not None and fault.boot and fault.boot != self._log.boot:
                fault = None
            event = _event_of(gpu, xids)
            reading = self._readings.get(gpu.name)
            if event is not None:
                fault = self._fault_by(event)
            elif reading is not None and (fault is None or fault.is_read):
                reason = short(fault_of(reading) or _undivided(gpu, reading))
                fault = GpuFault(reason=reason, is_read=True) if reason else None
            _write_fault(path, fault)
            if fault is not None:
                faults[gpu.fault_file] = fault
        self.faults = faults
        for gpu in self._others:
            if (event := _event_of(gpu, xids)) is not None:
                _write_fault(self._locks / gpu.fault_file, self._fault_by(event))

    def _fault_by(self, event: XidEvent) -> GpuFault:
        return GpuFault(reason=short(event.reason), boot=self._log.boot)

    def _describe(self, gpu: GpuDevice) -> MachineGpu:
        is_used, container = _holder(self._locks / gpu.lock)
        reading = self._readings.get(gpu.name, GpuReading())
        fault = self.faults.get(gpu.fault_file)
        kind = ", ".join(gpu.kinds)
        return MachineGpu(
            device=gpu.name,
            is_used=is_used,
            container=container,
            kind=kind[:200],
            # Of an instance the driver tells neither: its reading is that of the whole GPU.
            busy=None if gpu.instance else reading.busy,
            memory=gpu.memory,
            memory_used=0 if gpu.instance else reading.memory_used,
            fault=fault.reason if fault else "",
        )


def _event_of(gpu: GpuDevice, events: Mapping[str, XidEvent]) -> XidEvent | None:
    """The Xid of a GPU, of events by PCI address."""
    return events.get(gpu.bus) if gpu.bus and gpu.stack == CUDA else None


def _undivided(gpu: GpuDevice, reading: GpuReading) -> str:
    """Reason why a GPU that is divided cannot be used as a whole, or ""."""
    if reading.is_divided and not gpu.instance:
        return "it is divided (MIG), and no specification names its instances; write it anew"
    return ""


def _with_kind(gpu: GpuDevice, gpus: GpuDevices, configured: Gpu) -> GpuDevice:
    kind = kind_of(gpu, gpus, configured)
    return structs.replace(gpu, kinds=kind.targets, memory=kind.vram, driver=kind.driver)


def _holder(lock: Path) -> tuple[bool, str]:
    """Whether somebody has a GPU, and the container, "" where its name is not that of one."""
    try:
        with lock.open("rb") as file:
            directory = file.read(_LONGEST_PATH).decode(errors="replace")
        if directory and Path(directory).exists():
            name = Path(directory).name
            return True, name if is_uuid(name, Infix.CONTAINER) else ""
    # Nobody has had it yet, or another user's supervisor has it.
    except (OSError, ValueError):
        pass
    return False, ""


def _read_fault(path: Path) -> GpuFault | None:
    try:
        # It may be a link to a pipe, or to a device without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, _LONGEST_PATH)
        finally:
            os.close(descriptor)
        fault = msgspec.json.decode(content, type=GpuFault)
        return structs.replace(fault, reason=short(fault.reason))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError, RecursionError):
        # Somebody has made the file by hand.
        return GpuFault(reason="an admin has taken it out of service", boot="")


def _write_fault(path: Path, fault: GpuFault | None) -> None:
    """Write the fault of a GPU for all supervisors of the machine."""
    # A dispatcher that may not write there still offers no GPU that has failed.
    with suppress(OSError):
        if fault is None:
            path.unlink(missing_ok=True)
        elif fault != _read_fault(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.new")
            aside.write_bytes(msgspec.json.encode(fault))
            aside.replace(path)
