"""The native engine: image layers on overlayfs, an OCI bundle, and crun.

All its mounts are in the supervisor's own mount namespace (`linux.leave_mount_namespace`), so a
killed supervisor leaves no mount. crun is started in the container's cgroup and stops at a gate
before the command: a hook waits for a line from a pipe that only this process can write. The gate
opens when the API has accepted the state Running; when this process dies, the pipe ends and nothing
is started.

crun refuses hybrid machines whose unified hierarchy still has a controller, so that hierarchy is
unmounted in the private namespace; the cgroup is made here (`--cgroup-manager=disabled`). crun is
started by a thread in the cgroup, where cgroups contain threads (version 1), else by a shell that
joins it and becomes crun.
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
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from lading.core import images
from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.process import removal
from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.engines import (
    Bind,
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
from lading.supervisor.engines.bundle import (
    CUDA_HOOK,
    IN_MEMORY,
    OPEN_LINE,
    Bundle,
    find_cuda_hook,
    make_config,
    mount_root,
)
from lading.supervisor.engines.container_init import ContainerInit, open_init, rank_init
from lading.supervisor.engines.crun import null
from lading.supervisor.engines.gang import NO_WAY_OUT, GangFiles
from lading.supervisor.engines.mount_points import make_points, volume_binds
from lading.supervisor.engines.seccomp import make_annotation
from lading.supervisor.engines.user_namespace import UserNamespace, UserNamespacePolicy, refuse
from lading.supervisor.inputs.layers import LayerStore, Unpacked
from lading.supervisor.limits import counters
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy, find_hierarchy
from lading.supervisor.machine import mount_table
from lading.supervisor.starter import starter
from lading.supervisor.starter.plan import Gate
from lading.supervisor.starter.starter import Starter

if TYPE_CHECKING:
    from lading.supervisor.engines.native_network import NativeNetwork
    from lading.supervisor.gang.gang_output import GangOutput

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
        # Directory of crun's files: in memory with a user namespace, since each file on disk costs
        # time when it is removed.
        self._state = self._run
        kept = Amount(settings.disk_reserve, settings.disk_reserve_files)
        self._store = self._open_store(
            Path(settings.cache_directory), limit=settings.cache_size, kept=kept
        )
        self._cgroup = Cgroup(self._hierarchy(), settings.container_uuid)
        self._image: Unpacked | None = None
        self._lease = self._gate = self._reading = -1
        self._crun: subprocess.Popen[bytes] | None = None
        self._starter: Starter | None = None
        if self.has_starter and starter.is_available():
            self._starter = Starter(self._run, self._log)
        self._config: dict[str, object] = {}
        self._init: ContainerInit | None = None
        # Arguments with which the first process of crun's container starts the command.
        self._before: tuple[str, ...] = ()
        self._is_held = False
        self._is_bundle_bare = False
        self._policy = settings.user_namespaces
        self._namespace: UserNamespace | None = None
        self._gang: GangFiles | None = None
        self._gang_output: GangOutput | None = None
        self._network: NativeNetwork | None = None
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
        return self._crun.pid if self._crun and self._crun.returncode is None else None

    async def check(self) -> str:
        """The version of its program. Raises ExecutionError(NODE) when there is none, without
        root, and when the disk is full.
        """
        if os.geteuid() != 0:
            raise ExecutionError(
                "the native engine needs root, or user namespaces for this user: lading doctor",
                Failure.NODE,
            )
        program = (crun.PROGRAM, "--version")
        if self._starter is not None:
            program = (str(starter.PROGRAM), "check")
        version = await crun.version(*program)
        check_disk(self._run)
        return version

    async def prepare(self, image: ImageSource) -> None:
        """Unpack the image's layers. Raises ExecutionError."""
        self._image, self._lease = await self._store.lease(image)
        self.notes += self._image.notes
        check_architecture(self._image.config)

    async def create(self, spec: ContainerSpec) -> None:
        """Mount the root, write the bundle, start crun up to the gate. Raises ExecutionError."""
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
        if spec.nodes > 1 or (spec.cuda and shutil.which(CUDA_HOOK)):
            # Hooks, and the conductor, are crun's.
            self._starter = None
        bundle = self._run / "bundle"
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
            crun = self._crun = (
                self._spawn_gang(spec, self._image) if spec.nodes > 1 else self._spawn(spec, bundle)
            )
            if self._network is not None:
                await self._network.connect(crun.pid)
        except OSError as error:
            raise ExecutionError(
                f"{self._uuid}: the container cannot be made: {error}", Failure.NODE
            ) from error

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Open the gate and wait for the end of the command. Raises ExecutionError when it was not
        started.
        """
        process = self._crun
        if process is None:
            raise ExecutionError(f"{self._uuid}: no container was created")
        # crun has ended already; its message is read below.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, OPEN_LINE)
        stopper = asyncio.create_task(self._stop_when(stop, stop_grace), name="stopper")
        try:
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
            notes: tuple[str, ...] = ()
            if self._gang_output is not None:
                notes = await asyncio.to_thread(self._gang_output.merge, stop=stop.is_set)
            ended = self._gang.ended(code, stopped=stop.is_set(), out_of_memory=full, notes=notes)
            return structs.replace(ended, refused_processes=refused)
        full, refused = self._cgroup.out_of_memory_kills() > 0, self._cgroup.refused_processes()
        # crun exits with 128 + signal for a command that a signal ended; a signal ends crun itself
        # only from outside, or because the container, which it is in, has used all of its memory.
        is_killed = code < 0 and not stop.is_set() and not full
        # After a failure the log of crun shows whether the command was started.
        if code != 0 and not stop.is_set() and not is_killed:
            crun.check_started(self._log)
            if self._init is not None:
                self._init.check_started(code)
        program = crun.PROGRAM if self._starter is None else starter.NAME
        return Exit(
            code=code if code >= 0 else 128 - code,
            out_of_memory=full,
            refused_processes=refused,
            lost=f"the {program} that ran the container was ended by signal {-code}"
            if is_killed
            else "",
        )

    async def abort(self) -> None:
        """Kill the processes of its control group, or of crun where it has none."""
        if self._crun is not None and self._crun.poll() is None:
            if not self._cgroup.join_files:
                for pid in counters.descendants(self._crun.pid)[1:]:
                    # The process has ended already.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(self._cgroup.remove)

    @property
    def first(self) -> int | None:
        """The container's first process, from the status file."""
        if self.pid is None and not self._is_held:
            return None
        if self._starter is not None:
            return self._starter.first
        return crun.first_process(self._state / "crun" / self._entered[0] / "status")

    @property
    def _entered(self) -> tuple[str, Path]:
        """The container to enter, and its bundle: rank 0 of a gang."""
        if self._gang is not None:
            return self._gang.entered(self._uuid)
        return self._uuid, self._described

    async def execute(self, order: Exec) -> Execution:
        """Start it in the container's namespaces and cgroup, with the rights of the command."""
        # Imported here, because few containers are ever entered.
        from lading.supervisor.engines import executing

        if self.first is None:
            raise ExecutionError(f"{self._uuid}: is not running")
        if self._starter is not None:
            return await self._starter.execute(
                order, join=self._cgroup.join_files, place=self._described
            )
        name, bundle = self._entered
        return await executing.execute(
            order, name, bundle, command=[*self._joining(), *self._crun_command()]
        )

    async def hold(self) -> None:
        """Make the container again on the same root, without its command."""
        from lading.supervisor.engines import executing

        if self._gang is not None:
            raise ExecutionError(
                f"{self._uuid}: is a gang, which cannot be kept:"
                " its network went with its processes"
            )
        self._close_gate()
        if self._starter is not None:
            self._gate = await self._starter.hold(join=self._cgroup.join_files)
        else:
            command = [*self._joining(), *self._crun_command()]
            self._gate = await executing.hold(
                self._uuid, self._described, command=command, init=self._before
            )
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
        self._close_gate()
        await self._kill_rest()
        if self._network is not None:
            await self._network.close()
            self._network = None
        if self._crun is not None:
            if self._crun.poll() is None:
                await asyncio.to_thread(self._crun.wait)
            self._crun = None
        if self._starter is not None:
            await asyncio.to_thread(self._starter.remove)
        # Also for a process that found the container after a crash and never opened a namespace.
        (self._namespace or self._new_namespace()).close()
        if not self._is_bundle_bare:
            linux.unmount_below(self._run / "bundle")
        removal.discard(self._run / "bundle", aside=removal.beside(self._run))
        if self._state == self._run:
            removal.discard(self._run / "crun", aside=removal.beside(self._run))
        self._close_init()
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
            self._close_gate()
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
        self._close_gate()
        self._state = self._run
        if self._namespace is not None:
            self._namespace.close()
            self._namespace = None
        linux.discard_directory(self._run / "bundle", aside=removal.beside(self._run))

    def _make_bundles(self, spec: ContainerSpec, image: Unpacked) -> None:
        """Mount the root and write the bundle, for a gang one for each rank here. Raises
        OSError.
        """
        network = self._network = self._make_network(spec)
        scratch = volume_binds(image.config.volumes, spec.binds, self._run / "bundle" / "volumes")
        of_network = network.binds() if network else ()
        program = self._open_init(spec)
        spec = structs.replace(spec, binds=(*of_network, *spec.binds, *scratch, *program))
        if self._namespace is not None:
            devices = self._namespace.devices(spec.devices)
            spec = structs.replace(
                spec, binds=(*self._namespace.binds(spec.binds), *devices), devices=()
            )
        else:
            check_live(spec.binds, "; ".join(self.notes) or "Containers.UserNamespaces is never")
        if self._init is not None:
            # It belongs to the container's root already.
            spec = structs.replace(spec, binds=(*spec.binds, self._init.pipe))
        if spec.nodes == 1:
            self._described.mkdir(mode=0o700, exist_ok=True)
            self._make_bundle(self._run / "bundle", spec, image, gate=self._open_gate())
            # With a user namespace the root is mounted elsewhere. Looking for mounts reads the
            # machine's whole mount table.
            self._is_bundle_bare = self._namespace is not None and IN_MEMORY not in self.notes
            return
        files = self._gang = GangFiles(self._run)
        if spec.network:
            self.notes += [] if NO_WAY_OUT in self.notes else [NO_WAY_OUT]
            spec = structs.replace(spec, network=False)
        for rank in files.here(spec):
            idle = structs.replace(spec, command=(), environment=(), cwd="")
            self._make_bundle(files.bundle(rank), idle, image, name=f"rootfs-{rank}")

    def _make_bundle(
        self,
        bundle: Path,
        spec: ContainerSpec,
        image: Unpacked,
        *,
        gate: str = "",
        name: str = "rootfs",
    ) -> None:
        rootfs, note = mount_root(image.layers, bundle, self._namespace, name=name)
        if note and note not in self.notes:
            self.notes.append(note)
        owner = self._namespace.root if self._namespace is not None else 0
        make_points(rootfs, image.config.volumes, spec.binds, owner=owner)
        # The ranks of a gang have a root each.
        self.root_directory = rootfs if spec.nodes == 1 else None
        config = self._config = self._configure(spec, image, rootfs, gate)
        if self._starter is not None:
            return
        # The conductor has its own gate.
        if not gate:
            del config["hooks"]
        described = self._described if spec.nodes == 1 else bundle
        (described / "config.json").write_bytes(msgspec.json.encode(config))

    @property
    def _described(self) -> Path:
        """Directory of the `config.json` of a container that is no gang."""
        return self._state / "bundle"

    def _open_gate(self) -> str:
        """Path from which the container's hook reads the start line. Raises OSError."""
        if self._namespace is not None and self._starter is None:
            path, self._gate = self._namespace.gate()
            return path
        # The hook opens the pipe by its path in /proc, so the reading end must stay open here.
        self._reading, self._gate = os.pipe2(os.O_CLOEXEC)
        return f"/proc/{os.getpid()}/fd/{self._reading}"

    def _open_init(self, spec: ContainerSpec) -> tuple[Bind, ...]:
        """Prepare the first process of a container of crun; the mount of its program. Raises
        OSError.
        """
        self._close_init()
        if self._starter is not None:
            return ()
        if spec.nodes > 1:
            binds, self._before = rank_init(self.notes)
            return binds
        # The root of a user namespace may not enter the run directory.
        inside = self._namespace
        place, owner = (inside.directory, inside.root) if inside is not None else (self._run, 0)
        init = self._init = open_init(place, self.notes, owner)
        if init is None:
            return ()
        self._before = init.arguments()
        return (init.program,)

    def _close_init(self) -> None:
        if self._init is not None:
            self._init.close()
        self._init, self._before = None, ()

    def _close_gate(self) -> None:
        for descriptor in (self._gate, self._reading):
            if descriptor >= 0:
                os.close(descriptor)
        self._gate = self._reading = -1

    def _spawn_gang(self, spec: ContainerSpec, image: Unpacked) -> subprocess.Popen[bytes]:
        """Start the conductor up to its gate. Raises OSError, ExecutionError."""
        files = GangFiles(self._run)
        chosen = images.process(image.config, command=spec.command, environment=(), cwd=spec.cwd)
        self._gang_output = files.write_plan(
            self._uuid, spec, crun=self._crun_command(), cwd=chosen.cwd
        )
        self._reading, self._gate = os.pipe2(os.O_CLOEXEC)
        # A remote rank gets its input from the supervisor on the first machine.
        is_remote = spec.spread is not None and spec.spread.rank > 0
        given = spec if is_remote else structs.replace(spec, stdin=self._reading)
        return crun.spawn(given, [*self._joining(), *files.command()], environment=dict(os.environ))

    def _configure(
        self, spec: ContainerSpec, image: Unpacked, rootfs: Path, gate: str
    ) -> dict[str, object]:
        process = images.process(
            image.config, command=spec.command, environment=spec.environment, cwd=spec.cwd
        )
        if process.arguments:
            process = structs.replace(process, arguments=(*self._before, *process.arguments))
        account = account_of(process.user, rootfs)
        if self._namespace is not None and (ids := self._namespace.lacking(account)):
            raise LargeIds(ids)
        hook, note = find_cuda_hook(spec.cuda)
        self.notes += [note] if note else []
        return make_config(
            Bundle(
                rootfs=str(rootfs),
                process=process,
                account=account,
                binds=spec.binds,
                gate=gate,
                machine=os.uname().machine,
                notice=self._network.notice if self._network is not None else "",
                ids=self._namespace.extents if self._namespace is not None else (),
                devices=spec.devices,
                cuda=spec.cuda,
                cuda_hook=hook,
            )
        )

    def _make_network(self, spec: ContainerSpec) -> NativeNetwork | None:
        if not spec.network or spec.nodes > 1:
            return None
        if self._network is not None:
            return self._network
        # Imported here, because most containers have no network.
        from lading.supervisor.engines.native_network import NativeNetwork

        return NativeNetwork(spec.reach, self._run)

    def _spawn_starter(self, spec: ContainerSpec, made: Starter) -> subprocess.Popen[bytes]:
        notice = self._network.notice if self._network is not None else ""
        gate = Gate(descriptor=self._reading, join=self._cgroup.join_files, notice=notice)
        try:
            return made.start(spec, self._config, gate, self._namespace)
        finally:
            # The gate has ended when its only reader has.
            os.close(self._reading)
            self._reading = -1

    def _spawn(self, spec: ContainerSpec, bundle: Path) -> subprocess.Popen[bytes]:
        if self._starter is not None:
            return self._spawn_starter(spec, self._starter)
        # Hooks start in the bundle's directory, which the root of a user namespace may not enter.
        place = bundle if self._namespace is None else self._namespace.directory
        files = ["--bundle", str(place), "--config", str(self._described / "config.json")]
        command = [*self._crun_command(), "--log", str(self._log), "run", *files, self._uuid]
        return crun.start(spec, command, self._cgroup, self._namespace)

    # What differs without root (`rootless_engine`).

    def _open_store(self, cache: Path, *, limit: int, kept: Amount) -> LayerStore:
        return LayerStore(cache, limit=limit, kept=kept)

    def _hierarchy(self) -> Hierarchy:
        return _machine_hierarchy()

    def _new_namespace(self) -> UserNamespace:
        return UserNamespace(self._run)

    def _joining(self) -> list[str]:
        return crun.joining(self._cgroup.join_files)

    def _crun_command(self) -> list[str]:
        return [crun.PROGRAM, "--root", str(self._state / "crun"), "--cgroup-manager=disabled"]

    @property
    def _log(self) -> Path:
        # On disk, so that the command line of crun shows the run directory.
        return self._run / "crun.log"

    async def _stop_when(self, stop: asyncio.Event, grace: float) -> None:
        await stop.wait()
        if self._gang is not None and self._crun is not None:
            # The conductor ends its ranks.
            self._crun.terminate()
            await asyncio.sleep(grace)
            await asyncio.to_thread(self._cgroup.remove)
            return
        if self._starter is not None:
            await self._starter.stop(grace=grace)
        elif self._init is not None:
            await crun.stop_by_init(lambda: self.pid, self._init, grace=grace)
        else:
            await crun.stop(lambda: self.pid, grace=grace)
        await asyncio.sleep(grace)
        await asyncio.to_thread(self._cgroup.remove)

    async def _kill_rest(self) -> None:
        # Starting a thread takes longer than removing an empty group.
        left = [] if self._cgroup.remove_empty() else await asyncio.to_thread(self._cgroup.remove)
        if left:
            raise ExecutionError(f"{self._uuid}: processes {left} do not die", Failure.NODE)
        if self._starter is not None:
            self._starter.end()
            return
        if not self._cgroup.join_files:
            states = (self._run / "crun").glob(f"{self._uuid}*")
            await crun.delete(self._crun_command(), states)


@functools.cache
def _machine_hierarchy() -> Hierarchy:
    # Read once by each process: the controllers of a machine stay where they are mounted, and its
    # mount table takes 0.1 ms to read.
    return find_hierarchy(mount_table())
