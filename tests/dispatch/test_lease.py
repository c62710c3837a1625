"""The lease of a dispatcher's token, on a clock that moves by hand."""

from __future__ import annotations

import asyncio

import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.errors import Conflict, Invalid
from lading.dispatch.lease import TERM, DispatcherLease, boot_time, holding
from lading.testing.containers import QUICK, FakeContainers


class ManualClock:
    """A clock that moves by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> FakeContainers:
    return FakeContainers()


def make(server: FakeContainers, clock: ManualClock, holder: str = "a:/x") -> DispatcherLease:
    client = ApiClient(server, "secret", retry=NO_RETRY)
    return DispatcherLease(client, holder, settings=QUICK, clock=clock, wait=0.0)


async def test_it_is_held_for_its_term(server: FakeContainers) -> None:
    clock = ManualClock()
    lease = make(server, clock)
    assert not lease.is_held
    await lease.take()
    clock.now += TERM - 1
    lease.check()
    clock.now += 1
    with pytest.raises(Conflict, match="has expired"):
        lease.check()


async def test_one_that_has_expired_is_renewed_before_anything_is_done(
    server: FakeContainers,
) -> None:
    clock, held = ManualClock(), asyncio.Event()
    lease = make(server, clock)
    lease.on_held = held.set
    async with holding(lease):
        clock.now += 1000
        assert not lease.is_held
        await held.wait()
        lease.check()
    assert server.holder == ""


async def test_one_that_was_replaced_finds_out(server: FakeContainers) -> None:
    clock = ManualClock()
    lease = make(server, clock)
    with pytest.raises(Conflict, match="works with this token: b:/y"):
        async with holding(lease):
            server.holder, server.lease = "b:/y", "another"
            clock.now += 1000
            assert not lease.is_held
            await asyncio.Event().wait()
    assert server.lease == "another"


async def test_it_waits_for_another_process_and_says_so_once(server: FakeContainers) -> None:
    waits: list[str] = []
    server.holder, server.lease = "b:/y", "another"
    lease = make(server, ManualClock())
    taking = asyncio.create_task(lease.take(lambda: waits.append("waits")))
    await server.wait_for(lambda: len(server.calls) > 3)
    server.holder = server.lease = ""
    await taking
    assert (lease.is_held, waits) == (True, ["waits"])


async def test_it_waits_for_an_api_that_is_away(server: FakeContainers) -> None:
    server.down = True
    lease = make(server, ManualClock())
    taking = asyncio.create_task(lease.take())
    await server.wait_for(lambda: len(server.calls) > 2)
    server.down = False
    await taking
    keeping = asyncio.create_task(lease.keep())
    server.down = True
    assert lease.is_held
    keeping.cancel()


async def test_the_fault_inside_is_raised_as_it_is(server: FakeContainers) -> None:
    with pytest.raises(Invalid, match="no such fleet"):
        async with holding(make(server, ManualClock())):
            raise Invalid("no such fleet")


def test_the_clock_goes_on_during_a_suspension() -> None:
    assert boot_time() > 0
