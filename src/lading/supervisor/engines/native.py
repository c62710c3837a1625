"""The native engine: image layers on overlayfs, an OCI bundle, and a program that makes the
container of it (`runtimes`): lading-start, or crun where that is not there or cannot.

All its mounts are in the supervisor's own mount namespace (`linux.leave_mount_namespace`), so a
killed supervisor leaves no mount. The container is in its control group, and waits at a gate before
the command, which opens when the API has accepted the state Running.

crun refuses hybrid machines whose unified hierarchy still has a controller, so that hierarchy is
unmounted in the private namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from lading.core import images
from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.process import removal
from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.engines import (
    ContainerSpec,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    ImageSource,
    check_disk,
    check_live,
    crun,
)
from lading.supervisor.engines.accounts import LargeIds, account_of, check_architecture
from lading.supervisor.engines.adoption import (
    ID_LOCK,
    ID_NAMESPACE,
    LEASE,
    PROCESS,
    AdoptedProcess,
    RunningContainer,
    read_root,
)
from lading.supervisor.engines.bundle import (
    IN_MEMORY,
    Bundle,
    make_config,
    mount_root,
)
from lading.supervisor.engines.crun import null
from lading.supervisor.engines.gang import GATHER_TIME, NO_WAY_OUT
from lading.supervisor.engines.hooks import CUDA_HOOK, find_cuda_hook
from lading.supervisor.engines.mount_points import make_points, volume_binds
from lading.supervisor.engines.runtimes import Prepared, Runtime
from lading.supervisor.engines.runtimes.crun_runtime import CrunRuntime
from lading.supervisor.engines.runtimes.gang_runtime import GangRuntime
from lading.supervisor.engines.runtimes.starter_runtime import StarterRuntime
from lading.supervisor.engines.sampled_limits import end_above, with_limits
from lading.supervisor.engines.seccomp import make_annotation
from lading.supervisor.engines.user_namespace import UserNamespace, UserNamespacePolicy, refuse
from lading.supervisor.inputs.layers import LayerStore, Unpacked
from lading.supervisor.limits import counters
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy, find_hierarchy
from lading.supervisor.limits.limit_ways import OF_ROOT, LimitWays, find_ways, kernel_can_count
from lading.supervisor.machine import mount_table
from lading.supervisor.starter import starter

if TYPE_CHECKING:
    from lading.supervisor.engines.native_network import NativeNetwork

# Seconds for crun to answer, or for a dead process to vanish.
_CHECK_TIME = 10.0


class NativeEngine:
    """One container on this machine, run by `lading-start`, or by crun where that is not there or
    cannot. Needs root.
    """

    sees_private_mounts = True
    has_starter = True
    """Whether `lading-start` may run it."""

    def __init__(self, settings: EngineSettings) -> None:
        self._uuid = settings.container_uuid
        self._run = Path(settings.run_directory)
        # Directory of the files of the runtime.
        self._state = self._run
        kept = Amount(settings.disk_reserve, settings.disk_reserve_files)
        self._store = self._open_store(
            Path(settings.cache_directory), limit=settings.cache_size, reserve=kept
        )
        self._cgroup = Cgroup(self._hierarchy(), settings.container_uuid)
        self._image: Unpacked | None = None
        self._lease = -1
        self._process: subprocess.Popen[bytes] | AdoptedProcess | None = None
        self._runtime: Runtime = self._crun_runtime()
        if self.has_starter and starter.is_available():
            self._runtime = StarterRuntime(self._run, self._log, self._cgroup)
        self._gang: GangRuntime | None = None
        self._is_held = False
        self._is_bundle_bare = False
        self._policy = settings.user_namespaces
        self._namespace: UserNamespace | None = None
        self._network: NativeNetwork | None = None
        self._ways = LimitWays()
        self.notes: list[str] = []
        self.root_directory: Path | None = None
        """See `engines.root_directory`."""

    @staticmethod
    def warm() -> None:
        """Prepare for all forks of this process: the programs and the seccomp filter in memory, and
        /dev/null open.
        """
        crun.sealed.seal()
        starter.warm()
        make_annotation(os.uname().machine)
        null()

    def is_occupied(self, path: str) -> bool:
        """See `engines.is_occupied`. Raises OSError."""
        return self._image is None or self._image.is_occupied(path)

    @property
    def pid(self) -> int | None:
        """The process that runs the container; it is in the container's cgroup."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def check(self) -> str:
        """The version of its program. Raises ExecutionError(NODE) when there is none, without
        root, and when the disk is full.
        """
        if os.geteuid() != 0:
            raise ExecutionError(
                "the native engine needs root, or user namespaces for this user: lading doctor",
                Failure.NODE,
            )
        version = await self._runtime.version()
        check_disk(self._run)
        return version

    async def prepare(self, image: ImageSource) -> None:
        """Unpack the image's layers. Raises ExecutionError."""
        self._image, self._lease = await self._store.lease(image)
        self.notes += self._image.notes
        check_architecture(self._image.config)

    async def create(self, spec: ContainerSpec) -> None:
        """Mount the root, write the bundle, start the runtime up to the gate. Raises
        ExecutionError.
        """
        if self._image is None:
            raise ExecutionError(f"{self._uuid}: no image was prepared")
        if not linux.has_own_mounts():
            raise ExecutionError(
                "the native engine mounts only in a mount namespace of its own;"
                " leave this one first"
            )
        self.notes += self._cgroup.make(ram=spec.ram, vcpus=spec.vcpus, processes=spec.processes)
        if spec.nodes == 1:
            images.check_command(self._image.config, spec.command)
        if spec.nodes > 1:
            self._runtime = self._gang = GangRuntime(self._uuid, self._run, self._log, self._cgroup)
        elif spec.hooks or (spec.cuda and shutil.which(CUDA_HOOK)):
            # Hooks are crun's.
            self._runtime = self._crun_runtime()
        try:
            self._enter_namespace(spec, self._image.large_ids)
            try:
                # A file system that cannot be idmapped fails here; the container is made without a
                # user namespace.
                self._make_mapped(spec, self._image)
            except OSError as error:
                if self._namespace is None:
                    raise
                self._leave_namespace(error)
                self._make_bundles(spec, self._image)
            notice = self._network.notice if self._network is not None else ""
            process = self._process = self._runtime.start(self._complete(spec), notice)
            if self._network is not None:
                await self._network.connect(process.pid)
        except OSError as error:
            raise ExecutionError(
                f"{self._uuid}: the container cannot be made: {error}", Failure.NODE
            ) from error
        note = self._ways.sentence()
        self.notes += [note] if note else []

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Open the gate and wait for the end of the command; its memory is sampled where no control
        group limits it. Raises ExecutionError when it was not started.
        """
        running = self._run_command(stop, stop_grace)
        if not self._ways.sampled_ram:
            return await running
        return await end_above(self._ways.sampled_ram, running, lambda: self.pid)

    async def _run_command(self, stop: asyncio.Event, stop_grace: float) -> Exit:
        process = self._process
        if process is None:
            raise ExecutionError(f"{self._uuid}: no container was created")
        if not isinstance(process, AdoptedProcess):
            self._runtime.open_gate()
        stopper = asyncio.create_task(self._stop_when(stop, stop_grace), name="stopper")
        try:
            if isinstance(process, AdoptedProcess):
                await process.ended()
            else:
                await linux.ended(process.pid)
        finally:
            stopper.cancel()
            await asyncio.gather(stopper, return_exceptions=True)
        code = process.wait()
        if self._gang is not None:
            # The conductor is dead and cannot end its containers.
            full, refused = self._cgroup.out_of_memory_kills() > 0, self._cgroup.refused_processes()
            # Before the output is merged: live ranks could change it.
            await self._kill_rest()
            ended = await self._gang.ended(code, stop=stop, out_of_memory=full)
            return structs.replace(ended, refused_processes=refused)
        full, refused = self._cgroup.out_of_memory_kills() > 0, self._cgroup.refused_processes()
        # The runtime exits with 128 + signal for a command that a signal ended; a signal ends it
        # only from outside, or because the container, which it is in, has used all of its memory.
        is_killed = code < 0 and not stop.is_set() and not full
        if code != 0 and not stop.is_set() and not is_killed:
            self._runtime.check_started(code)
        return Exit(
            code=code if code >= 0 else 128 - code,
            out_of_memory=full,
            refused_processes=refused,
            lost=f"the {self._runtime.name} that ran the container was ended by signal {-code}"
            if is_killed
            else "",
        )

    def running(self) -> tuple[RunningContainer, dict[str, int]] | None:
        """See `AdoptingEngine`: only containers of `lading-start` without a network."""
        runtime, pid = self._runtime, self.pid
        if pid is None or self._network is not None or not isinstance(runtime, StarterRuntime):
            return None
        descriptors = {LEASE: self._lease}
        mapping = self._namespace.mapping if self._namespace is not None else None
        if mapping is not None:
            descriptors |= {ID_LOCK: mapping.lock, ID_NAMESPACE: mapping.namespace}
        container = RunningContainer(
            pid=pid,
            config=dict(runtime.config),
            root_directory=str(self.root_directory or ""),
            first_id=mapping.first if mapping is not None else None,
            sampled_ram=self._ways.sampled_ram,
        )
        return container, descriptors

    def adopt(self, container: RunningContainer, descriptors: Mapping[str, int]) -> None:
        """See `AdoptingEngine`."""
        runtime = self._runtime
        if not isinstance(runtime, StarterRuntime):
            raise ExecutionError(f"{self._uuid}: {starter.NAME} is not here any more", Failure.NODE)
        # The group is there, with its limits.
        self._cgroup.make()
        if container.first_id is not None:
            namespace = self._namespace = self._new_namespace()
            namespace.adopt(
                container.first_id,
                namespace=descriptors[ID_NAMESPACE],
                lock=descriptors[ID_LOCK],
            )
            if self._cgroup.join_files:
                self._state = namespace.directory
        runtime.adopt(self._state, self._namespace, container.config)
        self._ways = LimitWays(ram=container.sampled_ram)
        self.root_directory = read_root(container)
        self._process = AdoptedProcess(container.pid, descriptors[PROCESS], lambda: runtime.code)

    async def abort(self) -> None:
        """Kill the processes of its control group, or of the runtime where it has none."""
        if self._process is not None and self._process.poll() is None:
            if not self._cgroup.join_files:
                for pid in counters.descendants(self._process.pid)[1:]:
                    # The process has ended already.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(self._cgroup.remove)

    @property
    def first(self) -> int | None:
        """The container's first process."""
        if self.pid is None and not self._is_held:
            return None
        return self._runtime.first()

    async def execute(self, order: Exec) -> Execution:
        """Start it in the container's namespaces and cgroup, with the rights of the command."""
        if self.first is None:
            raise ExecutionError(f"{self._uuid}: is not running")
        return await self._runtime.execute(order)

    async def hold(self) -> None:
        """Make the container again on the same root, without its command."""
        await self._runtime.hold()
        self._is_held = True
        if self._network is not None and self.first is not None:
            await self._network.reconnect(self.first)

    async def kill(self) -> None:
        """Kill the processes of its control group; the first one takes its whole pid namespace
        along.
        """
        # Without control groups nothing is left of an ended command; `crun delete` looks for the
        # rest. A group that could be removed was empty. One without processes may be busy for a
        # moment more.
        if self._is_held or (not self._cgroup.remove_empty() and self._cgroup.processes()):
            first = self.first
            await self._kill_rest()
            # It has left its control group, but ends with the rest of its pid namespace some
            # milliseconds later.
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                if first is not None:
                    await finish_within(linux.ended(first), _CHECK_TIME)
        self._is_held = False

    async def remove(self) -> None:
        """Kill remaining processes, remove the cgroup and the mounts. Idempotent."""
        self._runtime.close_gate()
        await self._kill_rest()
        if self._network is not None:
            await self._network.close()
            self._network = None
        if self._process is not None:
            if self._process.poll() is None:
                await asyncio.to_thread(self._process.wait)
            self._process = None
        await self._runtime.remove()
        # Also for a process that found the container after a crash and never opened a namespace.
        (self._namespace or self._new_namespace()).close()
        if not self._is_bundle_bare:
            linux.unmount_below(self._run / "bundle")
        removal.discard(self._run / "bundle", aside=removal.beside(self._run))
        if self._state == self._run:
            removal.discard(self._run / "crun", aside=removal.beside(self._run))
        self._log.unlink(missing_ok=True)
        if self._lease >= 0:
            os.close(self._lease)
            self._lease = -1

    def _make_mapped(self, spec: ContainerSpec, image: Unpacked) -> None:
        """Make the bundles, with the large ids of the image's user, which its own files tell.
        Raises OSError, ExecutionError.
        """
        try:
            self._make_bundles(spec, image)
        except LargeIds as account:
            self._runtime.close_gate()
            if self._namespace is not None:
                self._namespace.close()
                self._namespace.open(image.large_ids | account.ids)
            linux.discard_directory(self._run / "bundle", aside=removal.beside(self._run))
            self._make_bundles(spec, image)

    def _enter_namespace(self, spec: ContainerSpec, ids: frozenset[int]) -> None:
        """Take a range of user ids, with these large ones, if available. Raises ExecutionError when
        the policy requires one, or for too many large ids.
        """
        if self._policy == UserNamespacePolicy.NEVER:
            return
        self._namespace = self._new_namespace()
        try:
            if spec.cuda and shutil.which(CUDA_HOOK):
                raise OSError(
                    errno.ENOTSUP, f"{CUDA_HOOK} adds the driver's libraries as the machine's root"
                )
            self._namespace.open(ids)
            # Files in memory are lost when this process is killed, and without a control group crun
            # must know the remaining processes to kill. The conductor of a gang reads files of its
            # ranks on disk.
            if self._cgroup.join_files and spec.nodes == 1:
                self._state = self._namespace.directory
        except OSError as error:
            self._leave_namespace(error)

    def _leave_namespace(self, error: OSError) -> None:
        """Continue with the machine's user ids. Raises ExecutionError when the policy forbids
        that.
        """
        self.notes.append(refuse(self._policy, error))
        self._runtime.close_gate()
        self._state = self._run
        if self._namespace is not None:
            self._namespace.close()
            self._namespace = None
        linux.discard_directory(self._run / "bundle", aside=removal.beside(self._run))

    def _make_bundles(self, spec: ContainerSpec, image: Unpacked) -> None:
        """Mount the root and write the bundle, for a gang one for each rank here. Raises
        OSError.
        """
        self._ways = find_ways(
            ram=spec.ram,
            vcpus=spec.vcpus,
            processes=spec.processes,
            enforced=self._cgroup.enforced,
            group=self._kernel_way,
            # The kernel bounds no process of the machine's root.
            can_count=kernel_can_count() and self._namespace is not None,
            can_sample=self._gang is None,
        )
        network = self._network = self._make_network(spec)
        scratch = volume_binds(image.config.volumes, spec.binds, self._run / "bundle" / "volumes")
        of_network = network.binds() if network else ()
        prepared = self._runtime.prepare(self._state, self._namespace, self.notes)
        spec = structs.replace(spec, binds=(*of_network, *spec.binds, *scratch, *prepared.binds))
        if self._namespace is not None:
            devices = self._namespace.devices(spec.devices)
            spec = structs.replace(
                spec, binds=(*self._namespace.binds(spec.binds), *devices), devices=()
            )
        else:
            check_live(spec.binds, "; ".join(self.notes) or "Containers.UserNamespaces is never")
        spec = structs.replace(spec, binds=(*spec.binds, *prepared.own_binds))
        if self._gang is None:
            self._make_bundle(self._run / "bundle", spec, image, prepared)
            # With a user namespace the root is mounted elsewhere. Looking for mounts reads the
            # machine's whole mount table.
            self._is_bundle_bare = self._namespace is not None and IN_MEMORY not in self.notes
            return
        files = self._gang.files
        if spec.network:
            self.notes += [] if NO_WAY_OUT in self.notes else [NO_WAY_OUT]
            spec = structs.replace(spec, network=False)
        for rank in files.here(spec):
            idle = structs.replace(spec, command=(), environment=(), cwd="")
            self._make_bundle(files.bundle(rank), idle, image, prepared, name=f"rootfs-{rank}")

    def _make_bundle(
        self,
        bundle: Path,
        spec: ContainerSpec,
        image: Unpacked,
        prepared: Prepared,
        *,
        name: str = "rootfs",
    ) -> None:
        rootfs, note = mount_root(image.layers, bundle, self._namespace, name=name)
        if note and note not in self.notes:
            self.notes.append(note)
        owner = self._namespace.root if self._namespace is not None else 0
        make_points(rootfs, image.config.volumes, spec.binds, owner=owner)
        # The ranks of a gang have a root each.
        self.root_directory = rootfs if spec.nodes == 1 else None
        self._runtime.describe(self._configure(spec, image, rootfs, prepared), bundle)

    def _complete(self, spec: ContainerSpec) -> ContainerSpec:
        """The specification of a gang with the directory of the image, for its conductor."""
        if self._gang is None or self._image is None:
            return spec
        process = images.process(
            self._image.config, command=spec.command, environment=(), cwd=spec.cwd
        )
        return structs.replace(spec, cwd=process.cwd)

    def _configure(
        self, spec: ContainerSpec, image: Unpacked, rootfs: Path, prepared: Prepared
    ) -> dict[str, object]:
        process = images.process(
            image.config, command=spec.command, environment=spec.environment, cwd=spec.cwd
        )
        if process.arguments:
            arguments = (*prepared.arguments, *process.arguments)
            process = structs.replace(process, arguments=arguments)
        account = account_of(process.user, rootfs)
        if self._namespace is not None and (ids := self._namespace.lacking(account)):
            raise LargeIds(ids)
        hook, note = find_cuda_hook(spec.cuda)
        self.notes += [note] if note else []
        config = make_config(
            Bundle(
                rootfs=str(rootfs),
                process=process,
                account=account,
                binds=spec.binds,
                gate=prepared.gate,
                machine=os.uname().machine,
                notice=self._network.notice if self._network is not None else "",
                ids=self._namespace.extents if self._namespace is not None else (),
                devices=spec.devices,
                cuda=spec.cuda,
                cuda_hook=hook,
                hooks=spec.hooks,
            )
        )
        return with_limits(config, self._ways)

    def _make_network(self, spec: ContainerSpec) -> NativeNetwork | None:
        if not spec.network or spec.nodes > 1:
            return None
        if self._network is not None:
            return self._network
        # Imported here, because most containers have no network.
        from lading.supervisor.engines.native_network import NativeNetwork

        return NativeNetwork(spec.reach, self._run)

    # What differs without root (`rootless_engine`).

    _kernel_way = OF_ROOT

    def _open_store(self, cache: Path, *, limit: int, reserve: Amount) -> LayerStore:
        return LayerStore(cache, limit=limit, reserve=reserve)

    def _hierarchy(self) -> Hierarchy:
        return _machine_hierarchy()

    def _new_namespace(self) -> UserNamespace:
        return UserNamespace(self._run)

    @property
    def _log(self) -> Path:
        # On disk, so that the command line of the runtime shows the run directory.
        return self._run / "crun.log"

    async def _stop_when(self, stop: asyncio.Event, grace: float) -> None:
        await stop.wait()
        await self._runtime.stop(lambda: self.pid, grace=grace)
        await asyncio.sleep(grace if self._gang is None else grace + GATHER_TIME)
        await asyncio.to_thread(self._cgroup.remove)

    async def _kill_rest(self) -> None:
        # Starting a thread takes longer than removing an empty group.
        left = [] if self._cgroup.remove_empty() else await asyncio.to_thread(self._cgroup.remove)
        if left:
            raise ExecutionError(f"{self._uuid}: processes {left} do not die", Failure.NODE)
        await self._runtime.end()

    def _crun_runtime(self) -> CrunRuntime:
        return CrunRuntime(self._uuid, self._run, self._log, self._cgroup)


@functools.cache
def _machine_hierarchy() -> Hierarchy:
    # Read once by each process: the controllers of a machine stay where they are mounted, and its
    # mount table takes 0.1 ms to read.
    return find_hierarchy(mount_table())
