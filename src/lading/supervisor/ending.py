"""The outcome of a container: `judge` determines it from the end of the command.

Source: docs/spec/containers, section Run.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from lading.core import memory_sampling
from lading.core.containers.container import OMITTED, Container, ContainerState
from lading.core.errors import (
    ExecutionError,
    Failure,
    Full,
)
from lading.core.quantities import bounded
from lading.core.remarks import Remarks
from lading.core.resources import format_bytes
from lading.supervisor.engines import Exit
from lading.supervisor.logs import STDERR, Log
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

# A start of a supervisor waits for each import: the capture of output comes later.
if TYPE_CHECKING:
    from lading.core.containers.output.plan import OutputPlan

LAST_CALL = 1.0
"""Seconds that a supervisor waits for a call in progress after a stop signal: the server may have
received the call already.
"""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. `state` None: the record belongs to another process, and nothing may be
    written; Running: results are saved, and the dispatcher ends the record.
    """

    state: ContainerState | None
    exit_code: int | None = None
    failure: Failure | None = None
    error: str = ""
    error_detail: str = ""
    warning: str = ""
    warning_detail: str = ""
    omitted: int = 0
    """Number of entries of the output that were not saved."""
    keeps_output: bool = False
    """The record names the output although there is no result: the files that there were when the
    command was stopped, or the entries that can be saved.
    """


def with_warning(ending: Ending, warning: str, detail: str) -> Ending:
    """The same outcome with one more warning; "" adds none."""
    if not warning:
        return ending
    joined = "; ".join(sentence for sentence in (ending.warning, warning) if sentence)
    details = "\n".join(sentence for sentence in (ending.warning_detail, detail) if sentence)
    return structs.replace(ending, warning=joined, warning_detail=details)


def with_output(ending: Ending, plan: OutputPlan, *, is_strict: bool) -> Ending:
    """The outcome of a Complete container whose output is saved by this plan. `is_strict`: entries
    that cannot be saved are a failure; the others are saved all the same.
    """
    omitted = plan.omitted
    if not (omitted.count and is_strict):
        return structs.replace(
            with_warning(ending, plan.warning, plan.warning_detail), omitted=omitted.count
        )
    first, *further = omitted.lines()
    example = first if omitted.count == 1 else f"such as: {first}"
    entries = "an entry" if omitted.count == 1 else f"{omitted.count:,} entries"
    error = ExecutionError(
        f"output: {entries} cannot be saved, and strict_output makes that a failure: {example}",
        Failure.USER,
    )
    # The error names these entries; a warning would say the same again.
    accepted = structs.replace(plan, omitted=Remarks())
    return structs.replace(
        with_warning(
            failed(error, exit_code=ending.exit_code), accepted.warning, accepted.warning_detail
        ),
        error_detail="\n".join(further),
        omitted=omitted.count,
        keeps_output=True,
    )


def failed(error: ExecutionError, *, exit_code: int | None = None) -> Ending:
    """Outcome of a container that could not be run, or whose output could not be saved."""
    return Ending(
        state=ContainerState.CANCELLED,
        exit_code=exit_code,
        failure=error.failure,
        error=bounded(error.message),
    )


def stopped(exit_code: int | None = None, *, is_wanted: bool, left: bool) -> Ending:
    """Decide the outcome of a Running container whose supervisor was stopped. `is_wanted`, `left`:
    see `Circumstances`.
    """
    if not is_wanted:
        return Ending(state=ContainerState.CANCELLED, exit_code=exit_code, keeps_output=True)
    if left:
        return Ending(state=ContainerState.RUNNING, exit_code=exit_code, warning=_LEFT)
    error = ExecutionError(_STOPPED, Failure.INFRASTRUCTURE)
    return failed(error, exit_code=exit_code)


async def stop_early(
    session: SupervisorSession, config: SupervisorConfig, *, running: bool
) -> Ending:
    """Outcome of a container that was stopped before the end of its command. `running`: it was
    reported as Running.
    """
    if not running:
        return Ending(state=ContainerState.QUEUED)
    return stopped(is_wanted=await session.is_wanted(), left=config.dispatcher_classifies)


def without_results(ending: Ending, error: Full) -> Ending:
    """The same outcome when neither output nor log could be saved: a Complete container has
    both.
    """
    if ending.state is not ContainerState.COMPLETE:
        return ending
    why = ending.error or f"its results cannot be saved: {error.message}"
    return failed(ExecutionError(why, ending.failure or Failure.DISK), exit_code=ending.exit_code)


def stopped_while_saving(ending: Ending) -> Ending:
    """The same outcome when its results were refused: a Complete container has an output."""
    if ending.state is not ContainerState.COMPLETE:
        return ending
    return structs.replace(
        ending,
        state=ContainerState.CANCELLED,
        warning="cancelled while its output was saved; none of it is kept",
    )


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Further facts about the end of a command."""

    stopped: bool = False
    """The supervisor got a stop signal."""
    timed_out: bool = False
    """The container exceeded its max_run_time."""
    preempted: str = ""
    """The cloud's notice of preemption, or ""."""
    overfull: str = ""
    """Reason for which it was ended when it used more disk space than its allowance, or ""."""
    full: str = ""
    """The place that has no space left, or ""."""
    is_wanted: bool = False
    """Its request still needs it: the stop came from outside."""
    left: bool = False
    """The fleet knows why it stopped the supervisor: the dispatcher ends the record."""


