"""How a container's life ended, and what the record is told about it (docs/spec/containers, section
Run).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lading.core.containers.container import Container, State
from lading.core.errors import ExecutionError, Failure, Full
from lading.supervisor.engines import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How it ended. `state` None: the container is somebody else's, nothing may be written."""

    state: State | None
    exit_code: int | None = None
    failure: Failure | None = None
    error: str = ""
    warning: str = ""


def failed(error: ExecutionError, *, exit_code: int | None = None) -> Ending:
    """The end of a container that could not be run, or whose output could not be saved."""
    return Ending(
        state=State.CANCELLED, exit_code=exit_code, failure=error.failure, error=error.message
    )


def without_results(ending: Ending, error: Full) -> Ending:
    """The same end where neither output nor log could be saved: nothing is Complete without
    them.
    """
    if ending.state is not State.COMPLETE:
        return ending
    why = ending.error or f"its results cannot be saved: {error.message}"
    return failed(ExecutionError(why, ending.failure or Failure.DISK), exit_code=ending.exit_code)


def stopped_while_saving(ending: Ending) -> Ending:
    """The same end where somebody wanted no results any more: nothing is Complete without them."""
    if ending.state is not State.COMPLETE:
        return ending
    return replace(
        ending,
        state=State.CANCELLED,
        warning="cancelled while its output was saved; none of it is kept",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What else is known when a command has ended."""

    stopped: bool = False
    """It was told to stop."""
    timed_out: bool = False
    """Because its time was over."""
    preempted: str = ""
    """What the cloud said when it took the machine away."""
    overfull: str = ""
    """Why it was ended: it took more of the disk than it may."""
    full: str = ""
    """What has no room left."""
    wanted: bool = False
    """Its request wants it still: it was told to stop by somebody else."""


_STOPPED = (
    "its supervisor was told to end (TERM) although its request wants it still:"
    " its job was cancelled in the batch system, or its machine is shut down;"
    " the container runs again if its request allows"
)
_ENDED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def judge(exit_: Exit, container: Container, circumstances: Circumstances) -> Ending:
    """What the end of the command means.

    A container that is cancelled has an exit code only where its command chose one: the end by TERM
    or KILL is ours.
    """
    own = None if exit_.lost or exit_.code in _ENDED else exit_.code
    if circumstances.overfull:
        error = circumstances.overfull
        return Ending(state=State.CANCELLED, exit_code=own, failure=Failure.DISK, error=error)
    if circumstances.timed_out:
        limit = container.scheduling_parameters.get("max_run_time")
        error = f"stopped after its max_run_time of {limit} s; ask for more time"
        return Ending(state=State.CANCELLED, exit_code=own, failure=Failure.TIMEOUT, error=error)
    if circumstances.preempted and (circumstances.stopped or exit_.code in _ENDED):
        error = (
            f"{circumstances.preempted}; the container runs again elsewhere if its request allows"
        )
        return Ending(state=State.CANCELLED, exit_code=own, failure=Failure.PREEMPTED, error=error)
    if circumstances.stopped and circumstances.wanted:
        return Ending(
            state=State.CANCELLED, exit_code=own, failure=Failure.INFRASTRUCTURE, error=_STOPPED
        )
    if circumstances.stopped:
        return Ending(state=State.CANCELLED, exit_code=own)
    if exit_.lost:
        error = f"{exit_.lost}; the container runs again if its request allows"
        return Ending(state=State.CANCELLED, failure=Failure.NODE, error=error)
    ram = container.runtime_constraints.get("ram")
    sentence = (
        f"the kernel killed a process because the container used all of its {ram} bytes of ram"
    )
    if exit_.out_of_memory and exit_.code != 0:
        error = f"{sentence}; ask for more"
        return Ending(state=State.COMPLETE, exit_code=exit_.code, failure=Failure.OOM, error=error)
    if circumstances.full and exit_.code != 0:
        error = f"the command failed when {circumstances.full}; ask for more, or write less"
        return Ending(state=State.COMPLETE, exit_code=exit_.code, failure=Failure.DISK, error=error)
    warnings = [sentence] if exit_.out_of_memory else []
    if exit_.refused_processes:
        warnings.append(_refused(exit_.refused_processes))
    return Ending(state=State.COMPLETE, exit_code=exit_.code, warning="; ".join(warnings))


def _refused(number: int) -> str:
    return (
        f"the kernel refused it {number} new processes or threads,"
        " as it had as many as a container may have;"
        " start fewer at a time, or ask the operator for a larger Containers.MaxProcesses"
    )


def runtime_status(ending: Ending, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """The new runtime_status with what the container itself had put there; None when there is
    nothing to say.
    """
    said = {"error": ending.error, "warning": ending.warning, "failure": str(ending.failure or "")}
    added = {name: text for name, text in said.items() if text}
    return {**before, **added} if added else None


def signal_name(code: int) -> str:
    """` (SIGKILL)` for an exit code that stands for a signal, else nothing."""
    try:
        return f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        return ""
