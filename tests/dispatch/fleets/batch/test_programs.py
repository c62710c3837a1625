"""Programs of batch systems: how they are run, and what their failures mean."""

from __future__ import annotations

import asyncio

import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.batch.programs import (
    OutcomeUnknown,
    ProgramResult,
    last_line,
    run_program,
)


async def test_a_program_gets_only_a_small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARVADOS_API_TOKEN", "secret")
    monkeypatch.setenv("SLURM_CONF", "/conf")
    done = await run_program(
        ["sh", "-c", "env; cat; echo oops >&2; exit 3"], stdin=b"input\n", timeout=20
    )
    assert (done.code, done.err) == (3, "oops\n")
    assert "SLURM_CONF=/conf" in done.out
    assert "input" in done.out
    assert "secret" not in done.out


async def test_a_program_that_hangs_or_is_not_there() -> None:
    with pytest.raises(OutcomeUnknown, match="no answer in"):
        await run_program(["sleep", "60"], stdin=b"", timeout=0.05)
    with pytest.raises(Unavailable, match="install the batch system's programs"):
        await run_program(["/no/such/program"], stdin=b"", timeout=1)


async def test_a_program_ends_with_whoever_waits_for_it() -> None:
    task = asyncio.create_task(run_program(["sleep", "60"], stdin=b"", timeout=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_messages_of_programs_are_those_of_no_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    result = await run_program(["sh", "-c", 'printf %s "$LC_ALL"'], stdin=b"", timeout=20)
    assert result.out == "C"


def test_a_long_message_is_cut() -> None:
    assert len(last_line(ProgramResult(1, "", "qsub: " + "x" * 10_000))) == 200
