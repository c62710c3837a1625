"""The picture of the queue, from records and a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lading.cli.running.queue_picture import (
    RequestHistory,
    draw,
    first_in_line,
    kind_of,
)
from lading.client.outcomes import RequestOutcome
from lading.core.request_status import RequestStatus

NOW = datetime(2026, 1, 2, 3, 10, 0, tzinfo=UTC)


def moment(seconds: int) -> str:
    """A time so many seconds after 03:00:00."""
    return f"2026-01-02T03:{seconds // 60:02}:{seconds % 60:02}.000000000Z"


def outcome(
    name: str, state: str, *, began: int = 0, took: int | None = None, code: int | None = 0,
    progress: float | None = None, priority: int = 500, created: int = 0, uuid: str = "",
) -> RequestOutcome:  # fmt: skip
    is_final = state in ("Complete", "Cancelled")
    request: dict[str, Any] = {
        "uuid": uuid or f"zzzzz-xvhdp-{name:0>15}", "name": name, "command": ["sort", "-u"],
        "state": "Final" if is_final else "Committed", "priority": priority,
        "created_at": moment(created),
    }  # fmt: skip
    if not state:
        return RequestOutcome(request, None)
    container = {
        "uuid": "c", "state": state, "exit_code": code if state == "Complete" else None,
        "created_at": moment(created),
        "started_at": None if state in ("Queued", "Locked") else moment(began),
        "finished_at": moment(began + took) if took is not None else None,
        "progress": progress, "runtime_constraints": {"vcpus": 2, "ram": 1 << 30},
    }  # fmt: skip
    return RequestOutcome(request, container)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("sort.17", "sort"), ("sort", "sort"), ("step_2", "step"), ("17", "17"), (None, "sort()")],
)
def test_kinds(name: str | None, kind: str) -> None:
    assert kind_of({"name": name, "command": ["/bin/sort", "-u"]}) == kind


def test_the_kind_without_name_and_command_is_that_of_the_image() -> None:
    assert kind_of({"name": "", "command": None}) == "()"


def history(*times: int, name: str = "sort") -> RequestHistory:
    made = RequestHistory()
    for number, took in enumerate(times):
        made.add(outcome(f"{name}.{number}", "Complete", began=400, took=took, created=390))
    return made


def test_times_come_from_those_of_the_same_kind() -> None:
    known = history(10, 30, 20)
    assert known.expected({"name": "sort.99", "command": ["x"]}) == 20
    other = {"name": "plot", "command": ["x"]}
    assert (known.expected(other), known.expected(other, any_kind=True)) == (None, 20)
    assert RequestHistory().expected(other, any_kind=True) is None


def test_reused_and_failed_requests_say_nothing_about_times() -> None:
    known = RequestHistory()
    known.add(outcome("a.1", "Complete", took=500, code=3))
    known.add(outcome("a.2", "Cancelled", took=500))
    known.add(outcome("a.3", "", took=500))
    reused = outcome("a.4", "Complete", took=500, created=100)
    assert reused.container is not None
    reused.container["created_at"] = moment(0)
    known.add(reused)
    assert known.expected({"name": "a.9", "command": []}, any_kind=True) is None
    assert len(known.uuids) == sum(known.statuses.values()) == 4
    assert known.reused == 1


def test_of_very_many_ends_the_latest_are_kept() -> None:
    known = RequestHistory()
    for number in range(10_001):
        known.add(outcome(f"a.{number}", "Complete", began=number % 600, took=0))
    assert known.statuses[RequestStatus.DONE] == 10_001
    assert len(known.latest()) == 5000


def test_a_picture_counts_and_expects() -> None:
    known = history(60, 60, 60)
    known.add(outcome("sort.7", "Complete", began=500, took=50, code=2, created=450))
    known.add(outcome("sort.8", "Cancelled", began=500, created=450))
    opened = [
        outcome("sort.20", "Running", began=570),
        outcome("sort.21", "Running", began=560),
        *(outcome(f"sort.{number}", "Queued") for number in (22, 23)),
        outcome("later", ""),
    ]
    picture = draw(opened, known, NOW, total=6, head={"uuid": "u", "name": "n", "why": "w"})
    assert (picture.waiting, picture.running, picture.total) == (4, 2, 11)
    assert (picture.succeeded, picture.failed, picture.cancelled) == (3, 1, 1)
    assert [(one.name, one.seconds, one.left) for one in picture.runs] == [
        ("sort.21", 40, 20),
        ("sort.20", 30, 30),
    ]
    assert picture.runs[1].part == 0.5
    # 20 and 30 s of what runs, and four times 60 s, two at a time: until 140 and 150 s.
    assert picture.seconds_left == 150
    assert picture.per_minute == 5 / 5
    assert [one.name for one in picture.ends][:2] == ["sort.7", "sort.0"]
    assert (picture.ends[0].status, picture.ends[0].seconds) == ("failed 2", 50)


def test_without_history_nothing_is_expected() -> None:
    picture = draw([outcome("a", "Running", began=590)], RequestHistory(), NOW, total=1, head=None)
    assert (picture.seconds_left, picture.runs[0].left, picture.runs[0].part) == (None, None, None)
    idle = draw([outcome("a", "Queued")], history(5), NOW, total=1, head=None)
    assert (idle.seconds_left, idle.runs) == (None, [])


def test_what_a_container_reports_is_better_than_history() -> None:
    one = outcome("sort.1", "Running", began=580, progress=0.25)
    picture = draw([one], history(60), NOW, total=1, head=None)
    assert (picture.runs[0].expected, picture.runs[0].left) == (80, 60)


def test_the_first_in_line() -> None:
    waiting = [
        outcome("old", "Queued", created=1),
        outcome("urgent", "Queued", created=9, priority=900),
        outcome("held", "Queued", created=0, priority=0),
        outcome("unknown input", "", priority=1000),
    ]
    head = first_in_line(waiting)
    assert head is not None
    assert head.request["name"] == "urgent"
    assert first_in_line([]) is None
