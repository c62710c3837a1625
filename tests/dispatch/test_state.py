"""The loop's memory: pauses that grow, signals that are repeated, what was read before and
after.
"""

from __future__ import annotations

from signal import Signals

import pytest

from lading.core.containers.container import ContainerState
from lading.core.resources import Resources
from lading.core.scheduling.planning import Category, TrackedContainer, WaitStatus
from lading.dispatch.fleet import FleetView, SupervisorProcess
from lading.dispatch.queue import Queue
from lading.dispatch.settings import DispatchSettings
from lading.dispatch.state import DispatchState

SETTINGS = DispatchSettings(
    retry_first=1.0, retry_longest=3.0, kill_interval=5.0, kill_patience=12.0, linger=10.0
)


@pytest.fixture
def state() -> DispatchState:
    return DispatchState(SETTINGS, known_since=1)


def view(**processes: bool) -> FleetView:
    return FleetView(
        is_known=True,
        processes={uuid: SupervisorProcess("w", alive=alive) for uuid, alive in processes.items()},
    )


def test_holds_double_up_to_the_longest(state: DispatchState) -> None:
    lengths = []
    for _ in range(3):
        state.hold("u", "why", now=0.0)
        lengths.append(state.next_moment(now=0.0))
    assert lengths == [1.0, 2.0, 3.0]
    assert state.held(now=2.9) == {"u": "why"}
    assert state.held(now=3.0) == {}


def test_an_action_is_not_repeated_while_under_way_or_paused(state: DispatchState) -> None:
    state.engage("u", now=0.0)
    assert not state.may_act("u", now=0.0)
    state.release("u")
    state.retry("u", now=0.0)
    assert [state.may_act("u", now=now) for now in (0.5, 1.0)] == [False, True]
    state.succeeded("u")
    assert state.may_act("u", now=0.0)


def test_an_alternative_takes_the_place_of_the_planned_container(state: DispatchState) -> None:
    state.engage("planned", now=1.0, worker="w")
    with state.offering(["other", "further"]):
        assert not state.may_act("other", now=1.0)
        assert not state.exchange("planned", "other")
    assert list(state.starting) == [("other", "w")]
    assert (state.began("other"), state.is_busy("planned")) == (1.0, False)
    assert state.may_act("planned", now=1.0)
    assert state.may_act("further", now=1.0)


def test_two_starts_exchange_their_containers(state: DispatchState) -> None:
    state.engage("a", now=1.0, worker="w1")
    state.engage("b", now=2.0, worker="w2")
    assert state.exchange("a", "b")
    assert dict(state.starting) == {"a": "w2", "b": "w1"}
    assert (state.began("a"), state.began("b")) == (2.0, 1.0)
    state.release("a")
    assert list(state.starting) == [("b", "w1")]


def test_two_calls_may_offer_one_container(state: DispatchState) -> None:
    with state.offering(["u"]):
        with state.offering(["u"]):
            pass
        assert not state.may_act("u", now=0.0)
    assert state.may_act("u", now=0.0)


def test_term_is_repeated_and_then_kill(state: DispatchState) -> None:
    sent = [state.stop_signal("u", now=float(now)) for now in range(0, 20, 4)]
    assert sent == [Signals.SIGTERM, None, Signals.SIGTERM, None, Signals.SIGKILL]


def test_who_has_nothing_to_save_is_killed_at_the_second_signal(state: DispatchState) -> None:
    sent = [state.stop_signal("u", now=now, nothing_to_save=True) for now in (0.0, 4.0, 5.0)]
    assert sent == [Signals.SIGTERM, None, Signals.SIGKILL]


def test_starts_are_remembered_with_their_worker(state: DispatchState) -> None:
    state.engage("u", now=7.0, worker="w")
    assert list(state.starting) == [("u", "w")]
    assert state.began("u") == 7.0
    assert state.began("found running") == float("-inf")


def test_the_end_of_a_process_is_seen_once(state: DispatchState) -> None:
    queue = Queue(token="t")
    assert state.see(view(a=True, b=True), queue) == []
    assert state.see(view(a=False), queue) == ["a", "b"]
    before = queue.ticket()
    assert state.see(view(a=False), queue) == []
    assert state.read_after("a") < before


def test_a_record_must_be_read_after_its_process_vanished(state: DispatchState) -> None:
    queue = Queue(token="t")
    state.see(view(a=False), queue)
    read = queue.ticket()
    state.see(view(), queue)
    assert state.read_after("a") > read
    assert state.read_after("never seen") == 1
    state.lost("b", queue)
    assert state.read_after("b") > read


