"""What one container costs each process: processor time, page faults, bytes, system calls.

The counters are those of /proc before and after a burst of no-op containers. System calls are
counted in a further burst, which strace slows down, so nothing else is taken from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, absent
from bench.requests import Watch, submit
from bench.service import SERVER_PID, add_image, connected, serving
from bench.throughput import SCRIPT
from lading.client.api import ApiClient

KINDS = {
    "lading.wiring.server": "server",
    "lading.wiring.dispatcher": "dispatcher",
    "lading.supervisor.process.forkserver": "supervisors",
}
CHILDREN = "crun and commands"
SYNCS = ("fsync", "fdatasync", "sync_file_range")
_TICK = os.sysconf("SC_CLK_TCK")
_WARM = 40
_SUBMITTERS = 8
# Calls that are named in a row: the most frequent ones.
_NAMED = 5
# Seconds until strace has attached itself, and until it has written its counts.
_ATTACH, _PATIENCE = 1.0, 30.0
Counts = Counter[str]


@dataclass(frozen=True, slots=True)
class _Site:
    client: ApiClient
    watch: Watch
    image: str
    root: int

    async def run(self, count: int) -> None:
        gate = asyncio.Semaphore(_SUBMITTERS)

        async def one(number: int) -> None:
            async with gate:
                command = ["sh", "-c", SCRIPT, str(number)]
                uuid = await submit(self.client, self.image, command)
            await self.watch.end(uuid)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))


def measure(*, containers: int) -> list[Figure]:
    """A row for each kind of process, all for one container of `containers`; half as many for the
    system calls.
    """
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-") as folder,
        serving(Path(folder) / "data") as environment,
    ):
        return asyncio.run(_measure(environment, containers))


async def _measure(environment: dict[str, str], count: int) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        site = _Site(client, watch, image, int(environment[SERVER_PID]))
        await site.run(_WARM)
        before = counters(site.root)
        await site.run(count)
        used = counters(site.root)
        used.subtract(before)
        calls = await _system_calls(site, max(1, count // 2))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    if not calls:
        return [*_rows(used, count, calls), absent("system calls", "strace is not installed")]
    return _rows(used, count, calls)


def _rows(used: Counts, count: int, calls: Mapping[str, Counts]) -> list[Figure]:
    rows = []
    for kind in (*KINDS.values(), CHILDREN):
        user, system = (used[f"{kind} {one}"] / _TICK * 1000 / count for one in ("user", "system"))
        parts = [f"{user:.1f} ms user and {system:.1f} ms system time"]
        if kind != CHILDREN:
            faults, written = (used[f"{kind} {one}"] / count for one in ("faults", "written"))
            parts.append(f"{faults:.0f} page faults, {written / 1024:.0f} KiB written")
        if kind in calls:
            parts.append(describe(calls[kind]))
        rows.append(
            Figure(
                name=f"one container: {kind}",
                unit="ms",
                count=count,
                server=user + system,
                note="; ".join(parts),
            )
        )
    return rows


def describe(calls: Counts) -> str:
    """A clause on the system calls of one container."""
    syncs = sum(calls[name] for name in SYNCS)
    most = ", ".join(f"{number} {name}" for name, number in calls.most_common(_NAMED))
    return f"{calls.total()} system calls ({most}), {syncs} of them wait for the disk"


def read_summary(text: str, count: int) -> Counts:
    """The calls of one container of `count`, from the table of `strace -c`. Raises ValueError for
    another text.
    """
    calls: Counts = Counter()
    lines = text.splitlines()
    if not lines or "syscall" not in lines[0]:
        raise ValueError("no table of strace")
    for line in lines:
        words = line.split()
        # Share, seconds, microseconds a call, calls, perhaps errors, name.
        if len(words) in (5, 6) and words[3].isdigit() and words[-1] != "total":
            calls[words[-1]] = round(int(words[3]) / count)
    return calls


def counters(root: int) -> Counts:
    """The counters of all processes below `root`, added up by kind: clock ticks, faults, bytes."""
    found: Counts = Counter()
    for pid, kind in processes(root):
        # The process has ended.
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            # proc_pid_stat(5): minflt is field 10, utime 14, stime 15, cutime 16, cstime 17; the
            # text begins with field 3.
            found[f"{kind} faults"] += int(words[7])
            found[f"{kind} user"] += int(words[11])
            found[f"{kind} system"] += int(words[12])
            if kind == "supervisors":
                found[f"{CHILDREN} user"] += int(words[13])
                found[f"{CHILDREN} system"] += int(words[14])
            for line in Path(f"/proc/{pid}/io").read_text().splitlines():
                name, _, number = line.partition(": ")
                found[f"{kind} written"] += int(number) if name == "write_bytes" else 0
    return found


def processes(root: int) -> Iterator[tuple[int, str]]:
    """The process ids below `root` of the kinds that are known, with their kinds."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            kind = next((KINDS[word] for word in words if word in KINDS), "")
            if kind:
                yield pid, kind


async def _system_calls(site: _Site, count: int) -> dict[str, Counts]:
    """System calls of one container by kind, those of crun and the command with the supervisors';
    nothing without strace.
    """
    if shutil.which("strace") is None:
        return {}
    by_kind: dict[str, list[int]] = {}
    for pid, kind in processes(site.root):
        by_kind.setdefault(kind, []).append(pid)
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        running = {kind: _trace(pids, Path(folder) / kind) for kind, pids in by_kind.items()}
        await asyncio.sleep(_ATTACH)
        try:
            await site.run(count)
        finally:
            for one in running.values():
                one.send_signal(signal.SIGINT)
            for one in running.values():
                await asyncio.to_thread(one.wait, _PATIENCE)
        texts = {kind: (Path(folder) / kind).read_text() for kind in running}
    return {kind: read_summary(text, count) for kind, text in texts.items()}


def _trace(pids: list[int], target: Path) -> subprocess.Popen[bytes]:
    attach = [word for pid in pids for word in ("-p", str(pid))]
    return subprocess.Popen(
        ["strace", "-f", "-c", "-o", str(target), *attach], stderr=subprocess.DEVNULL
    )
