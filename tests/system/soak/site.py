"""A cluster under steady load for a long time, while its processes are killed at random."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

from lading.core.errors import NotFound
from tests.system.chaos.load import Load, killer, marks, persist, rage, supervisors, watch
from tests.system.chaos.sites import left_behind, loaded, settle
from tests.system.cluster import Cluster, processes_naming, running_cluster
from tests.system.soak.mix import PROGRAMS, Kind, Mix, expect, kind_of, mark_of
from tests.system.soak.samples import Sample, Sampler
from tests.system.soak.verdict import RESTLESS

VCPUS: Final = 6
_CONFIG: Final = (
    f"Local: {{VCPUs: {VCPUS}, RAM: 2GiB}}\nContainers: {{StopGracePeriod: 1s}}\n"
    # The pages of the database fill 64 MiB for each of two connections within half an hour of
    # load. That growth has a bound, and would hide another.
    "SQLite: {CacheSize: 4MiB}\n"
)
_SLOW_STRIKES: Final = 24
"""Times that a process of long life is killed in a run, whatever its length."""
_FAST_PERIOD: Final = 7.0
_LOOK_PERIOD: Final = 15.0
_WATCH_PERIOD: Final = 0.2
_END: Final = 600.0
"""Seconds after the last submission within which every request must be Final."""
_CANCEL_WITHIN: Final = 2.0
_FINAL: Final = ("Complete", "Cancelled")
_KILLED: Final = 137
"""The exit code of a command that SIGKILL ended: 128 + 9."""
_BATCH: Final = 50
_TRIES: Final = 120
"""Attempts for one sample, a second apart: a killed server is back within some seconds."""
_LIVE_TOKENS: Final = (
    "SELECT count(*) FROM api_client_authorizations"
    " WHERE expires_at IS NULL OR expires_at > strftime('%Y-%m-%dT%H:%M:%S', 'now')"
)
_OPEN: Final = (
    "SELECT uuid || ' ' || state FROM containers WHERE state NOT IN ('Complete', 'Cancelled')"
    " UNION ALL SELECT uuid || ' ' || state FROM container_requests WHERE state = 'Committed'"
)


@dataclass(kw_only=True)
class Soaked:
    """The result of a run: faults (none is good), samples, and counts of what was done."""

    faults: list[str]
    samples: list[Sample]
    strikes: Counter[str]
    requests: Counter[str]
    looks: Counter[str]
    reused: int
    retried: int
    seconds: float


@dataclass
class Soak:
    """One run on one cluster."""

    cluster: Cluster
    load: Load
    mix: Mix
    chance: Random
    rate: float
    seconds: float
    strikes: Counter[str] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    doubles: list[str] = field(default_factory=list)
    starts: dict[str, set[int]] = field(default_factory=dict)
    latest: dict[Kind, tuple[str, int]] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        """The directory of run directories."""
        return self.cluster.data / "run"

    async def submit(self) -> None:
        """Commit requests at the rate, until the time is over; wait for the last cancellation."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as cancelling:
            number = 0
            while (spent := time.monotonic() - began) < self.seconds:
                if number > spent * self.rate:
                    await asyncio.sleep(number / self.rate - spent)
                uuid, kind = await self.load.commit(number), self.mix.kind(number)
                self.latest[kind] = (uuid, number)
                if kind is Kind.CANCELLED:
                    cancelling.create_task(self._cancel(uuid))
                number += 1

    async def _cancel(self, uuid: str) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, _CANCEL_WITHIN))

        async def cancel() -> None:
            await self.load.once.action("container_requests", uuid, "cancel")

        await persist(cancel)

    def destroyers(self) -> Iterable[asyncio.Task[None]]:
        """Tasks that kill processes for ever: those of long life seldom, those of one container
        often.
        """
        slow: dict[str, Callable[[], Sequence[int]]] = {
            role: lambda role=role: self.cluster.pids(role)  # type: ignore[misc]
            for role in ("server", "dispatcher", "warm-parent")
        }
        fast: dict[str, Callable[[], Sequence[int]]] = {
            "supervisor": lambda: [
                pid for pids in supervisors([self.runs]).values() for pid in pids
            ],
            "command": lambda: [pid for pids in marks().values() for pid in pids],
            "crun": lambda: processes_naming(f"{self.cluster.data}/", "--bundle"),
        }
        seldom = self.seconds * RESTLESS / _SLOW_STRIKES
        for victims, period in ((slow, seldom), (fast, _FAST_PERIOD)):
            killers = {name: killer(pids, self.chance) for name, pids in victims.items()}
            strikes = rage(killers, self.chance, period=period, done=self.strikes)
            yield asyncio.create_task(self._restless(strikes) if victims is slow else strikes)

    async def _restless(self, strikes: Coroutine[None, None, None]) -> None:
        """Kill in the first part of the run, then wait for its end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(strikes, self.seconds * RESTLESS)
        await asyncio.Event().wait()

    async def look(self, arguments: Sequence[str], kind: Kind) -> None:
        """For ever run a command of `lading` about the latest request of a kind.

        A command may fail while a process that it needs is dead. One that succeeds must print the
        request's number.
        """
        verb = arguments[0]
        while True:
            await asyncio.sleep(self.chance.uniform(0.5, 1.5) * _LOOK_PERIOD)
            if kind not in self.latest:
                continue
            uuid, number = self.latest[kind]
            command = [uuid if word == "UUID" else word for word in arguments]
            done = await asyncio.to_thread(self.cluster.lading, *command, check=False)
            if done.returncode == 0 and str(number) not in done.stdout.split():
                self.faults.append(
                    f"lading {' '.join(command)}: printed {done.stdout!r}, not {number}"
                )
            self.looks[f"{verb} {'done' if done.returncode == 0 else 'refused'}"] += 1

    async def finish(self) -> list[dict[str, Any]]:
        """All requests, those that containers submitted too, once they are Final."""
        try:
            async with asyncio.timeout(_END):
                await self.load.wait_final()
        except TimeoutError:
            self.faults.append(f"requests were not Final {_END:.0f} s after the last was submitted")
        rows: list[dict[str, Any]] = await persist(self.load.requests)
        children: list[dict[str, Any]] = await persist(self._children)
        return rows + children

    async def _children(self) -> list[dict[str, Any]]:
        found, last = list[dict[str, Any]](), ""
        while page := await self.load.client.list(
            "container_requests",
            filters=[["name", "like", f"soak % {Kind.CHILD}"], ["uuid", ">", last]],
            order=["uuid asc"], limit=500,
        ):  # fmt: skip
            found, last = [*found, *page], page[-1]["uuid"]
        return found

    async def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Each request ended as its kind does; each container went through its states once, its
        command ran once.
        """
        self.faults += await self.load.check([dict(row) for row in rows], self.doubles)
        wanted = {
            uuid
            for row in rows
            for uuid in (row["container_uuid"], *row["attempted_container_uuids"])
        }
        containers = {one["uuid"]: one for one in await self.load.containers(wanted)}
        moves = await self._moves(sorted(containers))
        ran = Counter[str]()
        for uuid, states in moves.items():
            ran[mark_of(containers[uuid])] += states.count("Running")
            if (
                states.count("Running") > 1
                or sum(states.count(one) for one in _FINAL) != 1
                or states[-1] not in _FINAL
            ):
                self.faults.append(f"{uuid}: went through {', '.join(states)}")
        for mark, pids in self.starts.items():
            if len(pids) > ran[mark]:
                self.faults.append(
                    f"command {mark}: started {len(pids)} times, "
                    f"{ran[mark]} containers were Running"
                )
        for row in rows:
            container = containers.get(row["container_uuid"], {})
            if container.get("state") == "Complete":
                # A command may be killed in its first moment, before it says anything.
                least = 0 if container["exit_code"] == _KILLED else 1
                self.faults += await self._said_once(row, least)

    async def _moves(self, uuids: Sequence[str]) -> dict[str, list[str]]:
        """The states of containers in their order, from the log of events."""
        found: dict[str, list[str]] = {uuid: [] for uuid in uuids}
        for at in range(0, len(uuids), _BATCH):
            events = await self.load.client.list(
                "logs", filters=[["object_uuid", "in", uuids[at : at + _BATCH]]], order=["id asc"],
                limit=1000, select=["object_uuid", "properties", "id"],
            )  # fmt: skip
            for event in events:
                if state := (event["properties"].get("new_attributes") or {}).get("state"):
                    found[event["object_uuid"]].append(state)
        return {uuid: [state for state, _ in groupby(states)] for uuid, states in found.items()}

    async def _said_once(self, row: Mapping[str, Any], least: int) -> list[str]:
        number = row["name"].split()[1]
        path = f"container_requests/{row['uuid']}/log/{row['container_uuid']}/stdout.txt"
        try:
            text = (await self.load.client.raw("GET", path)).body.decode()
        except NotFound:
            text = ""
        begun = sum(line.endswith(f" begin {number}") for line in text.splitlines())
        if least <= begun <= 1:
            return []
        return [f"{row['uuid']}: its log says {begun} times that it began"]


