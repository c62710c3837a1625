"""Where chaos is let loose: two local dispatchers on one server, and a real Slurm."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY, RetryPolicy
from lading.client.transport import HttpTransport
from tests.system.chaos.load import KILLED, Load, killer, marks, rage, supervisors, watch
from tests.system.cluster import LADING, Cluster, is_alive, left_processes, running_cluster
from tests.system.slurm_cluster import SlurmCluster, running_slurm

_PATIENCE = RetryPolicy(attempts=4)
_LOCAL = "Local: {{VCPUs: {vcpus}, RAM: 2GiB}}\nContainers: {{StopGracePeriod: 1s}}\n"
_SLURM = """
Containers:
  Dispatcher: slurm
  ReserveExtraRAM: 0
  StopGracePeriod: 1s
  SLURM: {{PollPeriod: 500ms, NodeDirectory: {node}, HookDirectory: {hooks}, MaxJobArraySize: 50}}
"""


_REST = 30.0
"""Seconds that slurmctld lives at least: jobs whose end it has forgotten it gives up only after ten
of them.
"""


@dataclass(kw_only=True)
class Outcome:
    """What came of it: faults (none is good), how often what was struck, and how long it took."""

    faults: list[str]
    strikes: Counter[str]
    seconds: float


@dataclass
class Guest:
    """A dispatcher of its own process that joins a server, started again whenever it has been
    killed.
    """

    join: Path
    data: Path
    config: Path
    process: subprocess.Popen[bytes] | None = None
    around: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it; it is not waited for."""
        command = [
            LADING,
            "dispatch",
            "--join",
            str(self.join),
            "--data",
            str(self.data),
            "--config",
            str(self.config),
        ]
        with (self.data.parent / f"{self.data.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | dict(self.around)
            )

    async def keep(self) -> None:
        """Start it again for ever."""
        while True:
            if self.process is None or self.process.poll() is not None:
                self.start()
            await asyncio.sleep(0.1)

    def pids(self) -> list[int]:
        """Its process."""
        return (
            [self.process.pid] if self.process is not None and self.process.poll() is None else []
        )

    def parents(self) -> list[int]:
        """Its forkserver."""
        return [pid for pid in _descendants(self.pids()) if "forkserver" in _line(pid)]

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)


@asynccontextmanager
async def loaded(cluster: Cluster, count: int, *, pause: float, **more: Any) -> AsyncIterator[Load]:
    """A load for this cluster."""
    token = cluster.environment["ARVADOS_API_TOKEN"]
    transport = HttpTransport(unix_socket=cluster.data / "api.sock")
    try:
        client = ApiClient(transport, token, retry=_PATIENCE)
        once = ApiClient(transport, token, retry=NO_RETRY)
        yield Load(
            client=client,
            once=once,
            blocks=BlockClient(transport, token),
            count=count,
            pause=pause,
            **more,
        )
    finally:
        await transport.close()


