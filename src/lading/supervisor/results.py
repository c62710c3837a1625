"""The end of a container: saving of output and log, and the last update of the record.

A supervisor imports this module after the start of the command, before which it is not needed.

One call reports the end and carries small results (`api.resources.container_results`). Large
results, and those of a refused call, are stored step by step.

Faults of the output appear when it is planned, before the last line of the log, the final state, is
written. Then output and log are stored at the same time, as they are independent; when the output
fails only now, the log is written again with the new state. When the server refuses the end itself,
the container is Cancelled with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import field

from lading.core.containers.container import ContainerState
from lading.core.containers.output.plan import OutputPlan
from lading.core.errors import (
    ExecutionError,
    Failure,
    Full,
    Invalid,
    LadingError,
    Unauthenticated,
    Unavailable,
)
from lading.core.ids import EMPTY_PDH
from lading.core.quantities import format_time
from lading.process import cancellation, tree_removal
from lading.process.concurrency import StopEvent, WorkCancelled, unless
from lading.supervisor import linux
from lading.supervisor.capture import Parcel, is_small, plan_capture, save_log, save_output
from lading.supervisor.ending import (
    LAST_CALL,
    Ending,
    failed,
    runtime_status,
    stopped_while_saving,
    with_output,
    without_results,
)
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.logs import Log
from lading.supervisor.machine import Costing
from lading.supervisor.session import Lost, SupervisorSession

# Seconds to save the log of a container that no request needs any more.
_LOG_TIME = 2.0
_logger = logging.getLogger("lading.supervisor")
# Seconds to remove the scratch of a container whose files may fill the disk of the server.
_FREE_TIME = 60.0
# Seconds to report the end of a container that no request needs any more.
_LAST_TIME = 5.0
# Seconds in which results of a kept container are saved and signals are ignored.
_KEPT_SAVING = 60.0


class Results(msgspec.Struct, frozen=True):
    """Results of one container and the way to save them. `stage` and `inputs` are None when the
    container did not get so far.
    """

    session: SupervisorSession
    log: Log
    costing: Costing
    stage: Stage | None = None
    inputs: Inputs | None = None
    limit: int = 0
    """Bytes that an output may have; 0 for no limit."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Resource use of the command, in the form of the container's attribute."""

    async def save(self, ending: Ending, *, started: bool, is_last: bool = False) -> None:
        """Store everything and report the end. Raises LadingError when the server cannot be
        reached.

        Raises Full when the server has no space for the results, unless `is_last`: then the end is
        reported without them.
        """
        ending, plan = await self._plan(ending, started=started)
        self._last_words(ending)
        if await self._save_at_once(ending, plan):
            return
        output, log = await asyncio.gather(
            self._store_output(plan), self._store_log(), return_exceptions=True
        )
        fault = next(
            (result for result in (output, log) if isinstance(result, BaseException)), None
        )
        if fault is not None and _must_be_raised(fault, is_last=is_last):
            raise fault
        if fault is not None and ending.state is ContainerState.COMPLETE:
            ending = failed(
                _as_output_error(fault, "output" if fault is output else "log"),
                exit_code=ending.exit_code,
            )
            self._last_words(ending)
            # The first log ended with Complete, so it is stored again.
            log = await self._store_log() if isinstance(log, str) else log
        # An output that the container has announced counts as its result alone.
        is_named = ending.state is ContainerState.COMPLETE or not isinstance(plan, str)
        await self._report(
            ending,
            output=output if isinstance(output, str) and is_named else None,
            log=log if isinstance(log, str) else None,
        )

    async def give_up(self, ending: Ending) -> None:
        """Report the end without the output, which no request needs any more; with the log if that
        takes a moment only.

        Raises LadingError when the server cannot be reached.
        """
        ending = stopped_while_saving(ending)
        self._last_words(ending)
        log = None
        # The log is saved if possible; the container ends in any case.
        with suppress(LadingError, OSError):
            async with asyncio.timeout(_LOG_TIME):
                log = await self._store_log()
        await self._report(ending, output=None, log=log)

    async def _save_at_once(self, ending: Ending, plan: OutputPlan | str | None) -> bool:
        """Send small results with the report of the end. False when that is not possible; then
        nothing has changed.

        Raises Unauthenticated when the container belongs to another process, or its end was
        accepted and the answer lost.
        """
        # No end is reported.
        if ending.state is ContainerState.RUNNING:
            return False
        # Saved by the container itself, or not to be saved.
        if isinstance(plan, str) or (
            plan is not None and ending.state is not ContainerState.COMPLETE
        ):
            return False
        parcel, manifests = Parcel(), dict[str, str]()
        try:
            if plan is not None and self.stage is not None and self.inputs is not None:
                if not is_small(plan, files=self.stage):
                    return False
                manifests["output"] = await save_output(
                    plan, inputs=self.inputs, blocks=parcel, files=self.stage
                )
            manifests["log"] = await save_log(self.log, blocks=parcel)
            await self.session.finish(await self._changes(ending), manifests, parcel.blocks)
        except (Lost, Unauthenticated):
            raise
        # The single steps are tried next, and report the error.
        except (LadingError, OSError):
            return False
        return True

    async def _plan(
        self, ending: Ending, *, started: bool
    ) -> tuple[Ending, OutputPlan | str | None]:
        """The plan of the output, or the portable data hash when the container has saved it
        itself.
        """
        if not started or self.stage is None:
            return ending, None
        container = self.session.container
        # Only a container with a token can have set its output.
        if container.runtime_constraints.get("API") is True:
            own = await self.session.read("output")
            if own:
                return ending, str(own)
        try:
            plan = await plan_capture(self.stage, container.output_glob, limit=self.limit)
        except (ExecutionError, OSError) as error:
            if ending.state is ContainerState.COMPLETE:
                return failed(_as_output_error(error, "output"), exit_code=ending.exit_code), None
            self.log.say(str(error))
            return ending, None
        if not any(
            remarks.count for remarks in (plan.omitted, plan.renamed, plan.special, plan.unusable)
        ):
            return ending, plan
        is_complete = ending.state is ContainerState.COMPLETE
        lines = plan.warning_detail.splitlines()
        # The last words of a Complete container name the only entry.
        named = () if is_complete and len(lines) == 1 else lines
        for line in named:
            self.log.say(f"output: {line}")
        if not is_complete:
            return ending, plan
        return with_output(ending, plan, is_strict=container.strict_output), plan

    def _last_words(self, ending: Ending) -> None:
        for message in (ending.warning, ending.error):
            if message:
                self.log.say(message)
        if ending.state is not ContainerState.RUNNING:
            self.log.say(str(ending.state))

    async def _store_output(self, plan: OutputPlan | str | None) -> str | None:
        if plan is None or self.inputs is None or self.stage is None or isinstance(plan, str):
            return plan if isinstance(plan, str) else None
        manifest = await save_output(
            plan,
            inputs=self.inputs,
            blocks=self.session.blocks,
            files=self.stage,
            output_path=self.session.container.output_path,
            limit=self.limit,
        )
        return await self.session.save_output(manifest)

    async def _store_log(self) -> str:
        manifest = await save_log(self.log, blocks=self.session.blocks)
        return await self.session.save_log(manifest)

    async def _report(self, ending: Ending, *, output: str | None, log: str | None) -> None:
        changes = await self._changes(ending)
        if log is not None:
            changes["log"] = log
        is_complete = ending.state is ContainerState.COMPLETE
        # A command that was stopped before it wrote a file leaves no output to look at.
        if output and (is_complete or (ending.keeps_output and output != EMPTY_PDH)):
            changes["output"] = output
        try:
            await self.session.report_end(changes)
        # The server refuses the values themselves: repeating them would fail again.
        except Invalid as error:
            _logger.error(
                "container=%s end refused: %s", self.session.container.uuid, error.message
            )
            refused = Ending(
                state=ContainerState.CANCELLED, failure=Failure.INFRASTRUCTURE, error=error.message
            )
            await self.session.report_end(
                {"state": ContainerState.CANCELLED, "runtime_status": runtime_status(refused, {})}
            )

    async def _changes(self, ending: Ending) -> dict[str, object]:
        """Changes of the record at the end, except output and log."""
        changes: dict[str, object] = {"state": ending.state}
        cost = self.costing.amount(self.session.container.runtime_constraints)
        if cost is not None:
            changes["cost"] = cost
        # A record that is left Running has neither time of the end nor totals.
        is_end = ending.state is not ContainerState.RUNNING
        if is_end and self.costing.ended is not None:
            # The time of the end, not of this report, which the server may receive much later.
            changes["finished_at"] = format_time(self.costing.ended)
        if is_end and self.usage:
            changes["usage"] = dict(self.usage)
        if ending.state is ContainerState.COMPLETE:
            changes["exit_code"] = ending.exit_code
        if ending.error or ending.warning:
            changes["runtime_status"] = runtime_status(
                ending, await self.session.read("runtime_status") or {}
            )
        return changes