async def soak(
    root: Path,
    *,
    minutes: float,
    rate: float,
    every: float,
    seed: int,
    show: Callable[[Sample], None],
) -> Soaked:
    """Run the load for `minutes` at `rate` requests a second; then see what is left.

    `show` is called with a sample of the cluster, `every` seconds.
    """
    began, temporary = time.monotonic(), root / "tmp"
    temporary.mkdir()
    faults, samples, rows = list[str](), list[Sample](), list[dict[str, Any]]()
    with (
        _asserting(faults),
        running_cluster(root / "data", _CONFIG, {"TMPDIR": str(temporary)}) as cluster,
    ):
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *PROGRAMS)
        tokens = _ask(cluster.data, _LIVE_TOKENS)
        mix = Mix(Random(seed))
        async with loaded(cluster, 0, pause=0.0, make=mix.make, expect=expect) as load:
            run = Soak(cluster, load, mix, Random(seed), rate, minutes * 60, faults=faults)
            sampler = Sampler(cluster, temporary, _cluster_id(cluster), began)
            async with _sampling(sampler, every, samples, show), _around(run):
                await run.submit()
            # Not sampled: to read all records again is no steady load.
            rows = await run.finish()
            await run.check(rows)
            await settle([run.runs])
            faults += await left_behind([run.runs], root)
            faults += [f"not ended: {one}" for (one,) in _ask(cluster.data, _OPEN)]
            if (now := _ask(cluster.data, _LIVE_TOKENS)) != tokens:
                faults.append(f"tokens that still serve: {now[0][0]}, before {tokens[0][0]}")
        if (code := cluster.stop()) != 0:
            faults.append(f"lading up ended with exit code {code}")
    for verb in {name.split()[0] for name in run.looks}:
        if not run.looks[f"{verb} done"]:
            faults.append(f"lading {verb} never succeeded")
    faults += [f"left in the temporary directory: {path.name}" for path in temporary.iterdir()]
    attempts = {one for row in rows for one in row["attempted_container_uuids"]}
    reusing = [row["container_uuid"] for row in rows if kind_of(row) is Kind.REUSED]
    return Soaked(
        faults=faults,
        samples=samples,
        strikes=run.strikes,
        looks=run.looks,
        requests=Counter(str(kind_of(row)) for row in rows),
        reused=len(reusing) - len(set(reusing)),
        retried=len(attempts),
        seconds=time.monotonic() - began,
    )