_STOPPED = (
    "its supervisor was stopped (TERM) although its request still needs it:"
    " its job was cancelled in the batch system, or its machine is shut down;"
    " the container runs again if its request allows"
)
_LEFT = (
    "its supervisor was stopped (TERM) although its request still needs it;"
    " the dispatcher ends its record with the reason"
)
# Standard error of a command that crun could not execute, with the timestamp of the log.
_REFUSAL = re.compile(rb"\S+Z exec container process [^\n]*`: ([^\n]*)\n?")
# crun writes one line; a log that is longer has output of the command.
_LONGEST_REFUSAL = 5000
# Exit codes of a command that our TERM or KILL has ended (128 + signal, as in a shell).
_ENDED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def judge(exit_: Exit, container: Container, circumstances: Circumstances) -> Ending:
    """Outcome of a command.

    An end by TERM or KILL is ours: the outcome of a cancelled container has an exit code only when
    its command exited by itself, and tells of it in words alone. The order of the tests is
    significant: the first cause that holds explains those below it.
    """
    cancelled = _judge_cancelled(exit_, container, circumstances)
    return _judge_complete(exit_, container, circumstances) if cancelled is None else cancelled


def refused_by_kernel(exit_: Exit, log: Log, *, since: int = 0) -> Exit:
    """The exit with the code of a shell where the kernel refused to execute the command: 127 where
    a file is missing, else 126. crun ends with 1 then, and only its message tells the two apart:
    all that the command has written to standard error, which begins at `since` in the log.
    """
    if exit_.code != 1 or log.size(STDERR) - since > _LONGEST_REFUSAL:
        return exit_
    try:
        with (log.directory / STDERR).open("rb") as file:
            file.seek(since)
            said = file.read(_LONGEST_REFUSAL) + log.tails().get(STDERR, b"")
    except OSError:
        return exit_
    found = _REFUSAL.fullmatch(said)
    if found is None:
        return exit_
    return structs.replace(exit_, code=127 if b"No such file" in found[1] else 126)


def _judge_cancelled(
    exit_: Exit, container: Container, circumstances: Circumstances
) -> Ending | None:
    """The end of a command that was ended from outside or lost; None where it ended by itself."""
    own = None if exit_.lost or exit_.code in _ENDED else exit_.code
    # Ended by the supervisor itself, with a signal: tested before the results of that signal.
    if circumstances.overfull:
        error = circumstances.overfull
        return Ending(
            state=ContainerState.CANCELLED,
            exit_code=own,
            failure=Failure.DISK,
            error=error,
            keeps_output=True,
        )
    if circumstances.timed_out:
        limit = container.scheduling_parameters.get("max_run_time")
        error = f"stopped after its max_run_time of {limit} s; ask for more time"
        return Ending(
            state=ContainerState.CANCELLED,
            exit_code=own,
            failure=Failure.TIMEOUT,
            error=error,
            keeps_output=True,
        )
    # After a notice of preemption the machine may end the command before the supervisor does.
    if circumstances.preempted and (circumstances.stopped or exit_.code in _ENDED):
        error = (
            f"{circumstances.preempted}; the container runs again elsewhere if its request allows"
        )
        return Ending(
            state=ContainerState.CANCELLED, exit_code=own, failure=Failure.PREEMPTED, error=error
        )
    if circumstances.stopped:
        return stopped(own, is_wanted=circumstances.is_wanted, left=circumstances.left)
    if exit_.lost:
        error = f"{exit_.lost}; the container runs again if its request allows"
        return Ending(state=ContainerState.CANCELLED, failure=Failure.NODE, error=error)
    return None


def _judge_complete(exit_: Exit, container: Container, circumstances: Circumstances) -> Ending:
    """The end of a command that ended by itself, or for lack of RAM, disk or processes."""
    ram = container.runtime_constraints.get("ram")
    amount = format_bytes(ram) if isinstance(ram, int) else "bytes"
    sentence = f"the kernel killed a process because the container used all of its {amount} of ram"
    if exit_.sampled_memory and isinstance(ram, int):
        sentence = memory_sampling.sentence(exit_.sampled_memory, ram)
    # The kernel may kill a child that the command does without: only a failed command is blamed on
    # it.
    if exit_.out_of_memory and exit_.code != 0:
        error = f"{sentence}; ask for more"
        return Ending(
            state=ContainerState.COMPLETE, exit_code=exit_.code, failure=Failure.OOM, error=error
        )
    if circumstances.full and exit_.code != 0:
        error = f"the command failed when {circumstances.full}; ask for more, or write less"
        return Ending(
            state=ContainerState.COMPLETE, exit_code=exit_.code, failure=Failure.DISK, error=error
        )
    warnings = [sentence] if exit_.out_of_memory else []
    if exit_.refused_processes:
        warnings.append(_refused(exit_.refused_processes))
    return Ending(state=ContainerState.COMPLETE, exit_code=exit_.code, warning="; ".join(warnings))


def _refused(number: int) -> str:
    return (
        f"the kernel refused it {number} new processes or threads,"
        " as it had as many as a container may have;"
        " start fewer at a time, or ask the operator for a larger Containers.MaxProcesses"
    )


def signal_name(code: int) -> str:
    """` (SIGKILL)` for an exit code that stands for a signal, else ""."""
    try:
        return f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        return ""


def runtime_status(ending: Ending, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """The new runtime_status, including the entries of the container itself; None when nothing is
    to be added.
    """
    # The record of a container that is not Complete has no exit code.
    is_told = ending.error and ending.exit_code is not None
    code = f"The command ended with exit code {ending.exit_code}." if is_told else ""
    detail = "\n".join(value for value in (ending.error_detail, code) if value)
    entries = {
        "error": ending.error,
        "errorDetail": "" if ending.state is ContainerState.COMPLETE else detail,
        "warning": ending.warning,
        "warningDetail": ending.warning_detail,
        "failure": str(ending.failure or ""),
    }
    added: dict[str, Any] = {name: value for name, value in entries.items() if value}
    if ending.omitted:
        added[OMITTED] = ending.omitted
    return {**before, **added} if added else None
