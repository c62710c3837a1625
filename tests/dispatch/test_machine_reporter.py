"""Reports about machines to the API, and orders that come back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.client.transport import Response
from lading.core.errors import Invalid, NotFound
from lading.core.resources import GIB, Resources
from lading.core.scheduling.machines import (
    MachineAction,
    MachineKind,
    MachineReport,
    MachineState,
)
from lading.core.scheduling.planning import FleetWorker, TrackedContainer
from lading.dispatch.fleet import FleetView, SupervisorProcess
from lading.dispatch.machine_reporter import MachineReporter, describe
from lading.testing.fleet import FakeFleet
from lading.testing.plain_transport import ExchangesOnly

UUID, OTHER = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"


class FakeServer(ExchangesOnly):
    """Takes reports and gives orders."""

    def __init__(self) -> None:
        self.reports: list[object] = []
        self.orders: list[object] = []
        self.known = True
        self.odd: dict[str, object] = {}
        self.status = 200

    async def request(
        self, method: str, path: str, *, headers: Mapping[str, str],
        body: bytes | bytearray = b"", timeout: float = 0.0,
    ) -> Response:  # fmt: skip
        """Answer a report."""
        assert (method, path) == ("POST", "/arvados/v1/dispatch/machines")
        assert headers
        assert timeout
        self.reports.append(msgspec.json.decode(body)["report"])
        orders, self.orders = self.orders, []
        answer = {"known": self.known, "orders": orders, "errors": ["no"]} | self.odd
        return Response(self.status, {}, msgspec.json.encode(answer))


class FakeSource:
    """A fleet's machines, with the orders that were carried out."""

    def __init__(self) -> None:
        self.state = "idle"
        self.done: list[tuple[str, str, str]] = []

    def machines(self) -> MachineReport:
        """One VM."""
        return MachineReport(
            machines=(MachineState(id="i-1", kind=MachineKind.VM, state=self.state),)
        )

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Note an order. Raises NotFound for another machine."""
        if machine != "i-1":
            raise NotFound(machine)
        self.done.append((machine, action, reason))


class FleetWithMachines(FakeFleet):
    """A fleet that knows its machines."""

    def __init__(self, source: FakeSource) -> None:
        super().__init__()
        self.machine_source = source


def _reporter(server: FakeServer, source: FakeSource) -> MachineReporter:
    client = ApiClient(server, "secret", retry=NO_RETRY)
    return MachineReporter(client, FleetWithMachines(source), lambda _: None, interval=0.001)


async def test_machines_are_sent_when_they_have_changed() -> None:
    server, source = FakeServer(), FakeSource()
    made = _reporter(server, source)
    for state in ("idle", "idle", "running"):
        source.state = state
        await made.report()
    sent = [one and one["machines"][0]["state"] for one in server.reports]  # type: ignore[index]
    assert sent == ["idle", None, "running"]


async def test_a_server_that_forgot_is_sent_all() -> None:
    server, source = FakeServer(), FakeSource()
    made = _reporter(server, source)
    await made.report()
    server.known = False
    await made.report()
    await made.report()
    assert [one is None for one in server.reports] == [False, True, False]


@pytest.mark.parametrize("odd", [{"known": None}, {"orders": [{"machine": "i-1"}]}])
async def test_an_answer_of_another_form_is_refused(odd: dict[str, object]) -> None:
    server, source = FakeServer(), FakeSource()
    server.odd = odd
    with pytest.raises(Invalid):
        await _reporter(server, source).report()
    assert not source.done


async def test_orders_are_carried_out() -> None:
    server, source = FakeServer(), FakeSource()
    server.orders = [
        {"machine": "gone", "action": "kill"},
        {"machine": "i-1", "action": "hold", "reason": "disk"},
    ]
    await _reporter(server, source).report()
    assert source.done == [("i-1", "hold", "disk")]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_server_that_takes_no_reports_is_left_alone(status: int) -> None:
    server = FakeServer()
    server.status = status
    await _reporter(server, FakeSource()).run()
    assert len(server.reports) == 1


def test_workers_of_another_fleet() -> None:
    view = FleetView(
        is_known=True,
        workers=(FleetWorker("one", Resources(4, 8 * GIB)), FleetWorker("two", Resources(1, GIB))),
        processes={
            UUID: SupervisorProcess("one"),
            OTHER: SupervisorProcess("one", asking=True),
            "dead": SupervisorProcess("one", alive=False),
        },
    )
    needs = {
        uuid: TrackedContainer(uuid=uuid, need=Resources(3, GIB)) for uuid in (UUID, OTHER, "dead")
    }
    first, second = describe(view, needs.get).machines
    assert (first.total.vcpus, first.reserved.vcpus, first.containers) == (4, 3, (UUID, OTHER))
    assert (first.state, second.state, second.actions) == ("running", "idle", ())
