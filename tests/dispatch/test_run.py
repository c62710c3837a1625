"""The dispatcher as a whole, against a fake server and a fake fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.client.transport import Response
from lading.core.containers.container import ContainerState
from lading.core.errors import Conflict, Unauthenticated, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import FleetWorker
from lading.dispatch.fleet import StartRequest, SupervisorProcess
from lading.dispatch.lease import DispatcherLease, holding
from lading.dispatch.run import run
from lading.dispatch.settings import DispatchSettings
from lading.testing.containers import EVENTS_ONLY, QUICK, FakeContainers, dispatching
from lading.testing.fleet import FakeFleet, Meanness


@pytest.fixture
def server() -> FakeContainers:
    return FakeContainers()


@pytest.fixture
def client(server: FakeContainers) -> ApiClient:
    return ApiClient(server, "secret", retry=NO_RETRY)


SMALL = FleetWorker("w1", Resources(1, GIB))


async def test_queued_containers_run_to_the_end(server: FakeContainers) -> None:
    async def work(assignment: StartRequest) -> None:
        server.run(assignment.uuid, assignment.token)
        server.finish(assignment.uuid, assignment.token)

    fleet = FakeFleet(work=work)
    early = server.add()
    async with dispatching(server, fleet):
        late = server.add()
        for uuid in (early, late):
            await server.until(uuid, ContainerState.COMPLETE)
    assert set(fleet.started) == {early, late}


async def test_an_event_leads_to_a_start_without_a_poll(server: FakeContainers) -> None:
    fleet = FakeFleet()
    async with dispatching(server, fleet, settings=EVENTS_ONLY):
        uuid = server.add()
        await server.until(uuid, ContainerState.LOCKED)
        await fleet.wait_for(lambda: uuid in fleet.started)


async def test_the_end_of_a_process_makes_room_at_once(server: FakeContainers) -> None:
    fleet = FakeFleet([SMALL])
    first, second = server.add(), server.add()
    async with dispatching(server, fleet, settings=EVENTS_ONLY):
        await server.until(first, ContainerState.LOCKED)
        assert server.state(second) is ContainerState.QUEUED
        server.run(first, "secret1")
        server.finish(first, "secret1")
        fleet.end(first)
        await server.until(second, ContainerState.LOCKED)


async def test_a_complete_container_makes_room_before_its_supervisor_ends(
    server: FakeContainers,
) -> None:
    fleet = FakeFleet([SMALL])
    first, second = server.add(), server.add()
    async with dispatching(server, fleet, settings=EVENTS_ONLY):
        await server.until(first, ContainerState.LOCKED)
        server.run(first, "secret1")
        server.finish(first, "secret1")
        await server.until(second, ContainerState.LOCKED)
        assert fleet.processes[first].alive


async def test_a_container_whose_end_was_heard_is_not_asked_for_again(
    server: FakeContainers,
) -> None:
    fleet = FakeFleet([SMALL])
    async with dispatching(server, fleet, settings=EVENTS_ONLY):
        uuid = server.add()
        await server.until(uuid, ContainerState.LOCKED)
        asked = server.calls.count("GET containers")
        server.run(uuid, "secret1")
        server.finish(uuid, "secret1")
        last = server.add()
        await server.until(last, ContainerState.LOCKED)
        fleet.end(uuid)
        while uuid in fleet.processes:
            await asyncio.sleep(0)
    # The second one's record was asked for, once.
    assert server.calls.count("GET containers") == asked + 1


async def test_dispatchers_that_share_a_queue_name_alternatives(server: FakeContainers) -> None:
    """They lose locks only until each knows that there is another one."""

    async def work(assignment: StartRequest) -> None:
        server.run(assignment.uuid, assignment.token)
        server.finish(assignment.uuid, assignment.token)

    server.tokens["other"] = "zzzzz-gj3su-other0000000000"
    fleets = FakeFleet([SMALL], work=work), FakeFleet([SMALL], work=work)
    uuids = [server.add() for _ in range(60)]
    async with (
        dispatching(server, fleets[0], settings=EVENTS_ONLY),
        dispatching(server, fleets[1], settings=EVENTS_ONLY, secret="other"),
    ):
        for uuid in uuids:
            await server.until(uuid, ContainerState.COMPLETE)
    assert sorted([*fleets[0].started, *fleets[1].started]) == sorted(uuids)
    assert min(len(one.started) for one in fleets) > 10
    assert len(server.lost_locks) <= len(fleets)


async def test_priority_zero_stops_the_process(server: FakeContainers) -> None:
    fleet = FakeFleet()
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        server.run(uuid, "secret1")
        server.change_priority(uuid, 0)
        await server.until(uuid, ContainerState.CANCELLED)
    assert fleet.cleaned == [uuid]


async def test_a_supervisor_that_does_not_listen_is_killed(server: FakeContainers) -> None:
    fleet = FakeFleet(meanness=Meanness(deaf=0.9), seed=3)
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        server.change_priority(uuid, 0)
        await server.until(uuid, ContainerState.QUEUED)
    assert uuid in fleet.cleaned


async def test_a_queued_container_on_hold_is_left_alone(server: FakeContainers) -> None:
    fleet = FakeFleet()
    held = server.add(priority=0)
    async with dispatching(server, fleet):
        other = server.add()
        await server.until(other, ContainerState.LOCKED)
        server.change_priority(held, 7)
        await server.until(held, ContainerState.LOCKED)


async def test_a_crashed_container_is_cleaned_then_cancelled(server: FakeContainers) -> None:
    fleet = FakeFleet(meanness=Meanness(stuck=0.5), seed=1)
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        server.run(uuid, "secret1")
        fleet.end(uuid)
        await server.until(uuid, ContainerState.CANCELLED)
        assert fleet.cleaned == [uuid]
        await server.wait_for(
            lambda: "cleaned_up_crashed" in [kind for _, kind, _ in server.decisions]
        )
    assert server.records[uuid]["runtime_status"]["failure"] == "infrastructure"
    assert (uuid, "cleaned_up_crashed") in [(one, kind) for one, kind, _ in server.decisions]


async def test_a_supervisor_that_ends_before_running_is_tried_again(server: FakeContainers) -> None:
    fleet = FakeFleet()
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        fleet.end(uuid)
        await server.until(uuid, ContainerState.QUEUED)
        await server.until(uuid, ContainerState.LOCKED)
    assert server.locks[uuid] == 2


async def test_a_new_dispatcher_adopts_what_runs_and_clears_up_what_died(
    server: FakeContainers,
) -> None:
    alive, dead, unlocked = server.add(), server.add(), server.add()
    server.hold(alive, ContainerState.RUNNING)
    server.hold(dead, ContainerState.RUNNING)
    server.hold(unlocked, ContainerState.LOCKED)
    fleet = FakeFleet(
        processes={alive: SupervisorProcess("w1"), dead: SupervisorProcess("w1", alive=False)}
    )
    async with dispatching(server, fleet):
        await server.until(dead, ContainerState.CANCELLED)
        await server.wait_for(lambda: server.locks.get(unlocked) == 1)
        assert server.state(alive) is ContainerState.RUNNING
    assert fleet.cleaned == [dead]
    assert fleet.processes[alive].alive


async def test_nothing_happens_while_the_processes_are_unknown(
    server: FakeContainers, client: ApiClient
) -> None:
    running = server.add()
    server.hold(running, ContainerState.RUNNING)
    fleet = FakeFleet(processes={running: SupervisorProcess("w1")}, is_known=False)
    task = asyncio.create_task(run(client, fleet, QUICK, events=server.events()))
    await server.wait_for(lambda: bool(server.calls))
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.calls == ["GET api_client_authorizations/current"]
    fleet.become_known()
    await server.wait_for(lambda: "GET containers" in server.calls)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert server.state(running) is ContainerState.RUNNING


async def test_a_worker_that_does_not_answer_stops_nothing_else(server: FakeContainers) -> None:
    there = server.add()
    server.hold(there, ContainerState.RUNNING)
    fleet = FakeFleet()
    fleet.unasked = ("w2",)
    async with dispatching(server, fleet):
        other = server.add()
        await server.until(other, ContainerState.LOCKED)
        assert server.state(there) is ContainerState.RUNNING
        fleet.ask_all()
        await server.until(there, ContainerState.CANCELLED)


async def test_trouble_with_the_provider_does_not_keep_it_from_being_ready(
    server: FakeContainers, client: ApiClient
) -> None:
    fleet, ready = FakeFleet(is_known=False), list[bool]()
    fleet.trouble = "the cloud does not answer"
    task = asyncio.create_task(
        run(client, fleet, QUICK, events=server.events(), on_ready=lambda: ready.append(True))
    )
    uuid = server.add()
    await server.wait_for(lambda: uuid in server.statuses)
    assert ready == [True]
    fleet.become_known()
    await server.until(uuid, ContainerState.LOCKED)
    assert ready == [True]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def run_as(holder: str, server: FakeContainers, fleet: FakeFleet) -> None:
    """A dispatcher that takes the lease of the token first."""
    client = ApiClient(server, "secret", retry=NO_RETRY)
    lease = DispatcherLease(client, holder, settings=QUICK, wait=0.0)
    async with holding(lease):
        await run(client, fleet, QUICK, events=server.events(), lease=lease)


async def test_a_second_dispatcher_with_the_same_token_waits_for_the_end_of_the_first(
    server: FakeContainers,
) -> None:
    fleet, other, uuid = FakeFleet([SMALL]), FakeFleet([SMALL]), server.add()
    first = asyncio.create_task(run_as("a:/x", server, fleet))
    await server.until(uuid, ContainerState.LOCKED)
    asked = server.calls.count("POST dispatch/statuses")
    second = asyncio.create_task(run_as("b:/y", server, other))
    await server.wait_for(lambda: server.calls.count("POST dispatch/statuses") > asked + 3)
    assert other.started == []
    assert not first.done()
    first.cancel()
    await server.wait_for(lambda: server.holder == "b:/y")
    late = server.add()
    await server.until(late, ContainerState.LOCKED)
    assert late in other.started
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert server.holder == ""


async def test_one_whose_token_was_taken_over_ends(server: FakeContainers) -> None:
    fleet, uuid = FakeFleet(), server.add()
    first = asyncio.create_task(run_as("a:/x", server, fleet))
    await server.until(uuid, ContainerState.LOCKED)
    server.holder, server.lease = "b:/y", "another"
    server.add()
    with pytest.raises(Conflict, match="another dispatcher works with this token: b:/y"):
        await first
    assert server.holder == "b:/y"


async def test_cancelling_leaves_processes_and_records_as_they_are(server: FakeContainers) -> None:
    fleet = FakeFleet()
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        server.run(uuid, "secret1")
    assert server.state(uuid) is ContainerState.RUNNING
    assert fleet.processes[uuid].signals == []


async def test_a_process_without_a_record_is_stopped(server: FakeContainers) -> None:
    fleet = FakeFleet(processes={"zzzzz-dz642-999999999999999": SupervisorProcess("w1")})
    async with dispatching(server, fleet):
        await fleet.wait_for(lambda: not fleet.processes)
    assert fleet.cleaned == ["zzzzz-dz642-999999999999999"]


async def test_a_container_cancelled_by_an_admin_is_stopped(server: FakeContainers) -> None:
    fleet = FakeFleet()
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.LOCKED)
        server.set_state(uuid, ContainerState.CANCELLED)
        await fleet.wait_for(lambda: not fleet.processes)
    assert fleet.cleaned == [uuid]


async def test_what_another_dispatcher_runs_is_not_ours(server: FakeContainers) -> None:
    fleet = FakeFleet()
    uuid = server.add()
    server.hold(uuid, ContainerState.RUNNING, by="zzzzz-gj3su-other0000000000")
    async with dispatching(server, fleet):
        await server.until(server.add(), ContainerState.LOCKED)
    assert server.state(uuid) is ContainerState.RUNNING
    assert uuid not in fleet.started


async def test_reasons_are_posted_and_taken_back(server: FakeContainers) -> None:
    fleet = FakeFleet([SMALL])
    huge = server.add(vcpus=64)
    unsized = server.add(runtime_constraints={"vcpus": 0})
    async with dispatching(server, fleet):
        await server.until_told("Too large for this dispatcher")
        assert "Cannot be sized" in server.statuses[unsized]
        fleet.offer(FleetWorker("w2", Resources(64, GIB)))
        await server.until(huge, ContainerState.LOCKED)
        server.run(huge, "secret1")
        await server.wait_for(lambda: server.statuses[huge] == "")


async def test_containers_that_fit_nowhere_are_named_after_a_while(server: FakeContainers) -> None:
    huge, unsized = server.add(vcpus=64), server.add(runtime_constraints={"vcpus": 0})
    async with dispatching(server, FakeFleet([SMALL])):
        await server.wait_for(lambda: server.misfits == {huge, unsized})


async def test_what_a_container_waited_for_is_told_with_its_start(server: FakeContainers) -> None:
    now = [0.0]
    fleet = FakeFleet([SMALL])
    first, second = server.add(), server.add()
    client = ApiClient(server, "secret", retry=NO_RETRY)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = run(client, fleet, QUICK, events=server.events(), clock=lambda: now[0])
        task = tasks.create_task(running)
        await server.until_told("it needs 1 VCPU")
        now[0] = 41.0
        await fleet.wait_for(lambda: fleet.started == [first])
        server.run(first, "secret1")
        server.finish(first, "secret1")
        fleet.end(first)
        await server.wait_for(lambda: second in server.waited)
        task.cancel()
    assert server.waited == {second: "waited 41 s for 1 VCPU and 1.0 MiB RAM"}


async def test_the_wait_in_a_batch_system_is_told_once_the_container_runs(
    server: FakeContainers,
) -> None:
    now = [0.0]
    fleet = FakeFleet([SMALL])
    uuid = server.add()
    client = ApiClient(server, "secret", retry=NO_RETRY)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = run(client, fleet, QUICK, events=server.events(), clock=lambda: now[0])
        task = tasks.create_task(running)
        await fleet.wait_for(lambda: fleet.started == [uuid])
        fleet.keep_waiting(uuid, "in the queue of Slurm")
        await server.until_told("in the queue of Slurm")
        now[0] = 41.0
        server.run(uuid, "secret1")
        fleet.keep_waiting(uuid, "")
        await server.wait_for(lambda: any("began" in entry[2] for entry in server.decisions))
        task.cancel()
    assert server.decisions[-1][2] == "It began to run; it waited 41 s (in the queue of Slurm)."


@pytest.mark.parametrize(
    ("only", "state"), [(False, ContainerState.QUEUED), (True, ContainerState.CANCELLED)]
)
async def test_what_fits_nowhere_is_left_to_others_if_there_may_be_any(
    server: FakeContainers, only: bool, state: ContainerState
) -> None:
    """A dispatcher does not know what others can run (docs/spec/decisions)."""
    fleet = FakeFleet([SMALL], work=lambda told: _ended(server, told))
    huge = server.add(vcpus=64)
    async with dispatching(server, fleet, settings=replace(QUICK, only=only, misfit_patience=0.0)):
        await server.wait_for(
            lambda: (huge, "decided_not_to_run") in [one[:2] for one in server.decisions]
        )
        await server.until(huge, state)
        await server.until(server.add(), ContainerState.COMPLETE)
        await server.until(huge, state)
    # One that is alone takes it, to end it.
    assert server.locks.get(huge, 0) == int(only)
    assert huge not in fleet.started
    said = server.records[huge].get("runtime_status", {})
    assert said == {} or (
        "Too large for this dispatcher" in said["error"] and said["failure"] == "user"
    )
    assert bool(said) == only


async def test_what_has_failed_is_not_run_again(server: FakeContainers) -> None:
    """Another attempt is another container in the queue (docs/spec/containers, section Retry)."""
    fleet = FakeFleet(work=lambda told: _ended(server, told, exit_code=1))
    uuid = server.add()
    async with dispatching(server, fleet):
        await server.until(uuid, ContainerState.COMPLETE)
        await server.until(server.add(), ContainerState.COMPLETE)
    assert fleet.started.count(uuid) == server.locks[uuid] == 1
    assert len(server.records) == 2


async def _ended(server: FakeContainers, told: StartRequest, *, exit_code: int = 0) -> None:
    server.run(told.uuid, told.token)
    server.records[told.uuid]["exit_code"] = exit_code
    server.finish(told.uuid, told.token)


class LateServer(FakeContainers):
    """Carries the first lock of each container out late, when the second one comes."""

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[str, dict[str, Any] | None] = {}

    async def request(self, method: str, path: str, **more: Any) -> Response:
        if method == "POST" and path.endswith("/lock"):
            if path not in self.late:
                self.late[path] = more
                raise Unavailable("the answer took too long")
            late, self.late[path] = self.late[path], None
            if late is not None:
                await super().request(method, path, **late)
        return await super().request(method, path, **more)


async def test_what_runs_by_a_lock_that_was_carried_out_late_is_ended() -> None:
    server, fleet = LateServer(), FakeFleet()
    server.ready_image = "image"
    fleet.ready_images = ("image",)
    uuids = [server.add() for _ in range(2)]
    async with dispatching(server, fleet):
        for uuid in uuids:
            await server.until(uuid, ContainerState.CANCELLED)
    assert fleet.started == []


async def test_a_lost_lock_is_normal(server: FakeContainers) -> None:
    fleet = FakeFleet()
    async with dispatching(server, fleet):
        uuid = server.add()
        server.hold(uuid, ContainerState.LOCKED, by="zzzzz-gj3su-other0000000000")
        await server.until(server.add(), ContainerState.LOCKED)
    assert fleet.started == [two for two in fleet.started if two != uuid]


class LockedBefore(FakeContainers):
    """Another dispatcher with the same token locks the container `first` just before this one, and
    no event shows it. `alternatives` are those of each lock that was asked for.
    """

    first = ""

    def __init__(self) -> None:
        super().__init__()
        self.alternatives: dict[str, list[str]] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0.0,
    ) -> Response:
        """As the fake does."""
        if path.endswith("/lock"):
            uuid = path.split("/")[-2]
            self.alternatives[uuid] = msgspec.json.decode(body).get("alternatives", [])
            if uuid == self.first:
                self.hold(uuid, ContainerState.LOCKED)
        return await super().request(method, path, headers=headers, body=body, timeout=timeout)


async def test_what_another_with_this_token_was_quicker_to_lock_is_not_given_back() -> None:
    server, fleet = LockedBefore(), FakeFleet([FleetWorker("w1", Resources(9, 9 * GIB))])
    async with dispatching(server, fleet, limit=10.0):
        uuid = server.first = server.add()
        for _ in range(5):
            await server.until(server.add(), ContainerState.LOCKED)
    assert server.state(uuid) is ContainerState.LOCKED
    assert uuid not in fleet.started


async def test_who_has_lost_a_lock_names_alternatives_from_then_on() -> None:
    server = LockedBefore()
    uuids = [server.add() for _ in range(4)]
    server.first = uuids[0]
    async with dispatching(server, FakeFleet([SMALL]), settings=EVENTS_ONLY):
        await server.until(uuids[1], ContainerState.LOCKED)
    assert server.alternatives == {uuids[0]: [], uuids[1]: uuids[2:]}


async def test_a_failed_start_is_given_back_and_tried_again(server: FakeContainers) -> None:
    fleet = FakeFleet(meanness=Meanness(refuse=0.5), seed=4)
    async with dispatching(server, fleet):
        uuid = server.add()
        await server.until(uuid, ContainerState.LOCKED)
        await fleet.wait_for(lambda: uuid in fleet.started)


async def test_a_missed_event_is_made_up_for(server: FakeContainers) -> None:
    fleet = FakeFleet()
    async with dispatching(server, fleet, settings=EVENTS_ONLY):
        await server.until(server.add(), ContainerState.LOCKED)
        missed = server.add()
        server.interrupt_events()
        await server.until(missed, ContainerState.LOCKED)


async def test_it_waits_for_the_api(server: FakeContainers, client: ApiClient) -> None:
    server.down = True
    uuid = server.add()
    task = asyncio.create_task(run(client, FakeFleet(), QUICK, events=server.events()))
    await server.wait_for(lambda: len(server.calls) > 2)
    server.down = False
    await server.until(uuid, ContainerState.LOCKED)
    server.down = True
    missed = server.add()
    await server.wait_for(lambda: server.calls[-2:] == ["GET containers"] * 2)
    server.down = False
    await server.until(missed, ContainerState.LOCKED)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_refused_token_is_fatal(client: ApiClient, server: FakeContainers) -> None:
    server.refuse_token = True
    with pytest.raises(Unauthenticated):
        await run(client, FakeFleet(), QUICK, events=server.events())


async def test_a_long_queue_is_read_in_windows(server: FakeContainers) -> None:
    async def work(assignment: StartRequest) -> None:
        server.run(assignment.uuid, assignment.token)
        server.finish(assignment.uuid, assignment.token)

    uuids = [server.add() for _ in range(40)]
    async with dispatching(
        server, FakeFleet(work=work), settings=DispatchSettings(window=8, poll_interval=3600)
    ):
        for uuid in uuids:
            await server.until(uuid, ContainerState.COMPLETE)
