"""The transition tables as Mermaid state diagrams, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


def render(transitions: Mapping[StrEnum, Iterable[StrEnum]], *, initial: Iterable[StrEnum]) -> str:
    """Mermaid `stateDiagram-v2` text of a table: one line a transition, states without a way out end."""
    raise NotImplementedError


def container_diagram() -> str:
    """The states of a container."""
    raise NotImplementedError


def request_diagram() -> str:
    """The states of a container request."""
    raise NotImplementedError
