"""Processes that are no children; a pipe is the pidfd, whose end is the end of the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lading.supervisor.engines.adoption import AdoptedProcess, RunningContainer, read_root


@dataclass
class Command:
    """A process and what it leaves."""

    process: AdoptedProcess
    writing: int
    code: int | None = 7

    def end(self) -> None:
        os.close(self.writing)
        self.writing = -1


@pytest.fixture
def command() -> Iterator[Command]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    made = Command(AdoptedProcess(1234, reading, lambda: made.code), writing)
    yield made
    if made.writing >= 0:
        made.end()
    made.process.poll()


def test_the_exit_code_is_that_of_its_file(command: Command) -> None:
    assert (command.process.poll(), command.process.returncode) == (None, None)
    command.end()
    assert command.process.poll() == 7
    command.code = 8
    assert (command.process.wait(), command.process.returncode) == (7, 7)


def test_a_process_that_left_no_code_was_killed(command: Command) -> None:
    command.code = None
    command.end()
    assert command.process.wait() == -signal.SIGKILL


async def test_its_end_is_waited_for(command: Command) -> None:
    waiting = asyncio.create_task(command.process.ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    command.end()
    await waiting
    assert command.process.wait() == 7
    await command.process.ended()


def test_a_container_may_have_no_root_here() -> None:
    container = RunningContainer(pid=1, config={}, root_directory="")
    assert read_root(container) is None
