"""How far a dispatcher looks."""

from __future__ import annotations

from lading.core.resources import Resources
from lading.core.scheduling.planning import TrackedContainer, Window, window_of


def entry(uuid: str, priority: int = 1, created_at: str = "1") -> TrackedContainer:
    return TrackedContainer(
        uuid=uuid, priority=priority, created_at=created_at, need=Resources(1, 1)
    )


def test_a_look_that_found_fewer_than_it_asked_for_has_seen_all() -> None:
    assert window_of([entry("a").place], most=2) == window_of([], most=2) == Window()
    assert Window().shows(entry("z", priority=-5))


def test_what_comes_after_the_last_one_is_not_shown() -> None:
    window = window_of([entry("a", 3).place, entry("m", 2, "5").place], most=2)
    assert window.shows(entry("m", 2, "5"))
    assert window.shows(entry("z", 2, "4"))
    assert window.shows(entry("z", 3, "9"))
    assert not window.shows(entry("n", 2, "5"))
    assert not window.shows(entry("a", 1, "1"))


def test_it_is_time_to_look_again_when_half_are_left_of_a_queue_that_goes_on() -> None:
    window = Window(entry("a").place)
    assert [window.is_low(left, size=4) for left in (0, 1, 2, 4)] == [True, True, False, False]
    assert [window.is_low(left, size=1) for left in (0, 1)] == [True, False]
    assert not Window().is_low(0, size=4)
