"""What was decided, until it is written."""

from __future__ import annotations

from lading.core.containers.container import DecisionKind
from lading.dispatch.status_publisher import BATCH, DecisionLog


def test_entries_are_taken_in_order_and_may_come_back() -> None:
    now, rung = [10.0], list[int]()
    decisions = DecisionLog(lambda: now[0])
    decisions.on_entry = lambda: rung.append(1)
    for number in range(BATCH + 2):
        decisions.note(f"u{number}", DecisionKind.RUN, "text")
    taken = decisions.take()
    assert [one.uuid for one in taken[:2]] == ["u0", "u1"]
    assert (len(taken), len(decisions), len(rung)) == (BATCH, 2, BATCH + 2)
    decisions.put_back(taken)
    assert [one.uuid for one in decisions.take()[:2]] == ["u0", "u1"]


def test_entries_are_shown_with_their_age() -> None:
    now = [10.0]
    decisions = DecisionLog(lambda: now[0])
    decisions.note("u", DecisionKind.CRASHED, "It crashed.")
    now[0] = 12.5
    assert decisions.shown(decisions.take()) == [
        {
            "container_uuid": "u",
            "event_type": "cleaned_up_crashed",
            "text": "It crashed.",
            "age": 2.5,
        }
    ]