async def two_dispatchers(
    root: Path,
    count: int,
    *,
    seed: int,
    period: float,
    say: Callable[[str], None] = lambda _: None,
    vcpus: int = 6,
    most: int = 0,
) -> Outcome:
    """Containers on two local dispatchers while every kind of process is killed, `most` times in
    all; 0: to the end.
    """
    config = _LOCAL.format(vcpus=vcpus)
    (root / "guest.yml").write_text(config)
    with running_cluster(root / "data", config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        cluster.lading("admin", "dispatcher-token", str(root / "join"), "--data", str(cluster.data))
        guest, chance = Guest(root / "join", root / "guest", root / "guest.yml"), Random(seed)
        runs = (cluster.data / "run", guest.data / "run")
        victims: dict[str, Callable[[], Sequence[int]]] = {
            "server": lambda: cluster.pids("server"),
            "dispatcher": lambda: cluster.pids("dispatcher"),
            "guest dispatcher": guest.pids,
            "forkserver": lambda: [*cluster.pids("warm-parent"), *guest.parents()],
            "supervisor": lambda: [pid for pids in supervisors(runs).values() for pid in pids],
            "container": lambda: [pid for pids in marks().values() for pid in pids],
        }
        strikes = {name: killer(pids, chance) for name, pids in victims.items()}
        outcome = await _let_loose(
            cluster,
            count,
            strikes,
            chance,
            period=period,
            registers=runs,
            guests=[guest],
            say=say,
            most=most,
        )
        outcome.faults += await left_behind(runs, root)
    return outcome


async def through_slurm(
    root: Path, count: int, *, seed: int, period: float, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Containers through a real Slurm while its daemons are restarted, and everything else
    killed.
    """
    (root / "hooks").mkdir()
    node = root / "node"
    with running_slurm(
        root / "slurm", nodes=3, vcpus=3, ram=4000, node_timeout=5, remembered=30
    ) as slurm:
        config = _SLURM.format(node=node, hooks=root / "hooks")
        with running_cluster(root / "data", config, slurm.environment) as cluster:
            cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
            chance, registers = Random(seed), (node / "locks",)
            strikes: dict[str, Callable[[], str | None]] = {
                "server": killer(lambda: cluster.pids("server"), chance),
                "dispatcher": killer(lambda: cluster.pids("dispatcher"), chance),
                "supervisor": killer(
                    lambda: [pid for pids in supervisors(registers).values() for pid in pids],
                    chance,
                ),
                "container": killer(
                    lambda: [pid for pids in marks().values() for pid in pids], chance
                ),
                "slurmctld": _restarter(slurm, ("slurmctld",), chance, longest=2.0, rest=_REST),
                "slurmd": _restarter(slurm, slurm.nodes, chance, longest=2.0),
                "slurmd for long": _restarter(slurm, slurm.nodes, chance, longest=14.0),
                # Not a strike, but what an operator does after them.
                "drained node": lambda: "resumed" if slurm.resume() else None,
            }
            outcome = await _let_loose(
                cluster, count, strikes, chance, period=period, registers=registers, say=say
            )
            # Jobs that Slurm killed without the dispatcher's knowledge are cleared up after by the
            # next on their node.
            await asyncio.to_thread(
                cluster.lading, "run", "--image", "tools:1", "--no-reuse", "--", "sh", "-c", ":"
            )
            outcome.faults += await left_behind((node / "run",), root / "node")
            outcome.faults += [f"left in Slurm: {job}" for job in await _left_in(slurm)]
    outcome.faults += [f"left of Slurm: {pid} {_line(pid)}" for pid in slurm.left()]
    return outcome


async def _let_loose(
    cluster: Cluster,
    count: int,
    strikes: Mapping[str, Callable[[], str | None]],
    chance: Random,
    *,
    period: float,
    registers: Sequence[Path],
    guests: Sequence[Guest] = (),
    say: Callable[[str], None],
    most: int = 0,
) -> Outcome:
    began, doubles, done = time.monotonic(), list[str](), Counter[str]()
    async with loaded(cluster, count, pause=0.002, expect=lambda *_: (0, KILLED)) as load:
        tasks = [
            asyncio.create_task(watch(doubles, registers)),
            *(asyncio.create_task(guest.keep()) for guest in guests),
        ]
        raging = asyncio.create_task(rage(strikes, chance, period=period, done=done, most=most))
        await load.submit()
        rows = await load.wait_final(say)
        seconds = time.monotonic() - began
        raging.cancel()
        await asyncio.gather(raging, return_exceptions=True)
        await asyncio.to_thread(_mend, strikes)
        faults = await load.check(rows, doubles)
        await settle(registers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for guest in guests:
            guest.stop()
    return Outcome(faults=faults, strikes=done, seconds=seconds)


class _Restarter:
    """Kills one of Slurm's daemons and starts it again after a while; then lets it rest."""

    def __init__(
        self,
        slurm: SlurmCluster,
        names: Sequence[str],
        chance: Random,
        *,
        longest: float,
        rest: float,
    ) -> None:
        self._slurm, self._names, self._chance, self._longest, self._rest = (
            slurm,
            names,
            chance,
            longest,
            rest,
        )
        self._last = time.monotonic()
        self.dead = ""

    def __call__(self) -> str | None:
        if time.monotonic() - self._last < self._rest:
            return None
        self.dead = self._chance.choice(self._names)
        self._slurm.kill(self.dead)
        time.sleep(self._chance.uniform(0.0, self._longest))
        self.mend()
        return "restarted"

    def mend(self) -> None:
        """See that it runs."""
        if self.dead:
            self._slurm.start(self.dead)
            self._last = time.monotonic()
            self.dead = ""


def _restarter(
    slurm: SlurmCluster, names: Sequence[str], chance: Random, *, longest: float, rest: float = 0.0
) -> _Restarter:
    return _Restarter(slurm, names, chance, longest=longest, rest=rest)


def _mend(strikes: Mapping[str, Callable[[], str | None]]) -> None:
    for strike in strikes.values():
        if isinstance(strike, _Restarter):
            strike.mend()


async def settle(registers: Sequence[Path]) -> None:
    """Give the last supervisors time to tidy up, and dispatchers to clean up after dead ones."""
    for _ in range(300):
        if not any(list(register.glob("*-dz642-*")) for register in registers):
            return
        await asyncio.sleep(0.1)


async def left_behind(runs: Sequence[Path], root: Path) -> list[str]:
    left = [f"left in {run}: {path.name}" for run in runs for path in run.glob("*-dz642-*")]
    left += [f"left running: {line}" for line in marks()]
    for _ in range(50):
        processes = [
            line
            for line in left_processes(root)
            if "lading.wiring" not in line
            and "lading up" not in line
            and "forkserver" not in line
            and "slurm" not in line
        ]
        if not processes:
            break
        await asyncio.sleep(0.1)
    return left + [f"left running: {line[:200]}" for line in processes]


async def _left_in(slurm: SlurmCluster) -> list[str]:
    """The jobs that Slurm still has a minute after its daemons were last killed: it learns of ends
    from its nodes.
    """
    until = time.monotonic() + 60.0
    while (left := slurm.jobs()) and time.monotonic() < until:
        await asyncio.sleep(1.0)
    return left


def _descendants(pids: Sequence[int]) -> Iterator[int]:
    for pid in pids:
        with suppress(OSError):
            children = [
                int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            ]
            yield from (one for one in children if is_alive(one))


def _line(pid: int) -> str:
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""
