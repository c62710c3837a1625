"""The loop's memory: pauses that grow, signals that are repeated, what was read before and
after.
"""

from __future__ import annotations

from signal import Signals

import pytest

from lading.core.containers.container import State
from lading.dispatch.fleet import FleetView, Process
from lading.dispatch.queue import Queue, Record
from lading.dispatch.settings import Settings
from lading.dispatch.state import Ledger

SETTINGS = Settings(
    retry_first=1.0, retry_longest=3.0, kill_interval=5.0, kill_patience=12.0, linger=10.0
)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(SETTINGS, known_since=1)


def view(**processes: bool) -> FleetView:
    return FleetView(
        known=True, processes={uuid: Process("w", alive=alive) for uuid, alive in processes.items()}
    )


def test_holds_double_up_to_the_longest(ledger: Ledger) -> None:
    lengths = []
    for _ in range(3):
        ledger.hold("u", "why", now=0.0)
        lengths.append(ledger.next_moment(now=0.0))
    assert lengths == [1.0, 2.0, 3.0]
    assert ledger.held(now=2.9) == {"u": "why"}
    assert ledger.held(now=3.0) == {}


def test_an_action_is_not_repeated_while_under_way_or_paused(ledger: Ledger) -> None:
    ledger.engage("u", now=0.0)
    assert not ledger.may_act("u", now=0.0)
    ledger.release("u")
    ledger.retry("u", now=0.0)
    assert [ledger.may_act("u", now=now) for now in (0.5, 1.0)] == [False, True]
    ledger.succeeded("u")
    assert ledger.may_act("u", now=0.0)


def test_term_is_repeated_and_then_kill(ledger: Ledger) -> None:
    sent = [ledger.stop_signal("u", now=float(now)) for now in range(0, 20, 4)]
    assert sent == [Signals.SIGTERM, None, Signals.SIGTERM, None, Signals.SIGKILL]


def test_who_has_nothing_to_save_is_killed_at_the_second_signal(ledger: Ledger) -> None:
    sent = [ledger.stop_signal("u", now=now, nothing_to_save=True) for now in (0.0, 4.0, 5.0)]
    assert sent == [Signals.SIGTERM, None, Signals.SIGKILL]


def test_starts_are_remembered_with_their_worker(ledger: Ledger) -> None:
    ledger.engage("u", now=7.0, worker="w")
    assert list(ledger.starting) == [("u", "w")]
    assert ledger.began("u") == 7.0
    assert ledger.began("found running") == float("-inf")


def test_the_end_of_a_process_is_seen_once(ledger: Ledger) -> None:
    queue = Queue(token="t")
    assert ledger.see(view(a=True, b=True), queue) == []
    assert ledger.see(view(a=False), queue) == ["a", "b"]
    before = queue.ticket()
    assert ledger.see(view(a=False), queue) == []
    assert ledger.read_after("a") < before


def test_a_record_must_be_read_after_its_process_vanished(ledger: Ledger) -> None:
    queue = Queue(token="t")
    ledger.see(view(a=False), queue)
    read = queue.ticket()
    ledger.see(view(), queue)
    assert ledger.read_after("a") > read
    assert ledger.read_after("never seen") == 1
    ledger.lost("b", queue)
    assert ledger.read_after("b") > read


def test_an_ended_container_may_linger_for_a_while(ledger: Ledger) -> None:
    ended = Record(uuid="u", state=State.COMPLETE)
    assert [ledger.lingering(ended, now=now) for now in (5.0, 14.9, 15.0)] == [False, False, True]
    assert ledger.next_moment(now=6.0) == 15.0
    assert not ledger.lingering(Record(uuid="v", state=State.RUNNING), now=99.0)
    assert not ledger.lingering(None, now=99.0)


def test_forgetting_forgets_everything(ledger: Ledger) -> None:
    ledger.hold("u", "why", now=0.0)
    ledger.retry("u", now=0.0)
    ledger.stop_signal("u", now=0.0)
    ledger.forget("u")
    assert ledger.next_moment(now=-1.0) is None
    assert ledger.may_act("u", now=0.0)
