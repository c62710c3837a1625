"""`python -m lading.hpc.conductor PLAN`: runs a command in a cluster of containers that it creates.

    network     a namespace with a bridge; it ends with the last process in it
    containers  N of them, each with sshd and the daemon; the supervisor owns their cgroup and ends
                them
    configured  rank, size, addresses, ssh keys: all daemons respond, or nothing is started
    started     rank 0, or all
    over        the others are ended, in any case; their output, also from other machines, is in
                the spool

The output directory belongs to the containers: only the supervisor writes there, after all of them
have ended.

Standard input is a gate: no user code starts before a line arrives on it. Standard output and error
have the output of rank 0, or of all, marked with their rank. The exit code is the gang's
(`core.hpc.gang`); 75 when nothing could be run, with the reason in the plan's `fault` file. Source:
docs/spec/hpc-daemon, section Clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from lading.core.errors import ExecutionError, Failure, LadingError, Unavailable
from lading.core.hpc import addresses, gang
from lading.core.hpc.addresses import SshdAddress
from lading.core.hpc.daemon_configuration import MOST_KILL_GRACE
from lading.core.hpc.daemon_states import ENDED, ChildPolicy, CodeStatus, ResultStatus
from lading.core.hpc.gang import GangResult, Launcher, RankView
from lading.hpc import network, processes
from lading.hpc.daemon_client import DaemonClient
from lading.hpc.plan import ClusterPlan, SshKeys, make_identity, make_ssh_keys, read_plan
from lading.hpc.ranks import DockerGround, Ground, NativeGround, no_daemon
from lading.hpc.remote_ranks import SpreadGround, own_address, spool_room
from lading.hpc.remote_ranks import serve as serve_remote_rank
from lading.net import rpc
from lading.process.concurrency import finish_within, together, wait_at_most

# EX_TEMPFAIL of sysexits.h: the cluster could not be made, and may be tried again.
COULD_NOT = 75
# Seconds until all daemons must answer.
_READY_TIME = 60.0
# Seconds until the first of them must, and for each rank: the ranks may share few processors.
_FIRST_TIME, _FIRST_TIME_RANK = 15.0, 0.5
# Seconds between two looks at a first process.
_LOOK_TIME = 0.5
# Seconds for gathering outputs at the end.
_GATHER_TIME = 60.0
# Seconds in which ranks that MPI has started may end by themselves after the command.
_LEAVE_TIME = 3.0
# Seconds between two looks at the ranks.
PERIOD = 0.25
FOLLOW_TIME = 10.0
"""Seconds between two looks at a rank, and for which it may wait with its answer until there is
something new.
"""
# Names that a shell accepts for variables.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STREAMS = ("stdout", "stderr")
# More processes than processors are the rule on one machine, and busy waiting would starve a
# process that is waited for.
_MPI = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


@dataclass(slots=True)
class RankMember:
    """One rank: its client, its last report with the time, and the amount of output passed on."""

    caller: DaemonClient
    view: RankView
    heard: float = 0.0
    shown: str = ""
    state_tag: str = ""
    read: dict[str, int] = field(default_factory=dict)


class Conductor:
    """Runs one plan. `write` gets the bytes for standard output and error, by name; `say` a line
    about the ranks. All daemons must answer within `ready_time` seconds.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        *,
        ground: Ground,
        write: Callable[[str, bytes], None],
        say: Callable[[str], None],
        ready_time: float = _READY_TIME,
        first_time: float = _FIRST_TIME,
        look_time: float = _LOOK_TIME,
    ) -> None:
        self._plan, self._write, self._say = plan, write, say
        self._ready_time, self._first_time, self._look_time = ready_time, first_time, look_time
        self._ground = ground
        self._members: list[RankMember] = []
        self._full: set[Path] = set()
        self._time = asyncio.get_running_loop().time
        self.stop = asyncio.Event()

    async def run(self, gate: Callable[[], bool]) -> int:
        """The gang's exit code. `gate` blocks, and returns whether to continue. Raises
        ExecutionError: nothing was run.
        """
        await self._make()
        await self._wait_for_daemons()
        await self._configure()
        # Read in a thread: the gate is a pipe, and signals must be handled meanwhile.
        if not await asyncio.to_thread(gate):
            return COULD_NOT
        await self._start()
        try:
            verdict = await self._follow()
            await self._end(well=not verdict.sentence)
        finally:
            for member in self._members:
                member.caller.close()
        if verdict.sentence:
            self._say(verdict.sentence)
            self._write("stderr", f"lading: {verdict.sentence}\n".encode())
        return verdict.exit_code

    async def _make(self) -> None:
        plan, now = self._plan, datetime.now(UTC)
        ground = self._ground
        await ground.open()
        identities = [
            make_identity(f"container_{number}", now=now) for number in range(len(plan.bundles))
        ]
        environment = dict(plan.environment)
        async with asyncio.TaskGroup() as group:
            starting = [
                group.create_task(ground.start(number, identity, environment))
                for number, identity in enumerate(identities)
            ]
        for number, (identity, task) in enumerate(zip(identities, starting, strict=True)):
            view = RankView(rank=number, started=number == 0 or plan.launcher is Launcher.ALL)
            self._members.append(RankMember(DaemonClient(task.result(), identity), view))
        self._say(f"{len(self._members)} containers started")

    async def _wait_for_daemons(self) -> None:
        has_answered = asyncio.Event()

        async def answers(member: RankMember) -> None:
            looked = self._time()
            while True:
                try:
                    await member.caller.ask("/v1/heartbeat")
                except Unavailable:
                    # The daemon refuses connections until its interpreter has started.
                    await asyncio.sleep(0.05)
                    if self._time() - looked > self._look_time:
                        looked = self._time()
                        await self._check_first_process(member.view.rank)
                else:
                    has_answered.set()
                    return

        async def expect_one() -> None:
            limit = self._first_time + _FIRST_TIME_RANK * len(self._members)
            try:
                await finish_within(has_answered.wait(), limit)
            except TimeoutError:
                raise no_daemon(f"no rank has one that answers within {limit:.0f} s") from None

        try:
            async with asyncio.timeout(self._ready_time):
                await together(expect_one(), *map(answers, self._members))
        except TimeoutError:
            raise ExecutionError(
                f"the daemons did not all answer within {self._ready_time:.0f} s; "
                "was the image made by `lading image hpc`?"
            ) from None

    async def _check_first_process(self, rank: int) -> None:
        """Raise ExecutionError(IMAGE) if the first process of a rank has ended."""
        if words := await self._ground.ended(rank):
            raise no_daemon(f"the first process of rank {rank} ended before: {words}")

    async def _configure(self) -> None:
        keys = make_ssh_keys()
        async with asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._configure_one(member, keys))
        self._say("all ranks are configured")

    async def _configure_one(self, member: RankMember, keys: SshKeys) -> None:
        plan, number = self._plan, member.view.rank
        size = len(self._members)
        variables = {name: value for name, value in plan.environment if _is_variable(name, value)}
        await member.caller.tell(
            "/v1/code-configuration", {"codeParameters": {**_MPI, **variables}}
        )
        for name, path in plan.files.items():
            await member.caller.put_file(name, Path(path))
        settings: dict[str, object] = {
            "worldRank": number,
            "worldSize": size,
            "sshAddresses": {
                str(rank): str(SshdAddress(peer.caller.host))
                for rank, peer in enumerate(self._members)
            },
            "sshPrivateKey": keys.private,
            "sshPublicKey": keys.public,
            "slots": plan.slots,
            "killGrace": min(math.ceil(plan.stop_grace), MOST_KILL_GRACE),
            "childFailurePolicy": ChildPolicy.DIRECT,
            "resultsDirectory": f"{plan.output_path}/ranks/{number}/results",
        }
        if member.view.started:
            command = gang.command_line(plan.launcher, plan.command, ranks=size * plan.slots)
            settings["codeName"] = "/bin/sh"
            # The daemon starts the code in the home directory (docs/spec/hpc-daemon, section
            # Processes).
            settings["codeArguments"] = ["-c", 'cd "$0" && exec "$@"', plan.cwd, *command]
        await member.caller.tell("/v1/daemon-configuration", {"daemonParameters": settings})

    async def _start(self) -> None:
        for member in self._members:
            if member.view.started:
                await member.caller.command("start")

    async def _follow(self) -> GangResult:
        async with asyncio.TaskGroup() as group:
            watching = []
            for member in self._members:
                # Silence is counted from here on.
                member.heard = self._time()
                watching.append(group.create_task(self._watch(member)))
            verdict = await self._judge()
            for task in watching:
                task.cancel()
        if self.stop.is_set():
            # After a stop at once the states of the ranks to be ended are not known yet.
            await self._look()
        return verdict

    async def _judge(self) -> GangResult:
        while True:
            self._show()
            verdict = gang.judge([member.view for member in self._members], self._plan.policy)
            if verdict is not None:
                return verdict
            if self.stop.is_set():
                return GangResult(128 + signal.SIGTERM, "told to stop")
            # Sleeps one period, or until told to stop.
            await wait_at_most(self.stop, PERIOD)

    async def _watch(self, member: RankMember) -> None:
        while True:
            await self._look_at(member, wait=FOLLOW_TIME)
            await asyncio.sleep(PERIOD)

    async def _look(self) -> None:
        async with asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._look_at(member))
        self._show()

    def _show(self) -> None:
        for member in self._members:
            line = gang.status_line(member.view)
            # Each state is reported once, although it is checked in each period.
            if line != member.shown:
                member.shown = line
                self._say(line)

    async def _look_at(self, member: RankMember, *, wait: float = 0.0) -> None:
        try:
            # A rank that hangs must not delay the reports of the others for long.
            async with asyncio.timeout(wait + gang.PATIENCE / 4):
                member.state_tag, state = await member.caller.follow(member.state_tag, wait=wait)
                member.heard = self._time()
                member.view = structs.replace(
                    member.view,
                    code=CodeStatus(state["codeStatus"]),
                    result=ResultStatus(state["resultStatus"]),
                    percent=state["percentComplete"],
                    exit_code=state["codeExitStatus"],
                    reason=state["reason"],
                    silent=0.0,
                )
                if member.view.started:
                    await self._pass_on(member, state["logs"])
        except (Unavailable, TimeoutError):
            member.view = structs.replace(member.view, silent=self._time() - member.heard)

    async def _pass_on(self, member: RankMember, sizes: dict[str, int]) -> None:
        read = member.read
        for name in _STREAMS:
            # The daemon gives a part of a long log at a time.
            while read.get(name, 0) < sizes[name]:
                data = await member.caller.log(name, read.get(name, 0))
                if not data:
                    break
                if self._plan.launcher is Launcher.ALL and member.view.code not in ENDED:
                    # Whole lines, so that lines of different ranks do not mix.
                    data = data[: data.rfind(b"\n") + 1]
                    if not data:
                        break
                read[name] = read.get(name, 0) + len(data)
                self._keep(member, name, data)

    def _keep(self, member: RankMember, name: str, data: bytes) -> None:
        if self._plan.launcher is not Launcher.ALL:
            self._write(name, data)
            return
        number = member.view.rank
        self._spool(number, name, data)
        mark = f"[{number}] ".encode()
        lines = data.removesuffix(b"\n").split(b"\n")
        self._write(name, b"".join(mark + line + b"\n" for line in lines))

    def _spool(self, rank: int, name: str, data: bytes) -> None:
        """Store results of the ranks as files in the spool, as long as the disk has room."""
        target = Path(self._plan.spool, f"{rank}.{name}")
        # Noted once for each file: the log in the daemon's container still has all of it.
        if target in self._full:
            return
        if spool_room(target.parent) < len(data):
            self._full.add(target)
            data = b"lading: the disk is full: the rest is in the container's log only\n"
            self._say(f"rank {rank}: the rest of its {name} is in the log only: the disk is full")
        with target.open("ab") as file:
            file.write(data)

    async def _leave(self) -> None:
        """Wait for the ranks that MPI started: MPI ends its processes after the command."""
        # The rest is ended afterwards.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_TIME):
                while any(
                    member.view.code is CodeStatus.RUNNING and not member.view.started
                    for member in self._members
                ):
                    await asyncio.sleep(PERIOD)
                    await self._look()

    async def _end(self, *, well: bool) -> None:
        """End the running ranks, and wait for the results of all that answer."""
        if well:
            await self._leave()

        async def tell(member: RankMember, word: str) -> None:
            # Its container is gone.
            with contextlib.suppress(Unavailable):
                await member.caller.command(word, grace=self._plan.stop_grace)

        async with asyncio.TaskGroup() as group:
            for member in self._members:
                if member.view.code is CodeStatus.RUNNING and not member.view.is_lost:
                    group.create_task(tell(member, "kill"))
                elif member.view.code is CodeStatus.WAITING and not member.view.is_lost:
                    # Code that another rank started there may have ended unnoticed.
                    group.create_task(tell(member, "upload"))
        # Results that come too late are left out.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_TIME):
                await self._look()
                while not gang.are_delivered([member.view for member in self._members]):
                    await asyncio.sleep(PERIOD)
                    await self._look()
        for sentence in await self._ground.gather():
            self._say(sentence)


