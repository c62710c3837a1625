from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor.limits.counters import CgroupCounters
from lading.supervisor.limits.usage_samples import UsageSampler
from lading.supervisor.logs import Log
from tests.supervisor.limits.test_counters import V1, folders
from tests.supervisor.supervised import MOMENT, STAMP

# Uses a tenth of a second of a processor, says so, and waits.
_BUSY = """
import time
while time.process_time() < 0.1:
    pass
print("used", flush=True)
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", lambda: MOMENT)
    yield log
    log.close()


def usage(log: Log, tmp_path: Path, *, ram: int = 1000) -> UsageSampler:
    times = iter(range(100))
    made = UsageSampler(log, tmp_path, ram, lambda: float(next(times)))
    made.folders = folders(tmp_path, 1, V1)
    return made


def test_reports_have_what_was_added(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    sampled.report()
    (tmp_path / "cpuacct.stat").write_text("user 250\nsystem 50\n")
    sampled.report()
    lines = (log.directory / "crunchstat.txt").read_text().splitlines()
    assert lines[0] == f"{STAMP} mem 10 cache 30 swap 40 pgmajfault 20 rss"
    cpu = [line for line in lines if " cpu " in line]
    assert cpu[1].endswith("2.5 user 0.5 sys 1 cpus -- interval 1.0000 seconds 1 user 0 sys")
    assert any(" blkio:8:0 9 write 7 read -- interval" in line for line in lines)


def test_memory_is_warned_about_once_for_each_threshold(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    for rss in (899, 900, 920, 999, 1000):
        (tmp_path / "memory.stat").write_text(f"total_rss {rss}\n")
        sampled.watch_memory()
    said = (log.directory / "crunch-run.txt").read_text()
    assert [line.removeprefix(f"{STAMP} ") for line in said.splitlines()] == [
        "Container using over 90% of memory (rss 900 of 1000 bytes)",
        "Container using over 99% of memory (rss 999 of 1000 bytes)",
    ]


def test_totals_and_maxima_at_the_end(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path, ram=40)
    sampled.report_host(CgroupCounters(1, {}))
    sampled.finish()
    assert sampled.used["cpu"] == 2.0
    assert sampled.used["memory"] > 0
    said = (log.directory / "crunch-run.txt").read_text().replace(f"{STAMP} ", "").splitlines()
    assert said[:2] == [
        "Total CPU usage was 1.500000 user and 0.500000 sys on 1.00 CPUs",
        "Total disk I/O on 8:0 was 9 bytes written and 7 bytes read",
    ]
    assert said[2].startswith("Maximum disk usage was ")
    assert said[3:8] == [
        "Maximum container memory cache usage was 10 bytes",
        "Maximum container memory swap usage was 30 bytes",
        "Maximum container memory pgmajfault usage was 40 bytes",
        "Maximum container memory rss usage was 50%, 20/40 bytes",
        "Maximum container memory usage was 99 bytes, page cache included",
    ]
    assert said[-1].startswith("Maximum lading-supervisor memory rss usage was ")


def test_the_network_is_in_the_summary(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    sampled.lines.last = {"net:eth0": {"tx": 5, "rx": 6}}
    assert sampled.summary() == [
        "Maximum container memory usage was 99 bytes, page cache included",
        "Total network I/O on eth0 was 5 bytes written and 6 bytes read",
    ]


def test_what_serves_the_container_is_in_a_file_of_its_own(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    sampled.helpers["mount"] = os.getpid()
    sampled.report_host(folders(tmp_path, 1, V1))
    sampled.report_host(folders(tmp_path, 1, V1))
    lines = (log.directory / "hoststat.txt").read_text().splitlines()
    assert lines[0] == f"{STAMP} mem 10 cache 30 swap 40 pgmajfault 20 rss"
    assert re.fullmatch(rf"{STAMP} procmem \d+ lading-supervisor \d+ mount", lines[1])
    assert any(" cpu " in line and " -- interval " in line for line in lines)


def test_nothing_is_said_of_what_was_never_seen(log: Log, tmp_path: Path) -> None:
    never = UsageSampler(log, tmp_path, 0, lambda: 0.0)
    for act in (never.report, never.watch_memory, never.finish):
        act()
    assert list(log.directory.iterdir()) == []


async def test_sampling_goes_on_until_cancelled(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folders(tmp_path, 1, V1)
    answers = iter((None, found))
    monkeypatch.setattr(
        "lading.supervisor.limits.usage_samples.find_folders", lambda pid, hierarchy: next(answers)
    )
    pids = iter((None, 5, 5))
    times = iter(range(100))
    sampled = UsageSampler(log, tmp_path, 10, lambda: float(next(times)), look=0.0)
    task = asyncio.create_task(
        sampled.run(
            lambda: next(pids),
            interval=0.0,
            mounts="cgroup /sys/fs/cgroup/memory cgroup memory 0 0",
        )
    )
    await log.grown.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sampled.folders is found


def test_the_group_of_a_short_command_is_found_at_once(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folders(tmp_path, 1, V1)
    monkeypatch.setattr(
        "lading.supervisor.limits.usage_samples.find_folders", lambda pid, hierarchy: found
    )
    short = UsageSampler(log, tmp_path, 0, lambda: 0.0)
    short.look_at(None, mounts="")
    assert short.folders is None
    short.look_at(5, mounts="cgroup /groups cgroup rw,memory 0 0\n")
    short.finish()
    assert short.used == {"memory": 99.0, "cpu": 2.0}


async def test_a_process_that_joins_its_groups_one_by_one_is_seen_in_all(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = folders(tmp_path, 1, V1)
    (name, path), *_ = whole.paths.items()
    answers = [CgroupCounters(1, {name: path}), CgroupCounters(1, {name: path}), whole]
    monkeypatch.setattr(
        "lading.supervisor.limits.usage_samples.find_folders",
        lambda pid, hierarchy: answers.pop(0),
    )
    mounts = "".join(f"cgroup /groups/{name} cgroup rw,{name} 0 0\n" for name in whole.paths)
    sampled = UsageSampler(log, tmp_path, 10, lambda: 0.0, look=0.0)
    sampled.look_at(5, mounts=mounts)
    # A short command has at least these.
    assert sampled.folders is not None
    task = asyncio.create_task(sampled.run(lambda: 5, interval=0.0, mounts=mounts))
    async with asyncio.timeout(10):
        while answers:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sampled.folders is whole


async def test_after_its_end_nothing_is_sampled(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    sampled.finish()
    used, lines = sampled.used, (log.directory / "crunch-run.txt").read_text()
    (tmp_path / "cpuacct.stat").write_text("user 250\nsystem 50\n")
    # As for a container that is kept after its command.
    await asyncio.wait_for(sampled.run(lambda: None, interval=0.0, mounts=""), 10)
    sampled.finish()
    assert sampled.used == used
    assert (log.directory / "crunch-run.txt").read_text() == lines


async def test_without_groups_the_processes_are_sampled(log: Log, tmp_path: Path) -> None:
    times = iter(range(1000))
    sampled = UsageSampler(log, tmp_path, 1, lambda: float(next(times)), sample=0.0, look=0.0)
    pids = iter((None, os.getpid()))
    task = asyncio.create_task(sampled.run(lambda: next(pids), interval=3.0, mounts=""))
    while not (log.directory / "hoststat.txt").exists():
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sampled.finish()
    assert " pgmajfault " in (log.directory / "crunchstat.txt").read_text()
    said = (log.directory / "crunch-run.txt").read_text()
    assert "Container using over 99% of memory" in said
    assert "Total CPU usage was" in said


def test_a_process_without_a_group_is_sampled_from_its_start(log: Log, tmp_path: Path) -> None:
    made = UsageSampler(log, tmp_path, 1 << 40, lambda: 0.0)
    made.look_at(os.getpid(), mounts="")
    made.watch_memory()
    made.finish()
    assert made.used["memory"] > 1 << 20
    assert made.used["cpu"] > 0


def test_what_has_ended_does_not_undo_its_figures(log: Log, tmp_path: Path) -> None:
    made = UsageSampler(log, tmp_path, 1 << 40, lambda: 0.0)
    with subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        made.look_at(process.pid, mounts="")
        made.watch_memory()
        process.kill()
    made.finish()
    assert made.used["memory"] > 1 << 20
    assert made.used["cpu"] >= 0.05
