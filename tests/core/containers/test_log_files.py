"""Numbers in the log files of a container."""

from __future__ import annotations

import pytest

from lading.core.containers.log_files import UsageHistory, UsagePoint, machine_name

LINES = (
    "2026-11-24T10:00:00.000000000Z mem 1000 cache 0 swap 0 pgmajfault 2000 rss",
    "2026-11-24T10:00:00.000000000Z cpu 0.1 user 0.2 sys 2 cpus",
    "2026-11-24T10:00:00.000000000Z statfs 5 available 3 used 8 total",
    "2026-11-24T10:00:10.000000000Z mem 1000 cache 0 swap 0 pgmajfault 3000 rss",
    "2026-11-24T10:00:10.000000000Z cpu 5 user 1 sys 2 cpus -- interval 10 seconds 4 user 1 sys",
    "2026-11-24T10:00:10.0Z blkio:8:0 1 write 1 read -- interval 10 seconds 20 write 10 read",
    "2026-11-24T10:00:10.0Z blkio:8:1 1 write 1 read -- interval 10 seconds 20 write 10 read",
    "2026-11-24T10:00:10.000000000Z net:eth0 9 tx 9 rx -- interval 10 seconds 40 tx 80 rx",
)
BEGIN = 1795514400.0


def _history(lines: tuple[str, ...] = LINES, most: int = 100) -> list[UsagePoint]:
    history = UsageHistory(most=most)
    for line in lines:
        history.add(line)
    return history.points


def test_points_and_their_rates() -> None:
    first, second = _history()
    assert first == UsagePoint(at=BEGIN, memory=2000.0)
    assert (second.at, second.cpu, second.memory) == (BEGIN + 10, 0.5, 3000.0)
    # The devices together.
    assert (second.disk_read, second.disk_written) == (2.0, 4.0)
    assert (second.received, second.sent) == (8.0, 4.0)


def test_lines_of_arvados() -> None:
    (point,) = _history(("2026-11-24T10:00:00.5Z crunchstat: mem 7 rss",))
    assert (point.at, point.memory) == (BEGIN + 0.5, 7.0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no line at all",
        "2026-11-24T10:00:00Z mem many rss",
        "2026-11-24T10:00:00Z mem 1 rss 2",
        "2026-99-24T10:00:00Z mem 1 rss",
        "2026-11-24T10:00:00Z statfs 1 used",
    ],
)
def test_what_is_no_sample(line: str) -> None:
    assert _history((line,)) == []


def test_a_long_history_becomes_coarse() -> None:
    history = UsageHistory(most=4)
    for number in range(9):
        history.add(f"2026-11-24T10:00:{number:02}Z mem {number} rss")
        history.add(
            f"2026-11-24T10:00:{number:02}Z cpu 1 user 1 sys 1 cpus"
            f" -- interval 2 seconds {number * 2} user 0 sys"
        )
    points = history.points
    # Pairs, then pairs of pairs: the most of memory, the mean of the processors.
    assert [(one.memory, one.cpu) for one in points] == [(3.0, 1.5), (7.0, 5.5), (8.0, 8.0)]
    assert points[0].at == BEGIN + 3


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Host Information\nLinux worker-3 6.1.0 x\n\nCPU Information\n", "worker-3"),
        (
            "2026-11-24T10:00:00Z Host Information\n2026-11-24T10:00:00Z Linux worker-3 6.1\n",
            "worker-3",
        ),
        ("Host Information\nnothing\n", ""),
        ("CPU Information\nLinux worker-3 6.1\n", ""),
        ("", ""),
    ],
)
def test_the_name_of_a_machine(text: str, name: str) -> None:
    assert machine_name(text) == name


def test_gpus_are_added_up() -> None:
    history = UsageHistory(most=10)
    at = "2026-01-01T00:00:0{}.000000000Z"
    for line in (
        f"{at.format(0)} mem 1 cache 5 rss",
        f"{at.format(1)} gpu:nvidia0 50 percent 3 used 9 total",
        f"{at.format(1)} gpu:nvidia1 4 used 9 total",
        f"{at.format(2)} gpu:nvidia0 90 percent 8 used 9 total",
        f"{at.format(3)} mem 1 cache 5 rss",
        f"{at.format(4)} gpu:nvidia0 100 percent 1 used 9 total",
    ):
        history.add(line)
    assert [(point.gpu, point.gpu_memory) for point in history.points] == [(0.5, 7.0), (1.0, 1.0)]
    assert history.points[0].memory == 5.0
