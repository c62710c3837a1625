"""Drives one container through the steps of its life cycle (`supervisor.lifecycle`)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import structs

from lading.client.transport import Transport
from lading.core.errors import LadingError
from lading.supervisor.ending import Ending
from lading.supervisor.engines import EngineMaker
from lading.supervisor.journal import CONTAINER_STEP, StepMark
from lading.supervisor.lifecycle.command import run_command
from lading.supervisor.lifecycle.end import judge_error, judge_exit, report_end, report_late
from lading.supervisor.lifecycle.run import ContainerRun, Controls, open_run
from lading.supervisor.lifecycle.start import (
    make_container,
    make_inputs,
    read_record,
    release_inputs,
    remove_container,
)
from lading.supervisor.logs import Clock
from lading.supervisor.session import SupervisorSession, open_transport
from lading.supervisor.supervisor_config import SupervisorConfig

# Few supervisors go on with a container.
if TYPE_CHECKING:
    from lading.supervisor.lifecycle.handover import ReceivedHandover

_logger = logging.getLogger("lading.supervisor")


class LifeStep(msgspec.Struct, frozen=True):
    """A named step. `do` may be repeated; `undo` may be called when `do` was not finished or not
    begun.
    """

    name: str
    do: Callable[[ContainerRun], Awaitable[None]]
    undo: Callable[[ContainerRun], Awaitable[None]]


LifeSteps: TypeAlias = tuple[LifeStep, ...]


async def _undo_nothing(run: ContainerRun) -> None:
    """The `undo` of steps that leave nothing behind."""
    del run


STEPS = (
    LifeStep("record", read_record, _undo_nothing),
    LifeStep("inputs", make_inputs, release_inputs),
    LifeStep(CONTAINER_STEP, make_container, remove_container),
    LifeStep("command", run_command, _undo_nothing),
)
"""The life of a container, in order."""


def resumed_steps(handover: ReceivedHandover) -> LifeSteps:
    """The steps of a container with which an earlier supervisor has begun."""
    from lading.supervisor.lifecycle.resumption import Resumption

    resumption = Resumption(handover)
    work = (
        resumption.read_record,
        resumption.make_inputs,
        resumption.make_container,
        resumption.run_command,
    )
    return tuple(structs.replace(step, do=do) for step, do in zip(STEPS, work, strict=True))


async def supervise(
    config: SupervisorConfig,
    *,
    clock: Clock = lambda: datetime.now(UTC),
    transport: Transport | None = None,
    engines: EngineMaker,
    controls: Controls | None = None,
    steps: LifeSteps | None = None,
) -> int:
    """Carry out `config`; 0 when its life cycle was completed, else 1 (docs/spec/containers).

    The caller holds the lock of the run directory. It has nothing of an earlier run, unless `steps`
    go on with that run. A given `transport` stays open.
    """
    way = transport or open_transport(config)
    try:
        session = SupervisorSession(config, way)
        run = open_run(
            config,
            session,
            clock=clock,
            engines=engines,
            controls=controls or Controls(),
            is_begun=steps is not None,
        )
        if steps is None:
            return await drive(run)
        # All of them may have left something.
        return await drive(run, steps, begun=steps)
    finally:
        if transport is None:
            await way.close()


async def drive(run: ContainerRun, steps: LifeSteps = STEPS, *, begun: LifeSteps = ()) -> int:
    """Take a run through all steps, report its end, and undo them and those that were `begun`
    before; the result of `supervise`. The log and the journal are closed.
    """
    to_undo = list(begun)
    try:
        try:
            ending = await _go_through(run, steps, to_undo)
            if run.facts.overfull:
                # The disk may be full: scratch is removed before anything is saved.
                run.facts.untold = ending
            reported = run.facts.untold is None and await report_end(run, ending)
        finally:
            # In reverse, and also after a cancellation: a begun step may have left something.
            for step in reversed(to_undo):
                await _undo(run, step)
        if run.facts.untold is not None:
            reported = await report_late(run, run.facts.untold)
        return 0 if reported else 1
    finally:
        run.journal.close()
        run.log.close()


async def _go_through(run: ContainerRun, steps: LifeSteps, begun: list[LifeStep]) -> Ending:
    try:
        for step in steps:
            if step not in begun:
                begun.append(step)
            run.journal.write(step.name, StepMark.BEGUN)
            await step.do(run)
            run.journal.write(step.name, StepMark.DONE)
    except (LadingError, OSError) as error:
        return await judge_error(run, error)
    return await judge_exit(run)


async def _undo(run: ContainerRun, step: LifeStep) -> None:
    try:
        await step.undo(run)
        run.journal.write(step.name, StepMark.UNDONE)
    except (LadingError, OSError, TimeoutError) as error:
        # The run directory stays, so that the clean-up process tries again.
        _logger.error(
            "container=%s step=%s not undone: %s", run.config.container_uuid, step.name, error
        )
