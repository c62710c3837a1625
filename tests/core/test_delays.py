"""Why a request waits, in words."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.container import Container
from lading.core.delays import Scene, delays
from lading.core.waiting import Judgement, Standing
from lading.testing.records import make_container, make_request

EARLY = Judgement(Standing.EARLY, "It is to start after tomorrow.")


def reasons(container: Container | None, scene: Scene, **changes: Any) -> list[str]:
    request = make_request(**{"state": "Committed", "priority": 5, **changes})
    return [one.reason for one in delays(request, container, scene)]


WAITING = make_container()


@pytest.mark.parametrize(
    ("container", "scene", "changes", "expected"),
    [
        (WAITING, Scene(), {"state": "Uncommitted"}, []),
        (WAITING, Scene(), {"state": "Final"}, []),
        (None, Scene(), {}, ["unassigned"]),
        (None, Scene(), {"resolving": True}, ["resolving"]),
        (make_container(state="Running"), Scene(), {}, []),
        (make_container(state="Complete"), Scene(), {}, []),
        (make_container(priority=0), Scene(), {"priority": 0}, ["priority"]),
        (make_container(priority=0, lock_count=2), Scene(judgement=EARLY), {}, ["start time", "attempts"]),
        (make_container(priority=0), Scene(parent=make_container(priority=0)), {}, ["parent"]),
        (make_container(priority=0), Scene(parent=make_container(state="Complete")), {}, ["parent"]),
        (WAITING, Scene(parent=make_container()), {}, ["position", "unreported"]),
        (WAITING, Scene(dispatcher="Too large."), {}, ["position", "dispatcher"]),
        (make_container(state="Locked", locked_by_uuid="x", lock_count=1), Scene(), {}, ["lock"]),
        (
            make_container(state="Locked", lock_count=3),
            Scene(dispatcher="Soon."),
            {},
            ["lock", "attempts", "dispatcher"],
        ),
    ],
)
def test_reasons(container: Container | None, scene: Scene, changes: dict[str, Any], expected: list[str]) -> None:
    assert reasons(container, scene, **changes) == expected


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "No container waits before it"),
        (1, "1 container waits"),
        (7, "7 containers wait"),
        (9, "9 or more containers"),
    ],
)
def test_the_position(ahead: int, words: str) -> None:
    found = delays(make_request(state="Committed"), WAITING, Scene(ahead=ahead, most=9))
    assert found[0].shown()["sentence"].startswith(words)  # type: ignore[union-attr]


def test_the_lock_says_what_its_holder_does() -> None:
    held = make_container(
        state="Locked", locked_by_uuid="t", runtime_status={"activity": "loading image"}, lock_count=2
    )
    one, two = delays(make_request(state="Committed"), held, Scene())
    assert one.sentence == "The dispatcher with the token t has taken it and prepares it: loading image."
    assert two.sentence == "It was taken once before and given back without having started."
