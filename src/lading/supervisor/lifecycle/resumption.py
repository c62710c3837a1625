"""The steps of a container with which another supervisor has begun, and which this one goes on
with, in the mount namespace of the first.

    step       do
    record     read the container, which is Running
    inputs     lease again all that it reads
    container  adopt it from the engine
    command    wait for its end, unless the first supervisor has seen it

Nothing is started: a command runs once. The undoing is the same as for a new container.
"""

from __future__ import annotations

from lading.core.errors import ExecutionError
from lading.core.quantities import parse_time
from lading.process.concurrency import together
from lading.supervisor.engines.adoption import AdoptingEngine
from lading.supervisor.journal import last_exit
from lading.supervisor.lifecycle.command import await_command, end_command
from lading.supervisor.lifecycle.handover import ReceivedHandover
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.logs import Pump


class Resumption:
    """The steps for one handover."""

    def __init__(self, handover: ReceivedHandover) -> None:
        self._handover = handover

    async def read_record(self, run: ContainerRun) -> None:
        """Raises Lost when the container is not ours any more."""
        run.log.say("its supervisor has ended; another one goes on with the container")
        run.facts.is_resumed = True
        # The command may wait for somebody who reads its output.
        for name, descriptor in self._handover.streams.items():
            run.pumps.append(Pump(run.log, name, reading=descriptor))
        # A stop is heeded when the container is adopted: it has output to save.
        await run.session.open()
        if started_at := run.session.container.started_at:
            run.costing.began = parse_time(started_at)

    async def make_inputs(self, run: ContainerRun) -> None:
        """Raises ExecutionError when an input or the image is gone."""
        preparation = run.preparation
        preparation.continue_from(self._handover.base)
        plan = preparation.plan(await run.session.secrets())
        reopening, leasing = preparation.open(plan, run.engine, is_made=True)
        await together(reopening, run.by_engine(leasing))

    async def make_container(self, run: ContainerRun) -> None:
        """Raises ExecutionError when the engine cannot adopt it."""
        engine = run.engine
        if not isinstance(engine, AdoptingEngine):
            raise ExecutionError(f"the engine {run.config.engine} adopts no containers")
        engine.adopt(self._handover.container, self._handover.descriptors)

    async def run_command(self, run: ContainerRun) -> None:
        """See `lifecycle.command.run_command`."""
        ended = last_exit(run.directory)
        if ended is None:
            ended = await await_command(run)
        await end_command(run, ended)
