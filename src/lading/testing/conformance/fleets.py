"""Conformance suite of fleets (`lading.dispatch.fleet.Fleet`).

A test module subclasses `FleetSuite` and gives the fixture `fleet`: a fleet whose view is known and
has a worker for two small containers, opened by `ready`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from signal import Signals

import pytest

from lading.core.errors import Conflict
from lading.core.resources import Resources
from lading.dispatch.fleet import Fleet, FleetView, StartRequest

ONE, TWO = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"
PATIENCE = 180.0


@asynccontextmanager
async def ready(opened: AbstractAsyncContextManager[Fleet]) -> AsyncGenerator[Fleet]:
    """The fleet that a context opens, once it has a worker. Raises TimeoutError after 180 s."""
    async with asyncio.timeout(PATIENCE), opened as fleet:
        await until(fleet, lambda view: view.is_known and bool(view.workers))
        yield fleet


async def until(fleet: Fleet, condition: Callable[[FleetView], bool]) -> FleetView:
    while not condition(fleet.view()):
        await fleet.changed()
    return fleet.view()


def on(fleet: Fleet, uuid: str = ONE) -> StartRequest:
    return StartRequest(uuid=uuid, worker=fleet.view().workers[0].id, token="secret")


class FleetSuite:
    """The promises of every fleet."""

    async def test_a_worker_has_a_capacity(self, fleet: Fleet) -> None:
        assert Resources(1, 1).fits(fleet.view().workers[0].capacity)
        assert fleet.view().processes == {}

    async def test_a_started_process_is_in_the_view_at_once(self, fleet: Fleet) -> None:
        await fleet.start(on(fleet))
        process = fleet.view().processes[ONE]
        assert process.alive
        assert process.worker

    async def test_a_container_has_one_process(self, fleet: Fleet) -> None:
        await fleet.start(on(fleet))
        with pytest.raises(Conflict):
            await fleet.start(on(fleet))

    async def test_processes_are_independent(self, fleet: Fleet) -> None:
        await fleet.start(on(fleet))
        await fleet.start(on(fleet, TWO))
        await fleet.signal(ONE, Signals.SIGKILL)
        view = await until(fleet, lambda view: not view.processes[ONE].alive)
        assert view.processes[TWO].alive

    async def test_an_exited_process_stays_in_the_view_until_it_is_cleaned(
        self, fleet: Fleet
    ) -> None:
        await fleet.start(on(fleet))
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda view: not view.processes[ONE].alive)
        with pytest.raises(Conflict):
            await fleet.start(on(fleet))
        await fleet.clean(ONE)
        assert ONE not in fleet.view().processes
        await fleet.start(on(fleet))
        assert fleet.view().processes[ONE].alive

    async def test_a_living_process_is_not_cleaned_away(self, fleet: Fleet) -> None:
        await fleet.start(on(fleet))
        with pytest.raises(Conflict):
            await fleet.clean(ONE)
        assert fleet.view().processes[ONE].alive

    async def test_cleaning_may_be_repeated(self, fleet: Fleet) -> None:
        await fleet.clean(ONE)
        await fleet.clean(ONE)
        assert ONE not in fleet.view().processes

    async def test_a_signal_to_nobody_does_nothing(self, fleet: Fleet) -> None:
        await fleet.signal(ONE, Signals.SIGTERM)
        await fleet.start(on(fleet))
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda view: not view.processes[ONE].alive)
        await fleet.signal(ONE, Signals.SIGTERM)
        assert not fleet.view().processes[ONE].alive

    async def test_an_assignment_does_not_show_its_token(self, fleet: Fleet) -> None:
        assert "secret" not in repr(on(fleet))
