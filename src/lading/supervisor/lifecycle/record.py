"""The step `record`: read the container and its token."""

from __future__ import annotations

from lading import __version__
from lading.supervisor.lifecycle.run import ContainerRun


async def read_record(run: ContainerRun) -> None:
    """Read the record, and choose the engine of a container with steps. Raises Lost when the
    container is not ours to run.
    """
    run.log.say(f"lading {__version__} supervising {run.config.container_uuid}")
    await run.unless_stopped(run.session.open())
    if run.session.container.steps:
        # Few containers have steps.
        from lading.supervisor.steps import StepEngine

        steps = StepEngine(run.engine, run.make_engine, run.session, run.log)
        run.engine = run.gateway.engine = steps
