"""Specification of a container for its engine, and the locks on its GPUs.

The specification is made from the record, the prepared mounts, and the streams.

The GPUs of a container are locked for as long as it runs, so that no two containers share one. The
holder of a GPU locks its file in a directory of the machine. The file names the run directory:
while that exists without its supervisor (killed, not cleaned up yet), the command may still be
alive and use the GPU, so it stays taken. Locks end with their processes and directories, so nothing
needs to be cleaned up.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from lading.core.containers.constraints import has_internet, has_network
from lading.core.containers.container import Container
from lading.core.errors import ExecutionError, Failure, Invalid
from lading.core.gpu_architectures import CUDA
from lading.core.hpc.gang import FILES, KEYS, NO_GANG, read_gang
from lading.core.scheduling import gpu_devices
from lading.core.scheduling.gpu_devices import GpuDevice, GpuDevices
from lading.core.scheduling.instance_types import Gpu, requested_gpus
from lading.supervisor.engines import (
    Bind,
    ContainerSpec,
    Device,
    EngineHook,
    NetworkAccess,
    Spread,
    ignore_fault,
)
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.machine import certificates
from lading.supervisor.supervisor_config import SupervisorConfig

# Seconds to wait for a free GPU: an earlier container may still be ending.
_PATIENCE = 30.0
# Seconds between two attempts.
_PAUSE = 0.1
CERTIFICATES = "/etc/arvados/ca-certificates.crt"


class Given(msgspec.Struct, frozen=True, kw_only=True):
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
        self._held: list[int] = []

    async def take(
        self, constraints: Mapping[str, object], *, patience: float = _PATIENCE
    ) -> Given:
        """Lock as many as requested. Raises ExecutionError(NODE) when this machine has none of that
        kind, or none free.

        An earlier container may need a moment to release its own.
        """
        gpu = constraints.get("gpu")
        if not isinstance(gpu, Mapping) or not gpu.get("device_count"):
            return Given()
        asked = requested_gpus(constraints)
        found = self._find(asked)
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        # Polled: a lock of the kernel tells nobody that it is free, unless one waits for it in a
        # thread.
        while not (locked := await self._try(found, asked.count)):
            if loop.time() > until:
                raise ExecutionError(
                    f"fewer than {asked.count} of the {len(found.devices)} GPUs"
                    " of this machine are free",
                    Failure.NODE,
                )
            await asyncio.sleep(_PAUSE)
        # Imported here: few containers have GPUs.
        from lading.supervisor.device_edits import find_files

        root = Path(self._config.device_root)
        try:
            files = await asyncio.to_thread(find_files, root, found, locked)
        except ExecutionError:
            self.release()
            raise
        return Given(
            devices=files.devices,
            binds=files.binds,
            environment=files.environment,
            hooks=files.hooks,
            cuda=() if files.has_driver else _numbers(found, locked),
            notes=files.notes,
        )

    def release(self) -> None:
        """Release them. Idempotent."""
        # Emptied before the locks are released: an empty file names no container that may still use
        # the GPU.
        held, self._held = self._held, []
        for descriptor in held:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _find(self, asked: Gpu) -> GpuDevices:
        devices = Path(self._config.device_root) / "dev"
        names = [
            str(path.relative_to(devices)) for path in (*devices.glob("*"), *devices.glob("dri/*"))
        ]
        try:
            found = gpu_devices.only_cards(gpu_devices.find_gpus(names), self._config.visible_gpus)
        except Invalid as error:
            raise ExecutionError(error.message, Failure.NODE) from error
        lack = gpu_devices.unsuited_gpu(asked, Gpu(stack=found.stack, count=len(found.devices)))
        if lack:
            raise ExecutionError(f"this machine cannot run it: {lack}", Failure.NODE)
        return found

    async def _try(self, found: GpuDevices, count: int) -> tuple[GpuDevice, ...]:
        directory = self._config.device_directory
        try:
            return await asyncio.to_thread(self._lock, found, count)
        except OSError as error:
            fault = (
                f"the GPUs cannot be shared out in {directory} ({error.strerror});"
                " set Local.ShareDirectory"
            )
            raise ExecutionError(fault, Failure.NODE) from error

    def _lock(self, found: GpuDevices, count: int) -> tuple[GpuDevice, ...]:
        """Lock all of them or none, so that two containers that need several never wait for each
        other.
        """
        taken: list[GpuDevice] = []
        for gpu in found.devices:
            if len(taken) < count and self._hold(
                Path(self._config.device_directory) / gpu_devices.lock_name(found.stack, gpu)
            ):
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
        earlier = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
        # The lock is free, but the directory of its former holder is still there.
        if earlier not in ("", self._config.run_directory) and Path(earlier).exists():
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        # Written under the lock, for the next holder after a kill of this process.
        os.pwrite(descriptor, self._config.run_directory.encode(), 0)
        self._held.append(descriptor)
        return True


def _numbers(found: GpuDevices, locked: Sequence[GpuDevice]) -> tuple[int, ...]:
    return tuple(gpu.number for gpu in locked) if found.stack == CUDA else ()


def specify(
    container: Container,
    stage: Stage,
    assignment: SupervisorConfig,
    *,
    token: str,
    given: Given,
    stdout: int,
    stderr: int,
    notices: int = -1,
    spread: Spread | None = None,
    on_network_fault: Callable[[str], None] = ignore_fault,
) -> ContainerSpec:
    """Make the specification.

    `token` is the container's own token, which it gets only when it may use the API; `given` has
    its GPUs. `on_network_fault` hears of a network that is lost.
    """
    scheduling = container.scheduling_parameters
    gang = NO_GANG if scheduling.keys().isdisjoint(KEYS) else read_gang(scheduling)
    # Without `spread` all ranks of the gang share one container on this machine.
    here = gang.nodes if spread is None else 1
    environment = {name: str(value) for name, value in container.environment.items()}
    # In no record, and on no command line: engines pass the environment on in files of their own.
    environment |= {one.name: one.value for one in stage.plan.variables}
    binds = list(stage.binds)
    api: tuple[str, ...] = ()
    if container.runtime_constraints.get("API") is True:
        api = (assignment.api_host, *assignment.api_addresses)
        environment |= _api_variables(assignment, token)
        bundle = certificates()
        # A mount of the request at this path takes precedence.
        if bundle and all(bind.target != CERTIFICATES for bind in binds):
            binds.append(Bind(bundle, CERTIFICATES, True))
    # Those of the request come first, and take precedence.
    binds += free_binds(given.binds, binds)
    environment |= dict(given.environment)
    files = _files_of_ranks(binds) if gang.nodes > 1 else {}
    shares = gang.shares_vcpus and spread is None
    if shares:
        # Open MPI: a process that waits gives its processor to another one.
        environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return ContainerSpec(
        files=tuple((name, bind.source) for name, bind in files.items()),
        command=tuple(container.command),
        environment=tuple(environment.items()),
        cwd=container.cwd,
        binds=tuple(bind for bind in binds if bind not in files.values()),
        network=has_network(container.runtime_constraints),
        reach=NetworkAccess(
            api=api,
            internet=has_internet(
                container.runtime_constraints, with_api=assignment.internet_with_api
            ),
            refused=assignment.refused_networks,
            on_fault=on_network_fault,
        ),
        devices=given.devices,
        cuda=given.cuda,
        hooks=given.hooks,
        # Constraints are for one rank; 0 (no limit) stays 0.
        ram=amount(container.runtime_constraints, "ram") * here,
        vcpus=amount(container.runtime_constraints, "vcpus") * (1 if shares else here),
        processes=assignment.max_processes * here,
        stdin=stage.stdin,
        stdout=stdout,
        stderr=stderr,
        nodes=gang.nodes,
        spread=spread,
        launcher=gang.launcher,
        rank_failure=gang.policy,
        stop_grace=assignment.stop_grace_period,
        output_path=container.output_path,
        notices=notices,
    )


def _api_variables(assignment: SupervisorConfig, token: str) -> dict[str, str]:
    """The variables by which a command finds the API, with the container's own token."""
    variables = {"ARVADOS_API_TOKEN": token, "ARVADOS_API_HOST": assignment.api_host}
    if assignment.api_host_insecure:
        variables["ARVADOS_API_HOST_INSECURE"] = "1"
    return variables


def free_binds(binds: Iterable[Bind], taken: Iterable[Bind]) -> list[Bind]:
    """The binds whose targets are neither those of others nor below them."""
    targets = [bind.target.rstrip("/") for bind in taken]
    return [
        bind
        for bind in binds
        if not any(f"{bind.target}/".startswith(f"{target}/") for target in targets)
    ]


def _files_of_ranks(binds: Iterable[Bind]) -> dict[str, Bind]:
    """The files among the binds that the daemon of each rank writes, by name: as files of its own,
    which everybody may read and write (docs/spec/hpc-daemon, section Files).
    """
    found: dict[str, Bind] = {}
    for bind in binds:
        folder, _, name = bind.target.rpartition("/")
        if folder == FILES and bind.live is None and Path(bind.source).is_file():
            found[name] = bind
    return found


def amount(constraints: Mapping[str, object], name: str) -> int:
    """A number of the runtime constraints; 0 when the request has none."""
    value = constraints.get(name)
    return value if isinstance(value, int) and value > 0 else 0
