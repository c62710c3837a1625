"""One step of `make nightly`: a command with a time limit, and what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTING: Final = 60.0
"""Seconds between SIGTERM and SIGKILL for a step that takes too long: it removes what it made."""


@dataclass(frozen=True)
class Outcome:
    """The end of a step. `code` is its exit code; None if it took too long."""

    name: str
    seconds: float
    code: int | None
    log: Path

    @property
    def has_passed(self) -> bool:
        """Whether it ended in time and well."""
        return self.code == 0

    @property
    def line(self) -> str:
        """A line of the table."""
        result = "too long" if self.code is None else "passed" if self.code == 0 else "FAILED"
        where = "" if self.has_passed else f"  {self.log}"
        return f"{self.name:<12} {_clock(self.seconds)}  {result}{where}"


def run_step(
    name: str, command: Sequence[str], limit: float, logs: Path, *, parting: float = PARTING
) -> Outcome:
    """Run a command in a session of its own, its output in a file of `logs`. What is left of it
    after `limit` seconds is ended.
    """
    log, began = logs / f"{name}.log", time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
        code = _wait(process, limit)
        if code is None:
            _end(process, signal.SIGTERM)
            _wait(process, parting)
        # Also what a step that has ended has left in its session.
        _end(process, signal.SIGKILL)
        process.wait()
    return Outcome(name, time.monotonic() - began, code, log)


def table(outcomes: Sequence[Outcome]) -> str:
    """All outcomes, with their sum."""
    failed = [outcome.name for outcome in outcomes if not outcome.has_passed]
    total = sum(outcome.seconds for outcome in outcomes)
    last = f"{'sum':<12} {_clock(total)}  {len(outcomes) - len(failed)} passed"
    if failed:
        last += f", {len(failed)} did not: {', '.join(failed)}"
    return "\n".join([*(outcome.line for outcome in outcomes), last])


def _wait(process: subprocess.Popen[bytes], limit: float) -> int | None:
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
