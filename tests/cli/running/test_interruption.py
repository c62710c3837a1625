"""Ctrl-C of commands that have submitted something."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from lading.cli.running.interruption import interruptible


async def test_a_second_ctrl_c_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    import click

    asked = asyncio.Event()
    with pytest.raises(click.exceptions.Exit) as left:
        async with interruptible("zzzzz-xvhdp-1", asked.set) as was_interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            await asked.wait()
            assert was_interrupted()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
    assert left.value.exit_code == 130
    assert "left zzzzz-xvhdp-1; see: lading request show" in capsys.readouterr().err


async def test_a_cancellation_that_is_none_of_ours_goes_on() -> None:
    async def wait() -> None:
        async with interruptible("x", lambda: None):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