def _ground(plan: ClusterPlan, wires: tuple[network.Wire, ...]) -> Ground:
    if plan.docker is not None:
        docker = plan.docker
        options = docker.get("options", {})
        return DockerGround(
            plan.name, docker["socket"], docker["config"], enter=docker["enter"], options=options
        )
    native = NativeGround(plan.name, plan.bundles, plan.crun, spread=bool(wires))
    if not wires:
        return native
    pipes = tuple(rpc.LinePipe(*ends) for ends in plan.pipes)
    return SpreadGround(native, wires, pipes, Path(plan.spool))


def _is_variable(name: str, value: str) -> bool:
    # Names that no shell can export, and values with line feeds, would spoil the files of the
    # daemon.
    return _NAME.fullmatch(name) is not None and not any(char in value for char in "\0\n\r")


async def conduct(plan: ClusterPlan, wires: tuple[network.Wire, ...] = ()) -> int:
    """Run the plan on this process's streams."""
    streams = {"stdout": 1, "stderr": 2}

    def write(name: str, data: bytes) -> None:
        # The supervisor reads no more.
        with contextlib.suppress(BrokenPipeError):
            rpc.write_all(streams[name], data)

    def say(line: str) -> None:
        # The supervisor reads no more.
        with contextlib.suppress(BrokenPipeError):
            os.write(plan.notices, f"{line}\n".encode())

    conductor = Conductor(plan, ground=_ground(plan, wires), write=write, say=say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, conductor.stop.set)
    return await conductor.run(lambda: bool(os.read(0, 1)))


