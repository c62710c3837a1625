"""Why a request waits, in words."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers.container import Container
from lading.core.containers.priority import Readiness, ReadinessVerdict
from lading.core.policy.fair_share import SharePosition
from lading.core.scheduling.wait_reasons import Scene, WaitReason, delays, misfit
from tests.records import make_container, make_request

EARLY = ReadinessVerdict(Readiness.EARLY, "It is to start after tomorrow.")


def reasons(container: Container | None, scene: Scene, **changes: Any) -> list[str]:
    request = make_request(**{"state": "Committed", "priority": 5, **changes})
    return [one.reason for one in delays(request, container, scene)]


WAITING = make_container()
FAILED = make_container(
    state="Cancelled", runtime_status={"failure": "image", "error": "image x: cannot be read"}
)


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
        (
            make_container(priority=0, lock_count=2),
            Scene(judgement=EARLY),
            {},
            ["start time", "attempts"],
        ),
        (make_container(priority=0), Scene(parent=make_container(priority=0)), {}, ["parent"]),
        (
            make_container(priority=0),
            Scene(parent=make_container(state="Complete")),
            {},
            ["parent"],
        ),
        (WAITING, Scene(parent=make_container()), {}, ["position", "unreported"]),
        (
            WAITING,
            Scene(reports=(WaitReason("too large", "T."), WaitReason("quota", "Q."))),
            {},
            ["position", "too large", "quota"],
        ),
        (WAITING, Scene(silence="No machine runs containers."), {}, ["position", "no dispatcher"]),
        (WAITING, Scene(image="It is gone."), {}, ["image", "position", "unreported"]),
        (None, Scene(image="It is unknown."), {"state": "Uncommitted"}, ["image"]),
        (WAITING, Scene(earlier=FAILED), {}, ["position", "unreported", "image"]),
        (
            WAITING,
            Scene(earlier=make_container(state="Cancelled")),
            {},
            ["position", "unreported", "attempts"],
        ),
        (
            WAITING,
            Scene(cancelled_since="2026-01-02T03:04:05Z"),
            {},
            ["cancellation", "position", "unreported"],
        ),
        (make_container(state="Locked", locked_by_uuid="x", lock_count=1), Scene(), {}, ["lock"]),
        (
            make_container(state="Locked", lock_count=3),
            Scene(reports=(WaitReason("preparing", "Soon."),)),
            {},
            ["lock", "preparing", "attempts"],
        ),
    ],
)
def test_reasons(
    container: Container | None, scene: Scene, changes: dict[str, Any], expected: list[str]
) -> None:
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


def test_the_position_between_shares() -> None:
    share = SharePosition("thesis", 4.1, others=2)
    found = delays(make_request(state="Committed"), WAITING, Scene(ahead=3, most=9, share=share))
    assert found[0].sentence == (
        "3 containers wait before it, 2 of them of other projects (a higher priority goes first, "
        "then the project that has used least of its share; thesis has used 4.1 times its share)."
    )


def test_the_lock_says_what_its_holder_does() -> None:
    held = make_container(
        state="Locked",
        locked_by_uuid="t",
        runtime_status={"activity": "unpacking its image"},
        lock_count=2,
    )
    one, two, three = delays(make_request(state="Committed"), held, Scene())
    assert (one.reason, one.sentence) == (
        "lock",
        "The dispatcher with the token t has taken it and prepares it.",
    )
    assert (two.reason, two.sentence) == ("image", "Now: unpacking its image.")
    assert three.sentence == "It was taken once before and given back without having started."


def test_an_attempt_that_failed_is_told() -> None:
    (*_, last) = delays(make_request(state="Committed"), WAITING, Scene(earlier=FAILED))
    assert last.sentence.endswith("failed (failure class image): image x: cannot be read")


def test_the_dispatcher_with_the_best_prospects_speaks() -> None:
    said = (
        WaitReason("too large", "T."),
        WaitReason("no worker", "N."),
        WaitReason("capacity", "C."),
    )
    assert Scene(reports=said).status == "C."
    assert Scene(reports=said[:2]).status == "N."
    going = Scene(reports=said, cancelled_since="2026-01-02T03:04:05Z")
    assert (going.status or "").startswith("It is being cancelled, as asked at 2026-01-02")
    assert Scene().status is None


def test_whom_clients_are_warned_about() -> None:
    large, other, room = (
        WaitReason("too large", "Too large."),
        WaitReason("partition", "Elsewhere."),
        WaitReason("capacity", "Next."),
    )
    assert misfit([large]) == "Too large."
    assert misfit([large, other]) == "Elsewhere."
    assert misfit([large, room]) == misfit([]) == ""


def test_a_retry_says_what_it_has_beyond_the_attempt_before() -> None:
    def said(ram: int, factor: float) -> str:
        given = {
            "runtime_constraints": {"ram": ram, "vcpus": 1},
            "scheduling_parameters": {"disk_factor": factor},
        }
        earlier = make_container(2, runtime_constraints={"ram": 1 << 30, "vcpus": 1})
        request = make_request(state="Committed", priority=5)
        found = delays(request, make_container(1, **given), Scene(earlier=earlier))
        return found[-1].sentence

    assert said(1 << 30, 1.0).startswith("It is tried again: the attempt before")
    assert said(1 << 31, 1.0).startswith(
        "It is tried again with 2.0 GiB of ram in place of 1.0 GiB: the attempt before"
    )
    assert said(1 << 31, 2.5).startswith(
        "It is tried again with 2.0 GiB of ram in place of 1.0 GiB and 2.5 times the usual disk"
    )


def test_a_request_that_mounts_the_output_of_another_waits_for_its_end() -> None:
    mount = {"kind": "output", "container_request": "zzzzz-xvhdp-aaaaaaaaaaaaaaa"}
    assert reasons(None, Scene(), mounts={"/in": mount}) == ["inputs"]


def test_the_position_before_all_other_shares_names_none() -> None:
    share = SharePosition("thesis", 4.1, others=0)
    found = delays(make_request(state="Committed"), WAITING, Scene(ahead=3, most=9, share=share))
    assert found[0].sentence.startswith("3 containers wait before it (")
