"""`python -m lading.supervisor --annex ADDRESS`: a rank of a gang on a further machine.

The supervisor of the gang is on another machine (`remote_rank_client`). Standard input and output
are the pipe to it; it owns the record: a remote rank reads the record and writes nothing. All
preparations of a remote rank are removed at its end; its output is sent through the pipe last.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from lading.core.errors import ExecutionError, Failure, LadingError, RequestError
from lading.net import rpc
from lading.process import removal
from lading.process.cancellation import Stopped
from lading.process.concurrency import cancel_all, together
from lading.supervisor import linux
from lading.supervisor.container_spec import specify
from lading.supervisor.engines import ContainerSpec, Engine, EngineMaker, EngineSettings, Spread
from lading.supervisor.gang import output_archive
from lading.supervisor.gang.remote_rank_client import Invitation
from lading.supervisor.journal import CONTAINER_STEP, JournalHeader, RunJournal, StepMark
from lading.supervisor.limits.disk_limits import DiskWatch
from lading.supervisor.limits.gpu_locks import LockedGpus
from lading.supervisor.logs import Log
from lading.supervisor.preparation import Preparation
from lading.supervisor.process.serving import take_own_mounts
from lading.supervisor.session import SupervisorSession, open_transport
from lading.supervisor.supervisor_config import SupervisorConfig, check

# Seconds between SIGTERM and SIGKILL of a rank; `stop_grace_period` of its supervisor is 10.
_GRACE = 5.0


def main(leader: str, *, engines: EngineMaker) -> int:
    """Run a remote rank; return the exit code of the process."""
    try:
        remote = RemoteRank(read_invitation(0), leader, engines)
        pid = os.fork()
        if pid:
            return guard(pid, remote)
        os._exit(serve(remote))
    except (LadingError, OSError) as error:
        return _fault(error)


def guard(pid: int, remote: RemoteRank) -> int:
    """Wait for the process that does the work, and clean up when it was killed; return its exit
    code.
    """
    # The first process only passes the signal on.
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        asyncio.run(remote.clean())
    return code if code >= 0 else 128 - code


def serve(remote: RemoteRank) -> int:
    """Run the rank in this process; return its exit code."""
    try:
        linux.end_with_parent()
        take_own_mounts(remote.directory)
        asyncio.run(remote.run())
    except (LadingError, OSError, BaseExceptionGroup) as error:
        return _fault(error)
    return 0


def _fault(error: BaseException) -> int:
    fault = error.message if isinstance(error, LadingError) else str(error)
    failure = error.failure if isinstance(error, ExecutionError) else Failure.INFRASTRUCTURE
    # The reader has closed the connection.
    with contextlib.suppress(BrokenPipeError):
        rpc.write_line(1, {"fault": fault, "failure": failure})
    return 1


def read_invitation(descriptor: int) -> Invitation:
    """The first line, and nothing after it, which is for the conductor. Raises ExecutionError,
    Invalid.
    """
    try:
        found = rpc.read_line(descriptor, Invitation)
    except RequestError as error:
        raise ExecutionError(f"the order of this rank cannot be read: {error.message}") from error
    if found is None:
        raise ExecutionError("this rank got no order")
    return structs.replace(found, assignment=check(found.assignment))


class RemoteRank:
    """One rank on this machine."""

    def __init__(self, invitation: Invitation, leader: str, engines: EngineMaker) -> None:
        config, rank = invitation.assignment, invitation.rank
        self._name = f"{config.container_uuid}-{rank}"
        # Machines may share a file system, where the container's directory belongs to its
        # supervisor.
        self.directory = Path(config.run_directory).parent.parent / "annex" / self._name
        self._spread = Spread(wire=invitation.wire, rank=rank, leader=leader)
        self._certificate = invitation.certificate
        place = str(self.directory / "server.crt") if invitation.certificate else config.api_ca_file
        self._config: SupervisorConfig = structs.replace(
            config,
            run_directory=str(self.directory),
            annex_command=(),
            api_ca_file=place,
            # Only the supervisor's machine has a gateway.
            gateway="none",
        )
        self._engines = engines
        self.output = ""
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Read the record, run the rank, send its output. Raises LadingError, OSError."""
        stop = self._stop
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        self._make_directories()
        # For the clean-up after all these processes were killed.
        journal = RunJournal(self.directory)
        journal.open(JournalHeader(engine=self._config.engine, settings=self._settings()))
        journal.write(CONTAINER_STEP, StepMark.BEGUN)
        engine = self._engines(self._config.engine, self._settings())
        try:
            async with self._prepared(engine) as (spec, watch):
                await engine.create(spec)
                await self._run_watched(engine, watch)
                if not stop.is_set():
                    await asyncio.to_thread(self.send)
        finally:
            await self._remove(engine)

    async def clean(self) -> None:
        """Clean up after a killed process. Raises LadingError, OSError."""
        await self._remove(self._engines(self._config.engine, self._settings()))

    async def _remove(self, engine: Engine) -> None:
        try:
            await engine.remove()
        finally:
            linux.discard_directory(self.directory, aside=removal.beside(self.directory))

    def _make_directories(self) -> None:
        for folder in (self.directory, Path(self._config.cache_directory)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._certificate:
            Path(self._config.api_ca_file).write_text(self._certificate)

    def _settings(self) -> EngineSettings:
        # Its own name: the machine may run other ranks of the same container.
        return structs.replace(self._config.engine_settings, container_uuid=self._name)

    async def _run_watched(self, engine: Engine, watch: DiskWatch) -> None:
        """Run the rank to its end. Raises ExecutionError(DISK) when it used more of this disk than
        it may.
        """
        running = asyncio.ensure_future(engine.run(stop=self._stop, stop_grace=_GRACE))
        watching = asyncio.ensure_future(watch.run_until_full())
        try:
            await asyncio.wait((running, watching), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                await engine.abort()
            await running
        finally:
            await cancel_all(running, watching)
        if watching.done() and not watching.cancelled():
            raise ExecutionError(watching.result(), Failure.DISK)

    @asynccontextmanager
    async def _prepared(self, engine: Engine) -> AsyncIterator[tuple[ContainerSpec, DiskWatch]]:
        """Prepare image, inputs, disk and GPUs as the supervisor does; yields the specification,
        and the watch over the disk.
        """
        config = self._config
        transport = open_transport(config)
        session = SupervisorSession(config, transport)
        log = Log(self.directory / "log", lambda: datetime.now(UTC), limit=config.log_limit)
        preparation = Preparation(config, session, log)
        try:
            await session.join()
            if why := preparation.lacks_room():
                raise ExecutionError(f"rank {self._spread.rank} cannot begin: {why}", Failure.NODE)
            preparation.begin()
            plan = preparation.plan(await session.secrets())
            set_stage, unpack = preparation.open(plan, engine)
            await together(set_stage, unpack)
            await preparation.settle(engine)
            if plan.copies:
                await asyncio.to_thread(preparation.note_copies)
            allowed = preparation.allowance(1)
            preparation.limit_disk(allowed)
            given = await preparation.gpu_locks.take(session.container.runtime_constraints)
            yield self._spec(session, preparation, given), preparation.disk_watch(engine, allowed)
        finally:
            preparation.gpu_locks.release()
            await preparation.close()
            log.close()
            await transport.close()

    def _spec(
        self, session: SupervisorSession, preparation: Preparation, gpus: LockedGpus
    ) -> ContainerSpec:
        if preparation.stage is None:
            raise ExecutionError("the mounts were not made")
        spec = specify(
            session.container,
            preparation.stage,
            self._config,
            token=session.token,
            gpus=gpus,
            stdout=1,
            stderr=2,
            spread=self._spread,
        )
        self.output = next(
            (bind.source for bind in spec.binds if bind.target == spec.output_path), ""
        )
        return structs.replace(spec, stdin=0)

    def send(self) -> None:
        """Send the output to the first machine. Raises ExecutionError, OSError."""
        # Processes of the rank are dead (`Engine.run`), but they may have left symbolic links.
        with open(1, "wb", closefd=False) as pipe:
            try:
                output_archive.send(self.output, pipe, stop=self._stop.is_set)
            except Stopped as error:
                raise ExecutionError("stopped while the output was sent") from error
