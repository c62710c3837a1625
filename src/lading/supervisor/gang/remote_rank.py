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

from lading import removal
from lading.client.content_caches import TreeCache
from lading.confined import Stopped
from lading.core.containers import mount_plan
from lading.core.errors import ExecutionError, LadingError, RequestError
from lading.net import rpc
from lading.supervisor import linux
from lading.supervisor.container_spec import Given, specify
from lading.supervisor.engines import ContainerSpec, Engine, EngineSettings, Spread
from lading.supervisor.gang import gang_output
from lading.supervisor.gang.remote_rank_client import Invitation
from lading.supervisor.inputs.collection_image import CollectionImage
from lading.supervisor.inputs.keep_mount import KeepMount
from lading.supervisor.inputs.staging import Inputs, Stage
from lading.supervisor.journal import CONTAINER_STEP, JournalHeader, RunJournal, StepMark
from lading.supervisor.logs import Log
from lading.supervisor.process.life_cycle import take_own_mounts
from lading.supervisor.session import SupervisorSession, open_transport
from lading.supervisor.supervisor import EngineMaker
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
    # The reader has closed the connection.
    with contextlib.suppress(BrokenPipeError):
        rpc.write_line(1, {"fault": fault})
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
            async with self._prepared(engine) as spec:
                await engine.create(spec)
                await engine.run(stop=stop, stop_grace=_GRACE)
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
        config = self._config
        return EngineSettings(
            container_uuid=self._name,
            run_directory=config.run_directory,
            cache_directory=config.cache_directory,
            cache_size=config.cache_size,
        )

    @asynccontextmanager
    async def _prepared(self, engine: Engine) -> AsyncIterator[ContainerSpec]:
        """Prepare image and inputs as the supervisor does; yields the specification."""
        config = self._config
        transport = open_transport(config)
        session = SupervisorSession(config, transport)
        log = Log(self.directory / "log", lambda: datetime.now(UTC), limit=config.log_limit)
        try:
            await session.join()
            container, private = session.container, engine.sees_private_mounts
            plan = mount_plan.plan(
                container.mounts,
                secret_mounts=await session.secrets(),
                output_path=container.output_path,
                scratch=str(self.directory / "mounts"),
            )
            cache = TreeCache(Path(config.cache_directory) / "trees", config.cache_size)
            inputs = Inputs(
                session.data, session.blocks, cache, session.fetch_git_tree, config.large_input
            )
            keep = KeepMount(config, log, token=session.token, private=private)
            stage = Stage(plan, config.live_roots)
            try:
                await stage.set(inputs, memory=private, keep=keep)
                await engine.prepare(
                    CollectionImage(session.data, session.blocks, container.container_image)
                )
                spec = specify(
                    container,
                    stage,
                    config,
                    token=session.token,
                    given=Given(),
                    stdout=1,
                    stderr=2,
                    spread=self._spread,
                )
                self.output = next(
                    (one.source for one in spec.binds if one.target == spec.output_path), ""
                )
                yield structs.replace(spec, stdin=0)
            finally:
                await stage.close()
                await keep.close()
        finally:
            log.close()
            await transport.close()

    def send(self) -> None:
        """Send the output to the first machine. Raises ExecutionError, OSError."""
        # Processes of the rank are dead (`Engine.run`), but they may have left symbolic links.
        with open(1, "wb", closefd=False) as pipe:
            try:
                gang_output.send(self.output, pipe, stop=self._stop.is_set)
            except Stopped as error:
                raise ExecutionError("stopped while the output was sent") from error
