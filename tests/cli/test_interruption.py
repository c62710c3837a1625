"""Ctrl-C of commands that have submitted something."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lading.cli.endings.end_signals import raising
from lading.cli.interruption import interruptible

# Tests may be started where these are ignored, which children inherit.
_HEARING = ("env", "--default-signal=HUP,INT,TERM")


async def test_a_second_ctrl_c_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    import click

    asked = asyncio.Event()
    with pytest.raises(click.exceptions.Exit) as left:
        async with interruptible("zzzzz-xvhdp-1", asked.set, see="lading top") as was_interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            await asked.wait()
            assert was_interrupted()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
    assert left.value.exit_code == 130
    assert "left zzzzz-xvhdp-1; see: lading top" in capsys.readouterr().err


async def test_a_cancellation_that_is_none_of_ours_goes_on() -> None:
    async def wait() -> None:
        async with interruptible("x", lambda: None, see=""):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# A command that works in a loop, beside a thread that only waits.
_COMMAND = """
import asyncio, sys, tempfile, threading
import lading.cli.main as m
from lading.cli.session import CliSession, with_session
import click

@click.command()
def busy():
    async def action(session):
        with tempfile.TemporaryDirectory(prefix="lading-test-"):
            print("ready", flush=True)
            await asyncio.to_thread(threading.Event().wait, 60)
    with_session(action)

@click.command()
def alone():
    with tempfile.TemporaryDirectory(prefix="lading-test-"):
        print("ready", flush=True)
        threading.Event().wait(60)

class Session:
    async def __aenter__(self): return None
    async def __aexit__(self, *_): pass

m.LazyGroup.get_command = lambda self, ctx, name: {"busy": busy, "alone": alone}[name]
m.main.__globals__["cli"].context_settings["obj"] = Session
m.main()
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
    ],
)
@pytest.mark.parametrize("name", ["busy", "alone"])
def test_a_signal_ends_a_command_at_once_and_nothing_is_left(
    name: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*_HEARING, sys.executable, "-c", _COMMAND, name],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        assert [*tmp_path.iterdir()]
        process.send_signal(number)
        said = process.stderr.read()
        # Less than the thread takes.
        assert process.wait(30) == code
    assert [*tmp_path.iterdir()] == []
    assert said == (b"\nlading: interrupted\n" if number == signal.SIGINT else b"")


async def test_the_handlers_of_before_return() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with raising():
        inside = signal.getsignal(signal.SIGTERM)
        async with interruptible("x", lambda: None, see=""):
            pass
        assert signal.getsignal(signal.SIGTERM) is inside
    assert signal.getsignal(signal.SIGTERM) is before


def test_work_that_leaves_nothing_behind_ends_at_once() -> None:
    script = (
        "import asyncio\n"
        "from lading.cli.endings.end_signals import raising\n"
        "from lading.cli.interruption import run_until_killed\n"
        "async def work():\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "with raising():\n"
        "    run_until_killed(work())\n"
    )
    command = (*_HEARING, sys.executable, "-c", script)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == -signal.SIGHUP
