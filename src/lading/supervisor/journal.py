"""What a supervisor has begun and finished, on disk, so that another process can undo it after a
crash.

One JSON object a line. The first says which engine serves the container and with which settings;
each of the others names a step and what became of it. Nothing here is secret: neither tokens nor
contents of mounts are written. A crash of the machine needs no journal, so nothing is synced.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from lading.supervisor.engines import EngineSettings

NAME = "journal"
CONTAINER_STEP = "container"
"""The step from which on the engine has something to remove."""


class Mark(StrEnum):
    """What became of a step."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first line."""

    engine: str
    settings: EngineSettings


@dataclass(frozen=True, slots=True)
class Line:
    """Any other line."""

    step: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Step:
    """A named step: `do` may be repeated, `undo` may be called when `do` was never finished, or not
    even begun.
    """

    name: str
    do: Callable[[], Awaitable[None]]
    undo: Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Undo nothing."""


class Journal:
    """Appends to the journal in one run directory."""

    def __init__(self, run_directory: Path) -> None:
        self._path = run_directory / NAME

    def open(self, opening: Opening) -> None:
        """Begin a new journal."""
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(descriptor, msgspec.json.encode(opening) + b"\n")
        finally:
            os.close(descriptor)

    def write(self, step: str, mark: Mark) -> None:
        """Add a line."""
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(descriptor, msgspec.json.encode(Line(step, mark)) + b"\n")
        finally:
            os.close(descriptor)


def read_journal(run_directory: Path) -> tuple[Opening, list[Line]] | None:
    """What the journal says; None when there is none or its first line was never finished."""
    try:
        first, *rest = (run_directory / NAME).read_bytes().split(b"\n")
        opening = msgspec.json.decode(first, type=Opening)
    except (OSError, msgspec.DecodeError):
        return None
    lines = []
    for text in rest:
        try:
            lines.append(msgspec.json.decode(text, type=Line))
        except msgspec.DecodeError:
            break
    return opening, lines


def unfinished(lines: list[Line]) -> list[str]:
    """Steps that were begun and not undone, last first."""
    begun: dict[str, None] = {}
    for line in lines:
        if line.mark is Mark.UNDONE:
            begun.pop(line.step, None)
        else:
            begun.setdefault(line.step)
    return list(reversed(begun))
