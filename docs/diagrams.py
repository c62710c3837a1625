"""Mermaid state diagrams of the transition tables, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from lading.core.containers import container, request
from lading.core.hpc import daemon_states

_State = TypeVar("_State", bound=StrEnum)


def render(transitions: Mapping[_State, Iterable[_State]], *, initial: Iterable[_State]) -> str:
    """Mermaid `stateDiagram-v2` text of a table: one line for each transition; final states end."""
    lines = ["stateDiagram-v2", *(f"    [*] --> {state}" for state in initial)]
    for state, ways in transitions.items():
        following = tuple(ways)
        lines += [f"    {state} --> {one}" for one in following] or [f"    {state} --> [*]"]
    return "\n".join(lines) + "\n"


def container_diagram() -> str:
    """The states of a container."""
    return render(container.TRANSITIONS, initial=(container.INITIAL,))


def request_diagram() -> str:
    """The states of a container request."""
    return render(request.TRANSITIONS, initial=request.INITIAL)


def hpc_code_diagram() -> str:
    """The states of the code in an HPC container."""
    return render(daemon_states.CODE_TRANSITIONS, initial=(daemon_states.CodeStatus.WAITING,))


def hpc_result_diagram() -> str:
    """The states of the results of an HPC container."""
    return render(daemon_states.RESULT_TRANSITIONS, initial=(daemon_states.ResultStatus.WAITING,))