def main(path: str) -> int:
    """The program; its exit code."""
    plan = read_plan(Path(path))
    # Without the supervisor nothing would end the ranks, or save their output.
    processes.end_with_parent()
    try:
        arguments = _place(plan.annex)
        wires: tuple[network.Wire, ...] = ()
        if plan.wire:
            # The agents report later by which address they reach this machine.
            version = arguments and addresses.ip_version(arguments["leader"])
            wires = (
                (network.make_wire(plan.wire, version),)
                if version
                else network.make_wires(plan.wire)
            )
        if plan.docker is None:
            network.leave_network()
        for wire in wires:
            network.take_wire(wire)
        if arguments:
            return asyncio.run(serve_remote_rank(plan, wires[0], **arguments))
        return asyncio.run(conduct(plan, wires))
    except* (LadingError, OSError, subprocess.SubprocessError) as group:
        first = _first(group)
        fault = (
            first.message
            if isinstance(first, LadingError)
            else f"the cluster cannot be made: {first}"
        )
        failure = first.failure if isinstance(first, ExecutionError) else Failure.INFRASTRUCTURE
        Path(plan.fault).write_text(json.dumps({"fault": fault, "failure": failure}))
    return COULD_NOT


def _place(annex: Mapping[str, Any] | None) -> dict[str, Any]:
    """Rank and machines of a remote rank; empty without one. Raises Invalid, OSError."""
    if annex is None:
        return {}
    leader = addresses.machine_address(annex["leader"])
    return {**annex, "leader": leader, "address": own_address(leader)}


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
