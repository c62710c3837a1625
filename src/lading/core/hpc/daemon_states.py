"""The states that the daemon of an HPC container keeps: of the container, of the code, of its
results.

An upload that failed may be tried again by command. Code that another rank starts through ssh may
come again after it has stopped (`mpirun` twice in one script).
Source: docs/spec/hpc-daemon, section States of the code, and the sections beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from lading.core.errors import IllegalTransition


class ContainerStatus(StrEnum):
    """Whether the container's services work."""

    RUNNING = "Running"
    FS_ERROR = "FSError"


class CodeStatus(StrEnum):
    """How far the code is."""

    WAITING = "Waiting"
    RUNNING = "Running"
    STOPPED = "Stopped"
    KILLED = "Killed"
    ERROR = "Error"


class ResultStatus(StrEnum):
    """How far the delivery of the results is."""

    WAITING = "Waiting"
    UPLOADING = "Uploading"
    STOPPED = "Stopped"
    ERROR = "Error"


class ChildPolicy(StrEnum):
    """Whose exit with another code than 0 ends the whole code (docs/spec/hpc-daemon, section
    Processes).
    """

    ANY = "any"
    """Every process's."""
    DIRECT = "direct"
    """That of the executable alone."""
    NONE = "none"
    """Nobody's: all run to their end, then the executable's exit code says how it went."""


class StartedBy(StrEnum):
    """Who started the code: this daemon, or another rank through ssh."""

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

_State = TypeVar("_State", bound=StrEnum)


def change(table: Mapping[_State, tuple[_State, ...]], old: _State, new: _State) -> _State:
    """The new state. Raises IllegalTransition for a change that the table does not list."""
    if new not in table[old]:
        raise IllegalTransition(type(old).__name__, old, new)
    return new


def ends_all(policy: ChildPolicy, *, direct: bool, exit_code: int) -> bool:
    """Whether all other processes of the code are killed because one has ended so.

    `direct`: it is the executable itself. `exit_code`: as a shell shows it, 128 + signal when a
    signal ended it.
    """
    if exit_code == 0 or policy is ChildPolicy.NONE:
        return False
    return direct or policy is ChildPolicy.ANY


def outcome(*, killed: bool, failed: bool, exit_code: int | None) -> CodeStatus:
    """The state of code whose last process has ended.

    `killed`: by command, which a late exit code does not override. `failed`: a process ended it for
    all. `exit_code` of the executable: None when it is not known, which is an error.
    """
    if killed:
        return CodeStatus.KILLED
    return CodeStatus.STOPPED if exit_code == 0 and not failed else CodeStatus.ERROR


def shell_code(code: int) -> int:
    """An exit code as a shell shows it, from one that is negative for a signal."""
    return code if code >= 0 else 128 - code


def percent(text: str) -> float | None:
    """What the code wrote as its progress, 0 to 100: clamped; None for what is no number."""
    try:
        value = float(text.strip() or "x")
    except ValueError:
        return None
    return None if value != value else min(100.0, max(0.0, value))