def _must_be_raised(fault: BaseException, *, is_last: bool) -> bool:
    """Whether a fault of storing prevents the report of the end."""
    # Lost: nothing may be written any more. An unexpected exception is a defect and must not be
    # hidden.
    if isinstance(fault, Lost) or not isinstance(fault, LadingError | OSError):
        return True
    return isinstance(fault, Full) and not is_last


def _as_output_error(error: BaseException, result: str) -> ExecutionError:
    """Failure class and message for results that cannot be read or stored."""
    if isinstance(error, ExecutionError):
        return error
    failure = Failure.INFRASTRUCTURE if isinstance(error, Unavailable) else Failure.USER
    return ExecutionError(f"the {result} cannot be saved: {error}", failure)


class Report:
    """Report of one container. `stop` is set when the supervisor gets a stop signal; `kept`: the
    container was kept after its command had failed; `started`: its command was run, and is dead.

    `untold` is left to report when the disk of the server has space again.
    """

    def __init__(self, results: Results, stop: StopEvent, *, is_kept: bool, started: bool) -> None:
        self.untold: Ending | None = None
        self._results = results
        self._stop = stop
        self._is_kept = is_kept
        self._started = started

    async def tell(self, ending: Ending, *, is_last: bool = False) -> bool:
        """Save the results and write the end; False when there was no end to write or the server
        did not accept it.
        """
        deaf = self._await_next_signal(ending)
        try:
            # The container goes back to the queue: nothing of it is saved.
            if ending.state is ContainerState.QUEUED:
                giving_back = self._results.session.give_back()
                await unless(self._stop, giving_back, grace=LAST_CALL, deaf=deaf)
            elif ending.state is not None:
                saving = self._results.save(ending, started=self._started, is_last=is_last)
                await unless(self._stop, saving, grace=LAST_CALL, deaf=deaf)
        except WorkCancelled:
            return await self._give_up(ending)
        except (LadingError, OSError) as error:
            self._blame_server(error)
            # The server's disk is full. Removing the scratch may free it, so the end is reported
            # once more.
            if isinstance(error, Full):
                self.untold = without_results(ending, error)
            return False
        return ending.state not in (None, ContainerState.RUNNING)

    def _await_next_signal(self, ending: Ending) -> float:
        """Only one more signal stops the report: the first one ended the command, but the results
        may still be wanted. Return the number of seconds for which no signal counts.

        Dispatchers repeat their signal every few seconds. When the first signal ended the time for
        which a failed container was kept, its results are wanted, so saving gets `_KEPT_SAVING`
        seconds.
        """
        was_told = self._stop.is_set()
        # A signal that had ended the command, or the time for which the container was kept. One
        # that came after a command had ended by itself, while its disk was measured, counts.
        if self._is_kept or ending.state is not ContainerState.COMPLETE:
            self._stop.clear()
        return _KEPT_SAVING if self._is_kept and was_told else 0.0

    async def _give_up(self, ending: Ending) -> bool:
        """Report the end without the unsaved results; False when the server does not accept it at
        once.
        """
        self._results.log.say("stopped before all results were saved")
        if ending.state is ContainerState.QUEUED:
            return False
        try:
            async with asyncio.timeout(_LAST_TIME):
                await self._results.give_up(ending)
        except (LadingError, OSError) as error:
            self._blame_server(error)
            return False
        return ending.state is not ContainerState.RUNNING

    def _blame_server(self, error: Exception) -> None:
        uuid = self._results.session.container.uuid
        _logger.error("container=%s end not reported: %s", uuid, error)


async def free(scratch: Path) -> None:
    """Remove the scratch of a container, as far as the time allows."""
    with contextlib.suppress(OSError, cancellation.Stopped):
        # Errors are ignored: a partial removal may free enough space.
        await asyncio.to_thread(linux.unmount_below, scratch)
        until = asyncio.get_running_loop().time() + _FREE_TIME
        await asyncio.to_thread(tree_removal.remove, scratch, stop=lambda: time.monotonic() > until)
