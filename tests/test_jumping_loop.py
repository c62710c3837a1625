from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from lading.testing.jumping_loop import jumping, pass_time

_PAUSE = 0.02


@jumping
async def test_pauses_take_no_time() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(60):
        await pass_time(1)
    await asyncio.gather(pass_time(3600), pass_time(7200))
    assert 7201 <= loop.time() - began < 7260


@jumping
async def test_a_time_out_ends_what_waits_for_ever() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()


@jumping
async def test_time_passes_as_usual_while_a_thread_works() -> None:
    began, go_on = time.monotonic(), threading.Event()
    asyncio.get_running_loop().call_later(_PAUSE, go_on.set)
    assert await asyncio.to_thread(go_on.wait, 60)
    assert time.monotonic() - began >= _PAUSE
    await pass_time(3600)


@jumping
async def test_time_passes_as_usual_while_a_child_lives() -> None:
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec("sleep", "60")
    asyncio.get_running_loop().call_later(_PAUSE, child.kill)
    assert await child.wait() == -9
    assert time.monotonic() - began >= _PAUSE
    await pass_time(3600)


@jumping
async def test_time_passes_as_usual_while_a_pipe_is_watched() -> None:
    began, reading = time.monotonic(), asyncio.Event()
    loop = asyncio.get_running_loop()
    here, there = os.pipe()
    loop.add_reader(here, reading.set)
    loop.call_later(_PAUSE, os.write, there, b"x")
    await asyncio.wait_for(reading.wait(), 60)
    assert time.monotonic() - began >= _PAUSE
    loop.remove_reader(here)
    os.close(here)
    os.close(there)
    await pass_time(3600)