@contextmanager
def _asserting(faults: list[str]) -> Iterator[None]:
    """Turn what a cluster left behind into faults."""
    try:
        yield
    except AssertionError as error:
        faults.append(f"left behind: {error}")


def _cluster_id(cluster: Cluster) -> str:
    return str(json.loads((cluster.data / "secrets.json").read_text())["cluster_id"])


@asynccontextmanager
async def _around(run: Soak) -> AsyncIterator[None]:
    """Watch, kill and look while the load goes on."""
    tasks = [
        asyncio.create_task(
            watch(run.doubles, [run.runs], starts=run.starts, period=_WATCH_PERIOD)
        ),
        asyncio.create_task(
            run.look(["shell", "--wait", "UUID", "--", "cat", "/out/number"], Kind.LONG)
        ),
        asyncio.create_task(run.look(["request", "logs", "-f", "UUID"], Kind.PLAIN)),
        *run.destroyers(),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if not isinstance(one, asyncio.CancelledError):
            raise RuntimeError(f"a task of the soak ended early: {one!r}")


@asynccontextmanager
async def _sampling(
    sampler: Sampler, every: float, samples: list[Sample], show: Callable[[Sample], None]
) -> AsyncIterator[None]:
    """Sample until the end."""

    async def take() -> None:
        while True:
            # Without a sample for minutes a soak shows nothing, so it ends.
            for left in reversed(range(_TRIES)):
                try:
                    taken = await asyncio.to_thread(sampler.take, time.monotonic())
                    break
                except (OSError, sqlite3.Error):
                    # A process, a mount or a cgroup ended while it was looked at, or the server was
                    # just killed: SQLite opens its database for reading once it was recovered.
                    if not left:
                        raise
                    await asyncio.sleep(1.0)
            samples.append(taken)
            show(taken)
            await asyncio.sleep(every)

    # What ends the sampling ends the soak, with the reason.
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(take(), name="samples")
        yield
        task.cancel()


def _ask(data: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(
        sqlite3.connect(f"file:{data}/db.sqlite?mode=ro", uri=True, timeout=30)
    ) as database:
        return database.execute(sql).fetchall()
