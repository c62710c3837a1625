from __future__ import annotations

import pytest

from lading.core.scheduling.planning import Category, WaitStatus
from lading.core.scheduling.wait_reasons import Wait
from lading.core.scheduling.wait_reasons import note_wait as note
from lading.core.scheduling.wait_reasons import tell_waits as tell
from lading.core.scheduling.wait_reasons import wait_cause as cause

ROOM = WaitStatus(
    Category.CAPACITY, "Waiting in queue at position 2: it needs 2 VCPUs.", "for 2 VCPUs"
)
HELD = WaitStatus(Category.HELD, "The last attempt failed.")
PREPARING = WaitStatus(Category.PREPARING, "Preparing to run on this machine.")


def waits(*noted: tuple[float, WaitStatus], seen: float = 0.0) -> tuple[Wait, ...]:
    found: tuple[Wait, ...] = ()
    for now, status in noted:
        found = note(found, status, began=seen, now=now)
    return found


@pytest.mark.parametrize(
    ("status", "expected"),
    [(ROOM, "for 2 VCPUs"), (HELD, "(The last attempt failed)"), (PREPARING, "")],
)
def test_causes(status: WaitStatus, expected: str) -> None:
    assert cause(status) == expected


def test_the_first_wait_begins_when_the_container_was_seen() -> None:
    assert tell(waits((2.0, ROOM)), now=41.0) == "waited 41 s for 2 VCPUs"


def test_a_cause_that_comes_again_adds_to_its_time() -> None:
    found = waits((0.0, ROOM), (10.0, HELD), (13.0, ROOM), (14.0, ROOM))
    assert tell(found, now=20.0) == "waited 17 s for 2 VCPUs, then 3 s (The last attempt failed)"


def test_what_is_prepared_does_not_wait() -> None:
    assert tell(waits((0.0, ROOM), (5.0, PREPARING)), now=100.0) == "waited 5 s for 2 VCPUs"
    assert waits((0.0, PREPARING)) == ()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.5, ""),
        (125.0, "waited 2 min 5 s for 2 VCPUs"),
        (7500.0, "waited 2 h 5 min for 2 VCPUs"),
    ],
)
def test_times(seconds: float, expected: str) -> None:
    assert tell(waits((0.0, ROOM)), now=seconds) == expected


def test_many_short_waits_are_told_by_the_longest() -> None:
    assert tell(waits((0.0, ROOM), (0.7, HELD)), now=1.2) == "waited 1 s for 2 VCPUs"
