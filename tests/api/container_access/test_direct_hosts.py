"""A machine is tried once, and then not again for a while."""

from __future__ import annotations

import asyncio

from lading.api.container_access.direct_hosts import DirectHosts


class Machine:
    """A machine that answers or not, and how often it was tried."""

    def __init__(self, *, answers: bool) -> None:
        self.answers, self.tries = answers, 0

    async def attempt(self) -> bool:
        self.tries += 1
        return self.answers


async def test_a_machine_is_tried_again_after_a_while() -> None:
    now = 0.0
    hosts = DirectHosts(lambda: now)
    near, far = Machine(answers=True), Machine(answers=False)
    for _ in range(3):
        assert await hosts.is_reached("near", near.attempt)
        assert not await hosts.is_reached("far", far.attempt)
    assert (near.tries, far.tries) == (1, 1)
    now = 600.0
    assert await hosts.is_reached("near", near.attempt)
    assert not await hosts.is_reached("far", far.attempt)
    assert (near.tries, far.tries) == (1, 2)
    # A session could not reach it.
    hosts.miss("near")
    hosts.miss("unknown")
    assert not await hosts.is_reached("near", near.attempt)
    now = 1200.0
    assert await hosts.is_reached("near", near.attempt)


async def test_others_do_not_wait_for_an_attempt() -> None:
    hosts, go = DirectHosts(), asyncio.Event()

    async def slow() -> bool:
        return await go.wait()

    async with asyncio.TaskGroup() as tasks:
        first = [tasks.create_task(hosts.is_reached(f"host{number}", slow)) for number in range(8)]
        await asyncio.sleep(0)
        # The same machine, and one more than are tried at a time.
        assert not await hosts.is_reached("host0", slow)
        assert not await hosts.is_reached("another", slow)
        go.set()
    assert all(task.result() for task in first)
    assert await hosts.is_reached("another", Machine(answers=True).attempt)


async def test_an_attempt_that_breaks_off_is_none() -> None:
    hosts = DirectHosts()

    async def broken() -> bool:
        raise RuntimeError

    for _ in range(2):
        try:
            await hosts.is_reached("host", broken)
        except RuntimeError:
            continue
    assert await hosts.is_reached("host", Machine(answers=True).attempt)
