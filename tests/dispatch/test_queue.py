"""The queue cache: what is newer wins, whatever arrives later."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers.container import ContainerState
from lading.core.resources import Resources
from lading.dispatch.queue import FIELDS, Queue

MINE = "zzzzz-gj3su-000000000000001"


def item(uuid: str = "u", state: str = "Queued", **more: Any) -> dict[str, object]:
    constraints = {"vcpus": 1, "ram": 10}
    return {
        "uuid": uuid,
        "state": state,
        "priority": 5,
        "created_at": "t",
        "runtime_constraints": constraints,
        **more,
    }


def whole(uuid: str) -> dict[str, object]:
    """All attributes that a dispatcher reads."""
    return dict.fromkeys(FIELDS) | item(uuid)


@pytest.fixture
def queue() -> Queue:
    queue = Queue(token=MINE)
    with queue.fetch() as ticket:
        queue.merge([item()], ticket=ticket, now=1.0)
    return queue


def state(queue: Queue, uuid: str = "u") -> ContainerState | None:
    record = queue.get(uuid)
    assert record is not None
    return record.state


def test_a_waiting_record_becomes_an_entry(queue: Queue) -> None:
    (entry,) = queue.entries()
    assert (entry.uuid, entry.priority, entry.need, entry.seen_at) == (
        "u",
        5,
        Resources(1, 10),
        1.0,
    )
    assert list(queue.waiting) == ["u"]
    assert not queue.others


def test_seen_is_when_it_was_first_seen(queue: Queue) -> None:
    queue.merge([item(priority=6)], ticket=queue.ticket(), now=9.0)
    assert queue.entries()[0].seen_at == 1.0
    assert queue.entries()[0].priority == 6


def test_an_older_list_does_not_undo_an_answer(queue: Queue) -> None:
    with queue.fetch() as ticket:
        queue.answer({"uuid": "u", "state": "Locked", "priority": 5, "locked_by_uuid": MINE})
        queue.merge([item()], ticket=ticket, now=2.0)
    record = queue.get("u")
    assert record is not None
    assert record.state is ContainerState.LOCKED
    assert queue.holds(record)


def test_containers_that_a_lock_passes_over_wait_no_more(queue: Queue) -> None:
    ticket = queue.ticket()
    queue.pass_over(
        [{"uuid": "u", "state": "Locked", "priority": 5, "locked_by_uuid": "other"}], ticket=ticket
    )
    assert state(queue) is ContainerState.LOCKED
    assert queue.entries() == ()


def test_what_was_learned_during_a_lock_is_newer_than_its_answer(queue: Queue) -> None:
    ticket = queue.ticket()
    queue.merge([item(priority=9)], ticket=queue.ticket(), now=2.0)
    queue.pass_over([{"uuid": "u", "state": "Locked", "priority": 5}], ticket=ticket)
    queue.pass_over([{"uuid": "unknown", "state": "Locked", "priority": 5}], ticket=ticket)
    assert state(queue) is ContainerState.QUEUED
    assert queue.uuids() == {"u"}


def test_a_queue_is_shared_once_another_dispatcher_locks(queue: Queue) -> None:
    with queue.locking("u"):
        queue.advance("u", old="Queued", new="Locked")
    assert not queue.shared
    queue.advance("u", old="Queued", new="Locked")
    assert queue.shared


def test_an_older_list_does_not_bring_back_what_was_forgotten(queue: Queue) -> None:
    with queue.fetch() as ticket:
        queue.forget("u")
        queue.merge([item(state="Running", locked_by_uuid=MINE)], ticket=ticket, now=2.0)
        assert queue.get("u") is None
    queue.merge([item()], ticket=queue.ticket(), now=3.0)
    assert state(queue) is ContainerState.QUEUED


def test_what_was_asked_for_and_not_found_is_missing(queue: Queue) -> None:
    queue.merge([], ticket=queue.ticket(), now=2.0, asked=["u"])
    assert state(queue) is None
    assert queue.uuids() == {"u"}


def test_an_ended_record_never_comes_back(queue: Queue) -> None:
    assert queue.advance("u", old="Running", new="Complete")
    queue.merge([item(state="Running")], ticket=queue.ticket(), now=2.0)
    assert state(queue) is ContainerState.COMPLETE


@pytest.mark.parametrize(
    ("known", "old", "new", "enough"),
    [
        ("Queued", "Queued", "Locked", False),
        ("Locked", "Queued", "Locked", True),
        ("Locked", "Locked", "Running", True),
        ("Locked", "Locked", "Locked", False),
        ("Running", "Running", "Running", False),
        ("Running", "Locked", "Queued", False),
        ("Queued", "", "nonsense", False),
        ("Complete", "Running", "Running", True),
    ],
)
def test_events_move_states_forward_only(
    queue: Queue, known: str, old: str, new: str, *, enough: bool
) -> None:
    queue.merge([item(state=known)], ticket=queue.ticket(), now=2.0)
    assert queue.advance("u", old=old, new=new) is enough
    assert state(queue) is (
        ContainerState.RUNNING if (known, new) == ("Locked", "Running") else ContainerState(known)
    )


def test_events_of_unknown_containers_matter_only_while_they_are_queued(queue: Queue) -> None:
    assert not queue.advance("other", old="", new="Queued")
    assert queue.advance("other", old="Queued", new="Locked")
    assert queue.get("other") is None


def test_an_answer_about_the_unknown_is_ignored(queue: Queue) -> None:
    queue.answer({"uuid": "other", "state": "Locked", "priority": 1})
    assert queue.get("other") is None


@pytest.mark.parametrize("constraints", [None, {}, {"vcpus": "many", "ram": 1}])
def test_what_cannot_be_sized_waits_without_being_planned(
    queue: Queue, constraints: object
) -> None:
    queue.merge([item(runtime_constraints=constraints)], ticket=queue.ticket(), now=2.0)
    assert queue.entries() == ()
    assert "runtime_constraints" in queue.waiting["u"].fault


def test_priority_zero_is_on_hold(queue: Queue) -> None:
    queue.merge([item(priority=0), item("v", priority=None)], ticket=queue.ticket(), now=2.0)
    assert not queue.waiting
    assert set(queue.others) == {"u", "v"}


def test_a_range_is_room_to_grow(queue: Queue) -> None:
    constraints = {"vcpus": 1, "ram": 10, "keep_cache_ram": 5}
    item = {"uuid": "a", "state": "Queued", "priority": 1, "runtime_constraints": constraints}
    queue.merge([{**item, "constraint_ranges": {"vcpus": [1, 4]}}], ticket=queue.ticket(), now=0.0)
    record = queue.get("a")
    assert record is not None
    assert (record.need, record.growth) == (Resources(1, 15), Resources(3, 0))
    assert record.amounts(Resources(2, 0)) == {"vcpus": 3, "ram": 10}


def test_what_has_run_does_not_wait_again_whatever_a_late_answer_says(queue: Queue) -> None:
    queue.answer({"uuid": "u", "state": "Locked", "priority": 5, "locked_by_uuid": MINE})
    with queue.fetch() as ticket:
        assert queue.advance("u", old="Locked", new="Running")
        queue.merge([item(state="Locked", locked_by_uuid=MINE)], ticket=ticket, now=2.0)
    assert state(queue) is ContainerState.RUNNING


def test_a_gang_needs_what_all_its_containers_do(queue: Queue) -> None:
    gang = item(scheduling_parameters={"nodes": 3}, constraint_ranges={"vcpus": [1, 4]})
    queue.merge([gang], ticket=queue.ticket(), now=2.0)
    (entry,) = queue.entries()
    assert (entry.need, entry.growth) == (Resources(3, 30), Resources())
    queue.answer(
        {
            "uuid": "u",
            "state": "Locked",
            "priority": 5,
            "runtime_constraints": {"vcpus": 1, "ram": 10},
        }
    )
    record = queue.get("u")
    assert record is not None
    assert record.need == Resources(3, 30)
    assert record.nodes == 3


def test_a_gang_may_share_the_vcpus_of_one(queue: Queue) -> None:
    gang = item(scheduling_parameters={"nodes": 3, "share_vcpus": True})
    queue.merge([gang], ticket=queue.ticket(), now=2.0)
    (entry,) = queue.entries()
    assert (entry.need, entry.each) == (Resources(1, 30), Resources(1, 10))
    constraints = {"vcpus": 2, "ram": 10}
    queue.answer(
        {"uuid": "u", "state": "Locked", "priority": 5, "runtime_constraints": constraints}
    )
    record = queue.get("u")
    assert record is not None
    assert record.need == Resources(2, 30)


def test_gangs_are_known_while_they_wait(queue: Queue) -> None:
    found = [queue.has_gangs]
    queue.merge([item("g", scheduling_parameters={"nodes": 2})], ticket=queue.ticket(), now=2.0)
    found.append(queue.has_gangs)
    queue.forget("g")
    assert [*found, queue.has_gangs] == [False, True, False]


def test_a_lock_of_our_own_is_told_by_its_answer(queue: Queue) -> None:
    with queue.locking("u"):
        assert queue.advance("u", old="Queued", new="Locked")
        assert queue.waiting
    assert not queue.advance("u", old="Queued", new="Locked"), "somebody else's"


def test_a_lock_of_another_dispatcher_needs_no_fetch(queue: Queue) -> None:
    with queue.fetch() as ticket:
        assert queue.advance("u", old="Queued", new="Locked", locked_by="theirs")
        # An answer that was asked for before the event may be older than the lock.
        queue.merge([item()], ticket=ticket, now=2.0)
    record = queue.get("u")
    assert record is not None
    assert (record.state, record.locked_by) == (ContainerState.LOCKED, "theirs")
    assert queue.shared


def test_a_lock_by_the_own_token_that_nobody_asked_for_is_fetched(queue: Queue) -> None:
    assert not queue.advance("u", old="Queued", new="Locked", locked_by=MINE)
    assert not queue.advance("u", old="Locked", new="Running", locked_by=MINE)
    assert state(queue) is ContainerState.QUEUED


def test_a_new_container_is_known_from_its_event(queue: Queue) -> None:
    with queue.fetch() as ticket:
        assert queue.hear(whole("new"), now=2.0)
        # An answer that was asked for before knows nothing that no event tells.
        queue.merge([item("new", state="Locked")], ticket=ticket, now=2.0)
    assert queue.waiting["new"].need == Resources(1, 10)


def test_an_event_of_a_container_that_may_be_known_better_is_not_enough(queue: Queue) -> None:
    assert not queue.hear(whole("u"), now=2.0)
    assert not queue.hear({"uuid": "new", "state": "Queued"}, now=2.0)
    with queue.fetch():
        queue.forget("u")
        assert not queue.hear(whole("u"), now=2.0)
    assert not queue.uuids()


def test_entries_of_others_are_kept_when_one_changes(queue: Queue) -> None:
    queue.merge([item(uuid=uuid, state="Queued") for uuid in "ab"], ticket=queue.ticket(), now=0.0)
    before = {entry.uuid: entry for entry in queue.entries()}
    queue.merge([item(uuid="b", state="Queued", priority=7)], ticket=queue.ticket(), now=0.0)
    after = {entry.uuid: entry for entry in queue.entries()}
    assert after["a"] is before["a"]
    assert after["b"].priority == 7
    queue.merge([item(uuid="a", state="Locked")], ticket=queue.ticket(), now=0.0)
    assert [entry.uuid for entry in queue.entries()] == ["u", "b"]


@pytest.mark.parametrize(
    ("scheduling", "partitions"),
    [
        ({"preemptible": True}, ("spot", "day")),
        ({"preemptible": True, "prefer_preemptible": True}, ("spot", "day")),
        ({"preemptible": True, "partitions": ["gpu"]}, ("gpu",)),
        ({"preemptible": False}, ()),
    ],
)
def test_partitions_of_preemptible_machines(
    scheduling: dict[str, Any], partitions: tuple[str, ...]
) -> None:
    queue = Queue(token=MINE, preemptible_partitions=("spot", "day"))
    queue.merge([item(scheduling_parameters=scheduling)], ticket=queue.ticket(), now=0.0)
    found = queue.get("u")
    assert found is not None
    assert found.partitions == partitions


def test_what_a_container_prefers_by_when_and_for_how_long() -> None:
    queue = Queue(token=MINE)
    scheduling = {
        "preemptible": True,
        "prefer_preemptible": True,
        "deadline": "1970-01-01T01:00:00.000000000Z",
        "expected_run_time": 90,
    }
    queue.merge([item(scheduling_parameters=scheduling)], ticket=queue.ticket(), now=0.0)
    found = queue.get("u")
    assert found is not None
    assert (found.preemptible, found.prefers) == (True, True)
    assert (found.deadline, found.run_time) == (3600.0, 90)