def test_a_refused_lock_is_of_another_dispatcher_unless_an_own_one_was_not_answered(
    state: DispatchState,
) -> None:
    for uuid in ("u", "v"):
        state.engage(uuid, now=0.0, worker="w")
        state.release(uuid)
    state.doubt_lock("u")
    running = [TrackedContainer(uuid=uuid, state=ContainerState.RUNNING) for uuid in ("u", "v")]
    for uuid in ("u", "v", "never seen"):
        state.lose_lock(uuid)
    assert [state.leave_to_twin(record, now=0.0) for record in running] == [False, True]
    state.note_lock("u")
    state.lose_lock("u")
    assert state.leave_to_twin(running[0], now=0.0)


def test_a_container_waits_until_its_record_is_read_after_a_start_that_failed(
    state: DispatchState,
) -> None:
    queue = Queue(token="t")
    item = {"uuid": "u", "state": "Queued", "priority": 1}
    before = queue.ticket()
    state.lost("u", queue)
    queue.merge([item], ticket=before, now=0.0)
    assert list(state.unread(queue)) == ["u"]
    queue.merge([item], ticket=queue.ticket(), now=0.0)
    assert state.unread(queue) == {}
    state.lost("u", queue)
    queue.forget("u")
    assert state.unread(queue) == {}


def test_an_ended_container_may_linger_for_a_while(state: DispatchState) -> None:
    ended = TrackedContainer(uuid="u", state=ContainerState.COMPLETE)
    assert [state.lingering(ended, now=now) for now in (5.0, 14.9, 15.0)] == [False, False, True]
    assert state.next_moment(now=6.0) == 15.0
    assert not state.lingering(TrackedContainer(uuid="v", state=ContainerState.RUNNING), now=99.0)
    assert not state.lingering(None, now=99.0)


def test_forgetting_forgets_everything(state: DispatchState) -> None:
    state.hold("u", "why", now=0.0)
    state.retry("u", now=0.0)
    state.stop_signal("u", now=0.0)
    state.forget("u")
    assert state.next_moment(now=-1.0) is None
    assert state.may_act("u", now=0.0)


def test_forgetting_ends_what_was_under_way(state: DispatchState) -> None:
    queue = Queue(token="t")
    state.engage("u", now=0.0, worker="w", extra=Resources(1), others=("v",))
    assert (state.given("u"), state.others("u")) == (Resources(1), ("v",))
    state.see(view(u=True), queue)
    state.forget("u")
    state.release("u")
    assert (list(state.starting), state.given("u"), state.others("u")) == ([], Resources(), ())
    assert state.see(view(), queue) == []


def test_a_container_that_was_given_back_is_not_adopted(state: DispatchState) -> None:
    state.adopt(["u"])
    state.disown("never seen")
    assert [state.is_adopted(uuid) for uuid in ("u", "never seen")] == [True, False]
    state.disown("u")
    assert not state.is_adopted("u")


def test_a_twin_is_left_alone_for_a_while(state: DispatchState) -> None:
    locked = TrackedContainer(uuid="u", state=ContainerState.LOCKED)
    assert [state.leave_to_twin(locked, now=now) for now in (0.0, 59.0, 60.0)] == [
        True,
        True,
        False,
    ]
    assert state.next_moment(now=1.0) == 60.0
    assert state.leave_to_twin(TrackedContainer(uuid="u", state=ContainerState.RUNNING), now=99.0)
    state.adopt(["u"])
    assert not state.leave_to_twin(locked, now=0.0)
    assert state.next_moment(now=1.0) is None


def test_what_fits_nowhere_is_told_once_until_it_fits(state: DispatchState) -> None:
    assert not state.is_overdue_misfit("u", now=0.0)
    assert state.is_overdue_misfit("u", now=10.0)
    assert [state.is_news("u", text) for text in ("a", "a", "b")] == [True, False, True]
    state.fits(["u"])
    assert not state.is_news("u", "b")
    state.fits([])
    assert state.is_news("u", "b")
    assert not state.is_overdue_misfit("u", now=11.0)


def test_waits_are_told_once(state: DispatchState) -> None:
    queue = Queue(token="t")
    waits = {"u": WaitStatus(Category.CAPACITY, "It waits.", "for room")}
    assert state.note_waits(waits, queue, now=0.0) == []
    assert state.note_waits({}, queue, now=5.0) == ["u"]
    assert state.tell_waits("u", now=5.0) == "waited 5 s for room"
    assert state.tell_waits("u", now=6.0) == ""
