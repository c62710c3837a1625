"""A machine: its run directories, supervisors, and the commands of users that they started.

A host may also be taken for dead while it lives, as when Slurm loses sight of a node and gives its jobs to another one
(`lose`): then a supervisor is left that nobody knows of.

A supervisor goes the way of the real one (`supervisor.run`): read the record, be Running, only then start the command;
be idle, save output and log, write the end, be gone. It tries again while the server cannot be reached. When it is
killed, the command goes on until the host is told to clear away (`clean`), and the run directory stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lading.core.container import Container, State
from lading.core.errors import Conflict, LadingError
from lading.dispatch.fleet import Process
from lading.testing.simulation.server import Server
from lading.testing.simulation.traffic import Traffic

PAUSE = 2.0
LONGEST = 400.0
"""Seconds for which a supervisor tries to reach the server."""
_LOSSES = frozenset({401, 403, 404, 422})


@dataclass(slots=True, eq=False)
class Command:
    """The command of a user: `done` when it ran to its end."""

    uuid: str
    lock: int
    token: str
    done: bool = False


@dataclass(slots=True, eq=False)
class Supervisor:
    """One process."""

    uuid: str
    token: str
    alive: bool = True
    task: asyncio.Task[None] | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    command: Command | None = None
    gave_back: bool = False
    idle: bool = False


@dataclass
class Host:
    """The machine. `begin` is told of each command before it starts, `ended` of each that is over or killed."""

    name: str
    server: Server
    traffic: Traffic
    random: Random
    clock: Callable[[], float]
    begin: Callable[[Host, Command], None]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    runs: dict[str, Supervisor] = field(default_factory=dict)
    """By container: whoever has the run directory, alive or dead."""
    ghosts: list[Supervisor] = field(default_factory=list)
    """Alive, and taken for gone."""
    watchers: list[Callable[[], None]] = field(default_factory=list)
    version: int = 0
    """Grows with each change of what `list` says."""
    moments: int = 0
    """How many supervisors have been about to start their command."""

    def start(self, uuid: str, token: str) -> int:
        """Make a supervisor; the version with it. Raises Conflict when there is a run directory."""
        if uuid in self.runs:
            raise Conflict(f"{uuid}: an earlier supervisor is still there")
        one = self.runs[uuid] = Supervisor(uuid, token)
        one.task = self.spawn(self._supervise(one))
        one.task.add_done_callback(_surface)
        self._changed()
        return self.version

    def signal(self, uuid: str, *, kill: bool) -> None:
        """TERM, or KILL, to a supervisor that is alive."""
        one = self.runs.get(uuid)
        if one is not None and one.alive:
            if kill:
                self.kill(uuid)
            else:
                one.stop.set()

    def kill(self, uuid: str) -> None:
        """The supervisor dies at once; its command does not notice."""
        one = self.runs[uuid]
        if one.alive:
            one.alive = False
            if one.task is not None:
                one.task.cancel()
            self._changed()

    def clean(self, uuid: str) -> int:
        """Clear away what a dead supervisor left; the version without it. Raises Conflict when it is alive."""
        one = self.runs.get(uuid)
        if one is not None and one.alive:
            raise Conflict(f"{uuid}: its supervisor is alive")
        if self.runs.pop(uuid, None) is not None:
            self._changed()
        return self.version

    def lose(self, uuid: str) -> None:
        """A living supervisor is taken for dead and its directory for cleared away."""
        self.ghosts.append(self.runs.pop(uuid))
        self._changed()

    def crash(self) -> None:
        """The power fails: no process is left, but the directories are."""
        for uuid, one in self.runs.items():
            self.kill(uuid)
            one.command = None
        for one in self.ghosts:
            one.alive, one.command = False, None
            if one.task is not None:
                one.task.cancel()
        self.ghosts.clear()

    def runs_command(self, uuid: str) -> bool:
        """Whether a command of this container lives here."""
        return any(one.uuid == uuid and one.command is not None for one in (*self.runs.values(), *self.ghosts))

    def list(self) -> dict[str, Process]:
        """Containers with a run directory, and how their supervisors are."""
        return {
            uuid: Process(self.name, alive=one.alive, idle=one.alive and one.idle) for uuid, one in self.runs.items()
        }

    def _changed(self) -> None:
        self.version += 1
        for watcher in self.watchers:
            watcher()

    async def _supervise(self, one: Supervisor) -> None:
        try:
            await self._live(one)
        except LadingError:
            # It says nothing more: it lost the container, or could not reach the server for too long.
            pass
        finally:
            if one.alive:
                # A supervisor that ends by itself has ended its command and removes its run directory last.
                one.alive, one.command = False, None
                if one in self.ghosts:
                    self.ghosts.remove(one)
                else:
                    del self.runs[one.uuid]
                    self._changed()

    async def _live(self, one: Supervisor) -> None:
        record = await self._ask(one, "read", lambda: self.server.read(one.uuid, one.token))
        if record.state is not State.LOCKED:
            return
        await self._or_stop(one, self.random.choice((0.0, 0.1, 30.0, 200.0)))
        if one.stop.is_set():
            one.gave_back = True
            await self._report(one, {"state": State.QUEUED})
            return
        # As the real one: the moment that each gives tells two with one token apart.
        self.moments += 1
        started = f"2026-01-02T03:04:05.{self.moments:06d}00{self.name[1:]}Z"
        await self._report(one, {"state": State.RUNNING, "started_at": started})
        command = Command(one.uuid, record.lock_count, one.token)
        self.begin(self, command)
        one.command = command
        await self._or_stop(one, self.random.choice((0.0, 1.0, 5.0, 60.0)))
        one.command = None
        command.done = not one.stop.is_set()
        one.idle = True
        self._changed()
        end: dict[str, object] = {"state": State.CANCELLED, "log": _name("log", record)}
        await self._ask(one, "save log", lambda: self.server.save(one.uuid, one.token, _name("log", record)))
        if command.done:
            await self._ask(one, "save output", lambda: self.server.save(one.uuid, one.token, _name("out", record)))
            end |= {"state": State.COMPLETE, "exit_code": 0, "output": _name("out", record)}
        await self._report(one, end)

    async def _or_stop(self, one: Supervisor, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await one.stop.wait()
        except TimeoutError:
            return

    async def _report(self, one: Supervisor, changes: dict[str, Any]) -> None:
        await self._ask(one, f"{changes['state']}", lambda: self.server.report(one.uuid, one.token, dict(changes)))

    async def _ask(self, one: Supervisor, what: str, act: Callable[[], Any]) -> Any:
        until = self.clock() + LONGEST
        while True:
            try:
                return await self.traffic.exchange(f"api {self.name} {one.uuid[-3:]} {what}", act)
            except LadingError as error:
                if error.status in _LOSSES or self.clock() > until:
                    raise
            await asyncio.sleep(PAUSE * (0.5 + self.random.random()))


def _name(kind: str, record: Container) -> str:
    """A portable data hash that tells what it is of."""
    return f"{int(record.uuid[-12:]):016x}{record.lock_count:015x}{0 if kind == 'log' else 1}+{10}"


def _surface(task: asyncio.Task[None]) -> None:
    """A fault of this model must not go unnoticed."""
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler({"message": "a supervisor failed", "exception": task.exception()})
