"""The locks on the GPUs of a container.

The GPUs of a container are locked for as long as it runs, so that no two containers share one. The
holder of a GPU locks its file in a directory of the machine. The file names the run directory:
while that exists without its supervisor (killed, not cleaned up yet), the command may still be
alive and use the GPU, so it stays taken. Locks end with their processes and directories, so nothing
needs to be cleaned up.

Which GPUs the machine has, and what each is, the dispatcher of the machine says; a supervisor of a
batch job, a Pod or a VM finds them. A batch job has those GPUs alone that its batch system gave it:
by their numbers, and by the device files that its control group lets it open.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError, Failure, Invalid
from lading.core.gpu_architectures import CUDA
from lading.core.gpus.devices import GpuDevice, GpuDevices, only_cards
from lading.core.scheduling.gpu_kinds import kind_of, kinds_of, unsuited_gpu, unsuited_kinds
from lading.core.scheduling.instance_types import Gpu, requested_gpus
from lading.supervisor.engines import Bind, Device, EngineHook
from lading.supervisor.supervisor_config import SupervisorConfig

# Seconds to wait for a free GPU: an earlier container may still be ending.
_PATIENCE = 30.0
_LONGEST_PATH = 8192
# Seconds between two attempts.
_PAUSE = 0.1


class LockedGpus(msgspec.Struct, frozen=True, kw_only=True):
    """Result of locking: device files, and the driver's files and variables with them; else the
    numbers of its NVIDIA GPUs, for a program of NVIDIA that adds these. `notes` are for the log.
    """

    devices: tuple[Device, ...] = ()
    binds: tuple[Bind, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    hooks: tuple[EngineHook, ...] = ()
    cuda: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Sentence for the log; "" without devices."""
        if not self.devices:
            return ""
        names = ", ".join(device.target for device in self.devices)
        files = f", and {len(self.binds)} files of their driver" if self.binds else ""
        return "; ".join((f"given the devices {names}{files}", *self.notes))


