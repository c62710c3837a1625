"""The end of a run: the outcome by its facts, the saved results, and the report to the server."""

from __future__ import annotations

import asyncio
import logging

from lading.core.containers.container import ContainerState
from lading.core.errors import ExecutionError, Failure, LadingError
from lading.process.concurrency import WorkCancelled
from lading.supervisor.ending import Circumstances, Ending, failed, judge, stop_early, with_warning
from lading.supervisor.inputs.keep_mount import lost
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.machine import must_report, report
from lading.supervisor.preparation import SCRATCH
from lading.supervisor.session import GivenBack, Lost

_logger = logging.getLogger("lading.supervisor")


async def judge_exit(run: ContainerRun) -> Ending:
    """The outcome when all steps are done."""
    facts, session = run.facts, run.session
    if facts.is_lost or facts.exit is None:
        return Ending(state=None)
    if facts.is_unmounted:
        return failed(lost(), exit_code=facts.exit.code)
    circumstances = Circumstances(
        stopped=facts.is_stopped,
        timed_out=facts.is_timed_out,
        preempted=run.preempted,
        overfull=facts.overfull,
        full=run.preparation.full() if facts.exit.code else "",
        is_wanted=facts.is_stopped and not facts.is_timed_out and await session.is_wanted(),
        left=run.config.dispatcher_classifies,
    )
    ending = judge(facts.exit, session.container, circumstances)
    if ending.state is not ContainerState.COMPLETE or not run.preparation.has_capacities:
        return ending
    sentences = await asyncio.to_thread(run.preparation.overfull_mounts)
    return with_warning(ending, "; ".join(sentences), "\n".join(sentences))


async def judge_error(run: ContainerRun, error: LadingError | OSError) -> Ending:
    """The outcome when a step raised an error."""
    if isinstance(error, Lost):
        run.log.say(f"this container is not ours to run: {error.message}")
        return Ending(state=None)
    if isinstance(error, WorkCancelled):
        run.log.say("stopped before anything was run")
        return await stop_early(run.session, run.config, running=run.facts.is_running)
    if isinstance(error, GivenBack):
        run.log.say(error.message)
        if run.facts.is_running:
            # No record leaves Running for the queue: its request gets another container.
            return failed(ExecutionError(error.message, Failure.INFRASTRUCTURE))
        return Ending(state=ContainerState.QUEUED)
    if isinstance(error, ExecutionError):
        return await _blame(run, error)
    if not run.session.token:
        # The record could not be read: the dispatcher returns the container to the queue.
        _logger.error("container=%s record not read: %s", run.config.container_uuid, error)
        return Ending(state=None)
    return failed(ExecutionError(str(error)))


async def _blame(run: ContainerRun, error: ExecutionError) -> Ending:
    """Choose the outcome for an error. A fault of the machine requeues the container."""
    facts, config = run.facts, run.config
    if facts.overfull:
        return failed(ExecutionError(facts.overfull, Failure.DISK))
    if run.controls.stop.is_set() and facts.is_running:
        return await stop_early(run.session, config, running=True)
    if error is facts.engine_fault and await must_report(config, error, run.engine):
        run.log.say(error.message)
        run.log.say(await report(config, error.message))
        if not facts.is_running:
            return Ending(state=ContainerState.QUEUED)
    return failed(error)


async def report_end(run: ContainerRun, ending: Ending, *, is_last: bool = False) -> bool:
    """Save the results and write the end; whether the server accepted an end."""
    # After the end of the command.
    from lading.supervisor.results import Report, Results

    limit, used = run.config.output_limit, run.monitors.used if run.monitors else {}
    run.log.put_record(run.session.record)
    stage, inputs = run.preparation.stage, run.preparation.inputs
    results = Results(run.session, run.log, run.costing, stage, inputs, limit, used)
    report = Report(
        results, run.controls.stop, is_kept=run.facts.is_kept, started=run.facts.is_dead
    )
    is_told = await report.tell(ending, is_last=is_last)
    run.facts.untold = report.untold or run.facts.untold
    return is_told


async def report_late(run: ContainerRun, ending: Ending) -> bool:
    """Report the end to a server whose disk may have been filled by this container: its scratch is
    removed first.
    """
    # Few containers fill the disk of their server.
    from lading.supervisor.results import free

    run.preparation.stage = run.preparation.inputs = None
    await free(run.directory / SCRATCH)
    return await report_end(run, ending, is_last=True)
