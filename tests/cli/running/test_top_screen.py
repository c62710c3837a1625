"""The screen of `lading top`, as text."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from lading.cli.running.queue_picture import EndedRequest, QueuePicture, RunningRequest
from lading.cli.running.top_screen import bar, line, screen

RUN = RunningRequest(
    uuid="zzzzz-xvhdp-aaaaaaaaaaaaaaa",
    name="align.17",
    seconds=30,
    expected=60,
    vcpus=4,
    ram=1 << 32,
)
LATE = RunningRequest(
    uuid="zzzzz-xvhdp-bbbbbbbbbbbbbbb", name="x\x1b[2J" + "y" * 90, seconds=90, expected=60,
    vcpus=1, ram=1 << 28,
)  # fmt: skip
NEW = RunningRequest(uuid="u", name="new", seconds=1, expected=None, vcpus=1, ram=1 << 28)
GOOD = EndedRequest(
    uuid="zzzzz-xvhdp-ccccccccccccccc", name="align.1", state="Complete", status="done",
    seconds=61.0,
    ended_at="2026-01-02T03:04:00.000000000Z", is_reused=False,
)  # fmt: skip
BAD = EndedRequest(
    uuid="u", name="align.2", state="Complete", status="failed 5", seconds=None,
    ended_at="2026-01-02T03:04:00.000000000Z", is_reused=False,
)  # fmt: skip


def picture(**changes: Any) -> QueuePicture:
    known: dict[str, Any] = {
        "at": "2026-01-02T03:04:05+00:00", "waiting": 117, "running": 3, "succeeded": 512,
        "failed": 3, "cancelled": 0, "reused": 40, "per_minute": 12.0, "seconds_left": 200.0,
        "head": {"uuid": "zzzzz-xvhdp-ddddddddddddddd", "name": "align.18", "why": "no room"},
        "runs": [RUN, LATE, NEW], "ends": [GOOD, BAD],
    }  # fmt: skip
    return QueuePicture(**{**known, **changes})


def shown(one: QueuePicture, *, width: int = 100, height: int = 40) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(screen(one, width=width, height=height))
    return out.getvalue().splitlines()


def test_gpus_stand_among_the_needs() -> None:
    run = replace(RUN, gpus="1 GPU (nvidia0)")
    assert any("4 vcpus, 4.0 GiB, 1 GPU (nvidia0)" in text for text in shown(picture(runs=[run])))


@pytest.mark.parametrize(("width", "bar_size"), [(50, 0), (58, 0), (60, 6), (70, 16), (80, 20)])
def test_on_a_narrow_screen_the_bar_is_shorter_and_nothing_else(width: int, bar_size: int) -> None:
    lines = shown(picture(runs=[LATE]), width=width)
    assert max(len(text) for text in lines) <= width
    late = next(text for text in lines if "bbbbbbbbbbbbbbb  1:30  1:00" in text)
    assert late.count("━") == bar_size
    assert any("ccccccccccccccc  done      1:01  5 s" in text for text in lines)


def test_a_screen_has_counts_runs_the_head_and_ends() -> None:
    lines = shown(picture())
    assert max(len(text) for text in lines) <= 100
    said = "\n".join(lines)
    assert "512 done   3 failed   3 running   117 waiting" in said
    assert "  12 a minute  40 reused  about 3 min left" in lines[0]
    align = next(text for text in lines if text.startswith("align.17"))
    assert "━" * 10 + "─" * 10 in align
    assert "  0:30  1:00  " in align
    assert "4 vcpus, 4.0 GiB" in align
    assert "NEXT  align.18 (ddddddddddddddd): no room" in said
    assert next(text for text in lines if text.startswith("align.2")).split()[2:4] == [
        "failed",
        "5",
    ]


def test_names_of_others_do_not_command_the_terminal() -> None:
    assert "\x1b" not in "".join(shown(picture()))
    assert "\x1b" not in line(picture(head={"uuid": "u", "name": "\x1b[2J", "why": ""}))


def test_a_small_screen_has_fewer_rows() -> None:
    many = picture(runs=[RUN] * 40, running=40, ends=[GOOD] * 40)
    lines = shown(many, width=80, height=24)
    assert len(lines) <= 24
    assert any("RUNNING (8 of 40)" in text for text in lines)


def test_a_bar_has_a_part_for_each_state() -> None:
    text = bar(picture(), 50)
    assert len(text) == 50
    assert [str(span.style) for span in text.spans] == ["green", "red", "cyan", "bright_black"]
    assert [span.end - span.start for span in text.spans] == [39, 1, 1, 9]


def test_an_idle_site_says_so() -> None:
    none = picture(
        waiting=0, running=0, succeeded=0, failed=0, reused=0, per_minute=0.0,
        seconds_left=None, head=None, runs=[], ends=[],
    )  # fmt: skip
    assert "nothing waits, runs or has ended" in "\n".join(shown(none))
    assert len(bar(none, 9)) == 9


def test_one_line() -> None:
    said = line(picture())[8:]
    assert said == (
        "  117 waiting, 3 running, 3 failed, 512 done; 12 a minute; 40 reused; "
        "about 3 min left; next align.18: no room"
    )