class GpuLocks:
    """The GPUs that this supervisor holds."""

    def __init__(self, config: SupervisorConfig) -> None:
        self._config = config
        self._locks: list[int] = []
        self.taken: tuple[GpuDevice, ...] = ()
        """The GPUs that were locked last."""

    async def take(
        self, constraints: Mapping[str, object], *, patience: float = _PATIENCE
    ) -> LockedGpus:
        """Lock as many as requested. Raises ExecutionError(NODE) when this machine has none of that
        kind, or none free.

        An earlier container may need a moment to release its own.
        """
        gpu = constraints.get("gpu")
        if not isinstance(gpu, Mapping) or not gpu.get("device_count"):
            return LockedGpus()
        asked = requested_gpus(constraints)
        gpus = await asyncio.to_thread(self._find)
        suited = self._suited(gpus, asked)
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        # Polled: a lock of the kernel tells nobody that it is free, unless one waits for it in a
        # thread.
        while not (locked := await self._try(suited, asked.count)):
            if loop.time() > until:
                raise ExecutionError(
                    f"fewer than {asked.count} of the {len(suited)} GPUs of this machine are free",
                    Failure.NODE,
                )
            await asyncio.sleep(_PAUSE)
        # Imported here: few containers have GPUs.
        from lading.supervisor.device_edits import find_files

        root = Path(self._config.device_root)
        try:
            files = await asyncio.to_thread(find_files, root, gpus, locked)
        except ExecutionError:
            self.release()
            raise
        self.taken = locked
        return LockedGpus(
            devices=files.devices,
            binds=files.binds,
            environment=files.environment,
            hooks=files.hooks,
            cuda=() if files.has_driver else _numbers(locked),
            notes=files.notes,
        )

    def release(self) -> None:
        """Release them. Idempotent."""
        # Emptied before the locks are released: an empty file names no container that may still use
        # the GPU.
        held, self._locks = self._locks, []
        for descriptor in held:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _find(self) -> GpuDevices:
        """The GPUs that the container may have."""
        # Imported here: few containers have GPUs.
        from lading.process.gpus.inventory import find_devices

        root = Path(self._config.device_root)
        gpus = find_devices(root)
        if self._config.gpus:
            return structs.replace(gpus, devices=self._config.gpus)
        visible = self._config.visible_gpus or _of_pod(os.environ)
        try:
            usable = tuple(gpu for gpu in gpus.devices if not visible or _may_open(root, gpu))
            if len(usable) < len(gpus.devices):
                # The control group of a job has its GPUs alone: numbers may count from its first.
                return structs.replace(gpus, devices=usable)
            return only_cards(_with_parts(root, gpus, visible), visible)
        except Invalid as error:
            raise ExecutionError(error.message, Failure.NODE) from error

    def _suited(self, gpus: GpuDevices, asked: Gpu) -> list[GpuDevice]:
        """Those that suit, the one with the least memory first: a larger one is left for a request
        that needs it.
        """
        lack = unsuited_kinds(asked, kinds_of(gpus, Gpu()))
        if lack:
            raise ExecutionError(f"this machine cannot run it: {lack}", Failure.NODE)
        single = structs.replace(asked, count=1)
        suited = [
            gpu
            for gpu in gpus.devices
            if not unsuited_gpu(single, structs.replace(kind_of(gpu, gpus, Gpu()), count=1))
        ]
        return sorted(suited, key=lambda gpu: (not gpu.memory, gpu.memory))

    async def _try(self, gpus: Sequence[GpuDevice], count: int) -> tuple[GpuDevice, ...]:
        directory = self._config.device_directory
        try:
            return await asyncio.to_thread(self._lock, gpus, count)
        except OSError as error:
            self.release()
            fault = (
                f"the GPUs cannot be shared out in {directory} ({error.strerror});"
                " set Local.ShareDirectory"
            )
            raise ExecutionError(fault, Failure.NODE) from error

    def _lock(self, gpus: Sequence[GpuDevice], count: int) -> tuple[GpuDevice, ...]:
        """Lock all of them or none, so that two containers that need several never wait for each
        other.
        """
        directory = Path(self._config.device_directory)
        taken: list[GpuDevice] = []
        for gpu in gpus:
            is_out = (directory / gpu.fault_file).exists()
            if len(taken) < count and not is_out and self._hold(directory / gpu.lock):
                taken.append(gpu)
        if len(taken) < count:
            self.release()
            return ()
        return tuple(taken)

    def _hold(self, path: Path) -> bool:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        earlier = os.pread(descriptor, _LONGEST_PATH, 0).decode(errors="replace")
        # The lock is free, but the directory of its former holder is still there.
        if earlier not in ("", self._config.run_directory) and _is_there(earlier):
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        # Written under the lock, for the next holder after a kill of this process.
        os.pwrite(descriptor, self._config.run_directory.encode(), 0)
        self._locks.append(descriptor)
        return True


def _is_there(directory: str) -> bool:
    """Whether a run directory is there, as far as this user can see."""
    try:
        return Path(directory).exists()
    except OSError as error:
        # A directory that cannot be looked at may be there. One with such a name cannot.
        return error.errno != errno.ENAMETOOLONG


def _of_pod(environment: Mapping[str, str]) -> str:
    """The GPUs that the device plugin of NVIDIA has given to a Pod; a privileged one sees all."""
    words = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    return words if words.startswith(("GPU-", "MIG-")) else ""


def _with_parts(root: Path, gpus: GpuDevices, visible: str) -> GpuDevices:
    """The GPUs of a Pod that has an instance: no specification is there, and of the capabilities
    those of the instance alone.
    """
    parts = tuple(
        f"nvidia-caps/{path.name}"
        for path in sorted((root / "dev/nvidia-caps").glob("nvidia-cap*"))
    )
    is_named = any(gpu.instance for gpu in gpus.devices)
    if is_named or not parts or not visible.startswith("MIG-") or len(gpus.devices) != 1:
        return gpus
    instance = structs.replace(
        gpus.devices[0], uuid=visible, instance=visible, parts=parts, kinds=(), memory=0
    )
    return structs.replace(gpus, devices=(instance,))


def _may_open(root: Path, gpu: GpuDevice) -> bool:
    """Whether the control group of this process lets it open the device file of a GPU."""
    try:
        descriptor = os.open(root / "dev" / gpu.device, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # Any other error is of the device, and its container hears of it.
        return error.errno not in (errno.EPERM, errno.EACCES)
    os.close(descriptor)
    return True


def _numbers(locked: Sequence[GpuDevice]) -> tuple[int, ...]:
    return tuple(gpu.number for gpu in locked if gpu.stack == CUDA and not gpu.instance)
