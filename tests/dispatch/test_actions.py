"""The acts: what each asks of API and fleet, and what it learns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from signal import Signals
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState, DecisionKind
from lading.core.errors import Conflict, ExecutionError, Failure, Forbidden, Unavailable
from lading.core.quantities import format_time
from lading.core.resources import Price, Resources
from lading.dispatch.actions import Actions, LockLost
from lading.dispatch.fleet import Spending, StartRequest
from lading.dispatch.queue import Queue
from lading.dispatch.status_publisher import DecisionLog
from lading.testing.containers import TOKEN, FakeContainers
from lading.testing.fleet import FakeFleet


class Desk:
    """Actions in front of a fake server that has one queued container."""

    def __init__(self, fleet: FakeFleet | None = None) -> None:
        self.server, self.fleet, self.queue = (
            FakeContainers(),
            fleet or FakeFleet(),
            Queue(token=TOKEN),
        )
        client = ApiClient(self.server, "secret", retry=NO_RETRY)
        self.decisions = DecisionLog(lambda: 0.0)
        self.actions = Actions(client, self.fleet, self.queue, self.decisions)
        self.given: list[str] = []
        self.uuid = self.server.add()
        self.queue.merge([self.server.records[self.uuid]], ticket=self.queue.ticket(), now=0.0)

    async def start(self, uuid: str, *, worker: str, **more: Any) -> None:
        locked = await self.actions.lock(uuid, worker=worker, on_locked=self.given.append, **more)
        await self.actions.start(locked, worker=worker)

    def noted(self) -> list[DecisionKind]:
        return [one.decision for one in self.decisions.take()]

    def known(self) -> ContainerState | None:
        record = self.queue.get(self.uuid)
        return record.state if record else None


async def test_start_locks_then_starts_with_the_token_of_the_lock() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1")
    assert desk.known() is ContainerState.LOCKED
    container = desk.queue.get(desk.uuid)
    assert container is not None
    assert (container.need, container.priority) == (Resources(1, 1 << 20), 1)
    assert container.user == "zzzzz-tpzed-000000000000000"
    wanted = StartRequest(uuid=desk.uuid, worker="w1", token="secret1", container=container)
    assert desk.fleet.processes[desk.uuid].assignment == wanted
    assert desk.noted() == [DecisionKind.RUN, DecisionKind.DISPATCHED]


async def test_a_ready_image_is_named_and_the_supervisor_is_told_what_came_of_it() -> None:
    desk = Desk()
    desk.server.ready_image = "image"
    await desk.start(desk.uuid, worker="w1", ready_images=("image",))
    assert desk.known() is ContainerState.RUNNING
    request = desk.fleet.processes[desk.uuid].assignment
    assert request is not None
    assert request.is_started
    other = Desk()
    await other.start(other.uuid, worker="w1", ready_images=("image",))
    request = other.fleet.processes[other.uuid].assignment
    assert request is not None
    assert not request.is_started


async def test_start_says_how_much_it_gives() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1", amounts={"vcpus": 3, "ram": 4 << 20})
    assert desk.server.records[desk.uuid]["runtime_constraints"]["vcpus"] == 3
    record = desk.queue.get(desk.uuid)
    assert record is not None
    assert record.need == Resources(3, 4 << 20)


async def test_a_lost_lock_starts_nothing() -> None:
    desk = Desk()
    desk.server.hold(desk.uuid, ContainerState.LOCKED, by="another")
    with pytest.raises(LockLost, match="cannot lock when Locked"):
        await desk.start(desk.uuid, worker="w1")
    assert desk.fleet.started == []
    assert desk.noted() == [DecisionKind.RUN, DecisionKind.LOCK_FAILED]


async def test_the_first_free_alternative_is_started_in_place_of_a_lost_one() -> None:
    desk = Desk()
    lost, free, behind = desk.server.add(), desk.server.add(), desk.server.add()
    known = [desk.server.records[one] for one in (lost, free, behind)]
    desk.queue.merge(known, ticket=desk.queue.ticket(), now=0.0)
    for uuid in (desk.uuid, lost):
        desk.server.hold(uuid, ContainerState.LOCKED, by="another")
    await desk.start(desk.uuid, worker="w1", alternatives=(lost, free, behind))
    assert desk.given == [free]
    assert list(desk.fleet.processes) == [free]
    states = {one: record.state for one in desk.queue.uuids() if (record := desk.queue.get(one))}
    assert states == {
        desk.uuid: ContainerState.LOCKED,
        lost: ContainerState.LOCKED,
        free: ContainerState.LOCKED,
        behind: ContainerState.QUEUED,
    }
    assert desk.noted() == [
        DecisionKind.RUN, DecisionKind.LOCK_FAILED, DecisionKind.RUN, DecisionKind.DISPATCHED,
    ]  # fmt: skip


async def test_a_lock_of_unknown_outcome_is_not_a_lost_one() -> None:
    desk = Desk()
    desk.server.down = True
    with pytest.raises(Unavailable):
        await desk.start(desk.uuid, worker="w1")


async def test_a_lock_without_token_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    answer = desk.server.lock

    def lock(uuid: str, amounts: dict[str, Any] | None, caller: str) -> dict[str, Any]:
        return {**answer(uuid, amounts, caller), "supervisor_token": None}

    monkeypatch.setattr(desk.server, "lock", lock)
    with pytest.raises(ExecutionError, match="no supervisor token"):
        await desk.start(desk.uuid, worker="w1")
    assert desk.known() is ContainerState.LOCKED


async def test_a_refused_start_is_noted() -> None:
    desk = Desk()
    with pytest.raises(ExecutionError):
        await desk.start(desk.uuid, worker="nowhere")
    last = desk.decisions.take()[-1]
    assert (last.uuid, last.decision) == (desk.uuid, DecisionKind.NOT_DISPATCHED)
    assert "Could not be started on nowhere" in last.sentence


async def test_requeue_gives_back_and_learns_it() -> None:
    desk = Desk()
    desk.server.hold(desk.uuid, ContainerState.LOCKED)
    await desk.actions.requeue(desk.uuid)
    assert desk.known() is desk.server.state(desk.uuid) is ContainerState.QUEUED
    (entry,) = desk.decisions.take()
    assert entry.decision is DecisionKind.ABANDONED
    assert "Given back" in entry.sentence


async def test_the_last_give_back_leaves_the_class_of_the_failed_start() -> None:
    desk = Desk()
    for _ in range(10):
        desk.server.records[desk.uuid]["state"] = "Queued"
        await desk.start(desk.uuid, worker="w1")
        desk.fleet.end(desk.uuid, fate="Pod x: it had no image.", failure=Failure.IMAGE)
        await desk.actions.clean(desk.uuid)
        await desk.actions.requeue(desk.uuid)
    assert desk.known() is ContainerState.CANCELLED
    status = desk.server.records[desk.uuid]["runtime_status"]
    assert (status["failure"], status["errorDetail"]) == ("image", "Pod x: it had no image.")


async def test_cancel_says_whose_fault_it_was() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1")
    desk.server.run(desk.uuid, "secret1")
    desk.fleet.end(desk.uuid, fate="Slurm job 7: its node failed.", failure=Failure.NODE)
    await desk.actions.clean(desk.uuid)
    await desk.actions.cancel(desk.uuid)
    assert desk.known() is ContainerState.CANCELLED
    status = desk.server.records[desk.uuid]["runtime_status"]
    assert (status["failure"], status["errorDetail"]) == ("node", "Slurm job 7: its node failed.")
    assert desk.noted()[-1] is DecisionKind.CRASHED


async def test_what_was_lost_with_its_machine_has_cost_until_then() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1")
    desk.server.run(desk.uuid, "secret1")
    start = datetime(2026, 1, 2, tzinfo=UTC)
    desk.server.records[desk.uuid]["started_at"] = format_time(start)
    spending = Spending((Price(start, 2.0),), 0.5, start + timedelta(hours=3))
    desk.fleet.end(
        desk.uuid, fate="Its instance i-1 is gone.", failure=Failure.NODE, spending=spending
    )
    await desk.actions.clean(desk.uuid)
    await desk.actions.cancel(desk.uuid)
    record = desk.server.records[desk.uuid]
    assert (record["state"], record["cost"], record["finished_at"]) == (
        "Cancelled",
        3.0,
        format_time(spending.end),
    )


async def test_a_record_is_not_released_while_its_process_lives() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1")
    for act in (desk.actions.requeue, desk.actions.cancel):
        with pytest.raises(Conflict):
            await act(desk.uuid)
    assert desk.server.state(desk.uuid) is ContainerState.LOCKED


async def test_what_fits_nowhere_is_cancelled_with_the_reason() -> None:
    desk = Desk()
    await desk.actions.refuse(desk.uuid, why="Too large.")
    assert desk.known() is ContainerState.CANCELLED
    assert desk.server.records[desk.uuid]["runtime_status"] == {
        "error": "Too large.",
        "failure": "user",
    }
    assert desk.noted() == [DecisionKind.NOT_RUN]


async def test_what_another_dispatcher_holds_is_not_given_back() -> None:
    desk = Desk()
    desk.server.hold(desk.uuid, ContainerState.LOCKED, by="another")
    with pytest.raises(Forbidden):
        await desk.actions.requeue(desk.uuid)
    assert desk.noted() == []


async def test_kill_and_clean_go_to_the_fleet() -> None:
    desk = Desk()
    await desk.start(desk.uuid, worker="w1")
    await desk.actions.kill(desk.uuid, number=Signals.SIGTERM)
    assert desk.fleet.processes[desk.uuid].signals == [Signals.SIGTERM]
    await desk.actions.clean(desk.uuid)
    desk.actions.forget(desk.uuid)
    assert desk.fleet.cleaned == [desk.uuid]
