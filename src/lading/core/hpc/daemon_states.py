"""States kept by the daemon of an HPC container: of the container, of the code, of its results.

A failed upload may be repeated by command. Code started by another rank through ssh may run again
after it has stopped (`mpirun` twice in one script). Source: docs/spec/hpc-daemon, section States of
the code, and the sections beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from lading.core.errors import IllegalTransition

_State = TypeVar("_State", bound=StrEnum)


class ContainerStatus(StrEnum):
    """Whether the container's services work."""

    RUNNING = "Running"
    FS_ERROR = "FSError"


class CodeStatus(StrEnum):
    """Progress of the code."""

    WAITING = "Waiting"
    RUNNING = "Running"
    STOPPED = "Stopped"
    KILLED = "Killed"
    ERROR = "Error"


class ResultStatus(StrEnum):
    """Progress of the delivery of the results."""

    WAITING = "Waiting"
    UPLOADING = "Uploading"
    STOPPED = "Stopped"
    ERROR = "Error"


class ChildPolicy(StrEnum):
    """Processes whose exit with a code other than 0 ends the whole code (docs/spec/hpc-daemon,
    section Processes).
    """

    ANY = "any"
    """Every process."""
    DIRECT = "direct"
    """The executable alone."""
    NONE = "none"
    """None: all run to their end, and the executable's exit code is the result."""


class StartedBy(StrEnum):
    """Origin of the code's start: this daemon, or another rank through ssh."""

    DAEMON = "daemon"
    EXTERNALLY = "externally"


CONTAINER_TRANSITIONS: Mapping[ContainerStatus, tuple[ContainerStatus, ...]] = MappingProxyType(
    {
        ContainerStatus.RUNNING: (ContainerStatus.FS_ERROR,),
        ContainerStatus.FS_ERROR: (ContainerStatus.RUNNING,),
    }
)
CODE_TRANSITIONS: Mapping[CodeStatus, tuple[CodeStatus, ...]] = MappingProxyType(
    {
        CodeStatus.WAITING: (CodeStatus.RUNNING, CodeStatus.ERROR),
        CodeStatus.RUNNING: (CodeStatus.STOPPED, CodeStatus.KILLED, CodeStatus.ERROR),
        CodeStatus.STOPPED: (CodeStatus.RUNNING,),
        CodeStatus.KILLED: (),
        CodeStatus.ERROR: (),
    }
)
RESULT_TRANSITIONS: Mapping[ResultStatus, tuple[ResultStatus, ...]] = MappingProxyType(
    {
        ResultStatus.WAITING: (ResultStatus.UPLOADING,),
        ResultStatus.UPLOADING: (ResultStatus.STOPPED, ResultStatus.ERROR),
        ResultStatus.STOPPED: (ResultStatus.UPLOADING,),
        ResultStatus.ERROR: (ResultStatus.UPLOADING,),
    }
)
ENDED = frozenset({CodeStatus.STOPPED, CodeStatus.KILLED, CodeStatus.ERROR})


def change(table: Mapping[_State, tuple[_State, ...]], old: _State, new: _State) -> _State:
    """The new state. Raises IllegalTransition for a change that the table does not list."""
    if new not in table[old]:
        raise IllegalTransition(type(old).__name__, old, new)
    return new


def ends_all(policy: ChildPolicy, *, direct: bool, exit_code: int) -> bool:
    """Whether the end of one process ends all other processes of the code.

    `direct`: it is the executable itself. `exit_code`: as a shell shows it, 128 + signal when a
    signal ended it.
    """
    if exit_code == 0 or policy is ChildPolicy.NONE:
        return False
    return direct or policy is ChildPolicy.ANY


def outcome(*, killed: bool, failed: bool, exit_code: int | None) -> CodeStatus:
    """The state of the code after the end of its last process.

    `killed`: by command, which takes precedence over an exit code. `failed`: one process ended all.
    `exit_code` of the executable: None when unknown, which is an error.
    """
    if killed:
        return CodeStatus.KILLED
    return CodeStatus.STOPPED if exit_code == 0 and not failed else CodeStatus.ERROR


def shell_code(code: int) -> int:
    """An exit code in the form of a shell, from one that is negative for a signal."""
    return code if code >= 0 else 128 - code


def percent(progress: str) -> float | None:
    """The progress written by the code, clamped to 0 to 100; None for anything that is no
    number.
    """
    try:
        value = float(progress.strip() or "x")
    except ValueError:
        return None
    # nan is the only value unequal to itself.
    return None if value != value else min(100.0, max(0.0, value))
