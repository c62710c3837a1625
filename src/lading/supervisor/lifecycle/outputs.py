"""The end of a run: its results are saved and the outcome is reported."""

from __future__ import annotations

from lading.supervisor.ending import Ending
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.preparation import SCRATCH


async def report_end(run: ContainerRun, ending: Ending, *, is_last: bool = False) -> bool:
    """Save the results and write the end; whether the server accepted an end."""
    # After the end of the command.
    from lading.supervisor.results import Report, Results

    limit, used = run.config.output_limit, run.monitors.used if run.monitors else {}
    run.log.put_record(run.session.record)
    stage, inputs = run.preparation.stage, run.preparation.inputs
    results = Results(run.session, run.log, run.costing, stage, inputs, limit, used)
    report = Report(results, run.controls.stop, kept=run.facts.is_kept, started=run.facts.is_dead)
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
