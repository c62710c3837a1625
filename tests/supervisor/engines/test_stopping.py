from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lading.supervisor import linux
from lading.supervisor.engines.stopping import stop_by_init, terminate
from lading.supervisor.limits.counters import descendants
from tests.reality import need_root

PATIENCE = 20.0


@contextmanager
def container(script: str, lines: int) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The first process of a pid namespace, which runs a script of the shell and has written so
    many lines.
    """
    need_root()
    command = ["unshare", "--fork", "--pid", "--kill-child", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as outer:
        try:
            assert outer.stdout is not None
            for _ in range(lines):
                outer.stdout.readline()
            first = linux.find_init(descendants(outer.pid))
            assert first is not None
            yield first, outer
        finally:
            outer.kill()


async def test_the_child_of_a_shell_without_a_handler_hears_term() -> None:
    script = "sh -c 'trap \"echo checkpoint; exit\" TERM; echo; while :; do sleep 0.01; done'; :"
    with container(script, 1) as (first, outer):
        assert await terminate(first, grace=PATIENCE)
        assert outer.stdout is not None
        assert outer.stdout.readline() == b"checkpoint\n"


async def test_the_next_command_of_a_shell_does_not_begin() -> None:
    script = "trap 'echo told; exit' TERM; echo up; while :; do sleep 0.01; done"
    with container(f'sh -c "{script}"; echo next; :', 1) as (first, outer):
        assert await terminate(first, grace=PATIENCE)
        os.kill(first, signal.SIGKILL)
        assert outer.stdout is not None
        assert outer.stdout.read() == b"told\n"


async def test_a_first_process_that_is_alone_and_deaf_is_not_waited_for() -> None:
    with container("echo; exec sleep 600", 1) as (first, _):
        assert await terminate(first, grace=PATIENCE)
        assert linux.is_running(first)


async def test_a_process_that_ignores_term_is_waited_for_until_the_grace_is_over() -> None:
    script = "(trap '' TERM; echo; sleep 600); :"
    with container(script, 1) as (first, _):
        assert not await terminate(first, grace=0.2)
        assert linux.is_running(first)


async def test_a_process_that_has_got_the_signal_gets_no_second_one() -> None:
    script = "trap 'echo once' TERM; echo; while :; do sleep 0.01; done"
    with container(script, 1) as (first, outer):
        os.kill(first, signal.SIGTERM)
        assert not await terminate(first, grace=0.2, but={first})
        os.kill(first, signal.SIGKILL)
        assert outer.stdout is not None
        assert outer.stdout.read() == b"once\n"


async def test_a_process_outside_a_container_gets_no_signal() -> None:
    received: list[int] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, received.append, 1)
    assert not await terminate(os.getpid(), grace=0.2)
    assert received == []


async def test_a_container_that_has_ended_is_not_waited_for() -> None:
    assert await terminate(1 << 30, grace=PATIENCE)


async def test_a_container_that_ends_as_it_becomes_ready_is_not_waited_for() -> None:
    signals: list[str] = []

    async def send(name: str) -> None:
        signals.append(name)

    async def ready() -> None:
        # As the engine does when the command has ended.
        stopping.cancel()

    stopping = asyncio.create_task(stop_by_init(send, ready, grace=3600.0))
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await stopping
    assert signals == []
