"""A machine with its run directories, supervisors, and the commands of users.

A supervisor takes the steps of the real one (`supervisor.lifecycle`). It takes the record that
came with the lock or reads it, reports Running, and only then starts the command. It reports the
cost now and then, and ends the command if the container is lost. At the end it is idle, saves
output and log with the final state in one call or step by step, and removes its run directory. It
repeats calls while the server cannot be reached. If it is killed, its command goes on until the
host is told to clear away (`clean`), and the run directory stays.

A host may be told to `lose` a supervisor, as when Slurm takes a node for dead and gives its jobs to
another one: the supervisor lives on, and nobody knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Final

from lading.core.containers.container import ContainerState
from lading.core.errors import Conflict, LadingError
from lading.core.quantities import format_time
from lading.dispatch.fleet import SupervisorProcess
from tests.simulation.server import START, ModelServer, content_of, request_body
from tests.simulation.traffic import Traffic

PAUSE: Final = 2.0
LONGEST: Final = 400.0
"""Seconds for which a supervisor tries to reach the server."""
CHECK_PERIOD: Final = 60.0
"""Seconds between two reports of a running container."""
ENDLESS: Final = 100_000.0
PROBE: Final = "probe"
"""The command of a container that runs for PROBE_SECONDS and does nothing else."""
PROBE_SECONDS: Final = 120.0
_LOSSES: Final = frozenset({401, 403, 404, 422})


@dataclass(slots=True, eq=False)
class Command:
    """The command of a user, which takes `seconds`. `done`: it ran to its end, at `ended_at`."""

    uuid: str
    lock: int
    token: str
    exit_code: int = 0
    failure: str = ""
    """Class of its failure, where that is not its user's fault."""
    seconds: float = 0.0
    done: bool = False
    ended_at: str = ""

    @property
    def output(self) -> str:
        """The name of the file in its output."""
        return f"output-of-{self.uuid}-{self.lock}"


@dataclass(slots=True, eq=False)
class Supervisor:
    """A supervisor. `record` and `own_token` are those of its container, once they are known."""

    uuid: str
    token: str
    record: Mapping[str, Any] = field(default_factory=dict)
    own_token: str = ""
    alive: bool = True
    task: asyncio.Task[None] | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    command: Command | None = None
    idle: bool = False
    lost: bool = False
    late: bool = False
    """The dispatcher that sent its start had ended when the start arrived."""
    is_started: bool = False
    """Its record is Running since the lock."""


@dataclass
class Host:
    """The machine. `begin` is called with each command before it starts."""

    name: str
    server: ModelServer
    traffic: Traffic
    random: Random
    clock: Callable[[], float]
    begin: Callable[[Host, Command], None]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    runs: dict[str, Supervisor] = field(default_factory=dict)
    """The supervisors, alive or dead, that have a run directory, by container."""
    ghosts: list[Supervisor] = field(default_factory=list)
    """Living supervisors that are taken for dead."""
    watchers: list[Callable[[], None]] = field(default_factory=list)
    version: int = 0
    """Number of changes of `list`."""
    is_calm: bool = False
    """Whether commands start at once, do not fail and do not go on for ever."""
    void: set[str] = field(default_factory=set)
    """The tokens of orders to start that were carried out or given up."""
    has_images: bool = False
    """Whether the dispatcher may have containers be Running from their lock on."""
    moments: int = 0
    """Number of supervisors that have reported Running."""

    def start(
        self,
        uuid: str,
        token: str,
        known: Mapping[str, Any],
        *,
        late: bool = False,
        is_started: bool = False,
    ) -> int:
        """Start a supervisor; the new version. Raises Conflict if there is a run directory.

        An order for a container that `is_started` arrives once, and not after its sender has ended
        or has given it up: the local fleet asks the forkserver again by the same socket.
        """
        if uuid in self.runs:
            raise Conflict(f"{uuid}: an earlier supervisor is still there")
        if is_started and (late or token in self.void):
            raise Conflict(f"{uuid}: this order does not count any more")
        self.void.add(token)
        one = self.runs[uuid] = Supervisor(uuid, token, late=late, is_started=is_started)
        if self.random.random() < 0.5:
            self._take_record(one, known["container"], known["auth"])
        one.task = self.spawn(self._supervise(one))
        one.task.add_done_callback(_surface)
        self._changed()
        return self.version

    def signal(self, uuid: str, *, kill: bool) -> None:
        """Send TERM, or KILL, to a supervisor if it is alive."""
        one = self.runs.get(uuid)
        if one is not None and one.alive:
            if kill:
                self.kill(uuid)
            else:
                one.stop.set()

    def kill(self, uuid: str) -> None:
        """Kill a supervisor; its command goes on."""
        one = self.runs[uuid]
        if one.alive:
            one.alive = False
            if one.task is not None:
                one.task.cancel()
            self._changed()

    def clean(self, uuid: str) -> int:
        """Clear away what a dead supervisor left; the new version. Raises Conflict if alive."""
        one = self.runs.get(uuid)
        if one is not None and one.alive:
            raise Conflict(f"{uuid}: its supervisor is alive")
        if self.runs.pop(uuid, None) is not None:
            self._changed()
        return self.version

    def lose(self, uuid: str) -> None:
        """Take a living supervisor for dead, and its directory for cleared away."""
        self.ghosts.append(self.runs.pop(uuid))
        self._changed()

    def crash(self) -> None:
        """Cut the power: no process is left, but the run directories are."""
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
        processes = (*self.runs.values(), *self.ghosts)
        return any(one.uuid == uuid and one.command is not None for one in processes)

    def commands(self) -> list[Command]:
        """The living commands of supervisors that the host knows of."""
        return [one.command for one in self.runs.values() if one.command is not None]

    def list(self) -> dict[str, SupervisorProcess]:
        """The processes of containers that have a run directory."""
        return {uuid: self._process(one) for uuid, one in self.runs.items()}

    def _process(self, one: Supervisor) -> SupervisorProcess:
        return SupervisorProcess(self.name, alive=one.alive, idle=one.alive and one.idle)

    def now(self) -> str:
        """The time as the API writes it."""
        return format_time(START + timedelta(seconds=self.clock()))

    def _changed(self) -> None:
        self.version += 1
        for watcher in self.watchers:
            watcher()

    def _take_record(
        self,
        one: Supervisor,
        record: Mapping[str, Any],
        auth: Mapping[str, Any],
    ) -> None:
        one.record = record
        one.own_token = f"v2/{auth['uuid']}/{auth['api_token']}/{one.uuid}"

    async def _supervise(self, one: Supervisor) -> None:
        try:
            await self._live(one)
        except LadingError:
            # It lost the container, or could not reach the server for too long.
            pass
        finally:
            if one.alive:
                # A supervisor that ends by itself ends its command and removes its directory.
                one.alive, one.command = False, None
                if one in self.ghosts:
                    self.ghosts.remove(one)
                else:
                    del self.runs[one.uuid]
                    self._changed()

    async def _live(self, one: Supervisor) -> None:
        if not one.record:
            record = await self._ask(one, "read", "GET", "")
            self._take_record(one, record, await self._ask(one, "auth", "GET", "/auth"))
        if one.is_started:
            await self._run_to_end(one)
            return
        if one.record["state"] != ContainerState.LOCKED:
            return
        preparing = 0.1 if self.is_calm else self.random.choice((0.0, 0.1, 30.0, 200.0))
        await self._or_stop(one, preparing)
        if one.stop.is_set():
            await self._report(one, {"state": ContainerState.QUEUED})
            return
        if not self.is_calm and self.random.random() < 0.04:
            status = {"error": "the image could not be unpacked", "failure": "node"}
            await self._report(one, {"state": ContainerState.CANCELLED, "runtime_status": status})
            return
        await self._report(one, {"state": ContainerState.RUNNING, "started_at": self._moment()})
        await self._run_to_end(one)

    async def _run_to_end(self, one: Supervisor) -> None:
        command = await self._run(one)
        if not one.lost:
            await self._end(one, command)

    def _moment(self) -> str:
        """The time now, in microseconds that tell two supervisors with one token apart."""
        self.moments += 1
        odd = int(self.name[-1]) + 2 * self.moments
        return format_time(START + timedelta(seconds=self.clock(), microseconds=odd))

    async def _run(self, one: Supervisor) -> Command:
        command = Command(one.uuid, one.record["lock_count"], one.token, seconds=PROBE_SECONDS)
        beside = [self._report_cost(one)]
        if one.record["command"][0] != PROBE:
            self._decide(command)
            if one.record["runtime_constraints"].get("API") and not self.is_calm:
                beside.append(self._ask_for_children(one, int(one.record["command"][-1])))
        self.begin(self, command)
        one.command = command
        tasks = [self.spawn(work) for work in beside]
        for task in tasks:
            task.add_done_callback(_surface)
        try:
            await self._or_stop(one, command.seconds)
        finally:
            for task in tasks:
                task.cancel()
        one.command = None
        command.done, command.ended_at = not one.stop.is_set(), self.now()
        one.idle = True
        self._changed()
        return command

    def _decide(self, command: Command) -> None:
        """Choose how long a command takes, and its exit code."""
        command.seconds = self.random.choice((0.0, 1.0, 5.0, 60.0, 60.0))
        if not self.is_calm:
            command.exit_code = self.random.choice((0, 0, 0, 1))
            if command.exit_code:
                command.failure = self.random.choice(("", "", "oom", "disk"))
            if self.random.random() < 0.3:
                command.seconds = ENDLESS

    async def _report_cost(self, one: Supervisor) -> None:
        """Report the cost now and then; end the command once the container is lost."""
        spent = 0.0
        while True:
            await asyncio.sleep(CHECK_PERIOD)
            spent += 0.25
            try:
                await self._exchange(one, "cost", "PUT", "", {"container": {"cost": spent}})
            except LadingError as error:
                if error.status in _LOSSES:
                    one.lost = True
                    one.stop.set()
                    return

    async def _ask_for_children(self, one: Supervisor, depth: int) -> None:
        """Make further requests with the container's own token, as a command may do."""
        for number in range(self.random.randint(1, 2)):
            has_api = depth < 2 and self.random.random() < 0.4
            body = request_body(
                ("child", str(number), str(depth + 1)),
                vcpus=1,
                value=1,
                most=self.random.randint(1, 3),
                reuses=self.random.random() < 0.7,
                has_api=has_api,
            )
            ask = partial(self.server.call, one.own_token, "POST", "container_requests", body)
            label = f"api {self.name} {one.uuid[-3:]} asks for a child"
            try:
                await self.traffic.exchange(label, ask)
            except LadingError:
                # The command gives up.
                return

    async def _end(self, one: Supervisor, command: Command) -> None:
        """Save the results and report the end, in one call or step by step."""
        changes: dict[str, Any] = {
            "state": ContainerState.CANCELLED,
            "finished_at": command.ended_at,
        }
        manifests = {"log": content_of(f"log-of-{one.uuid}-{command.lock}")}
        if command.done:
            changes |= {"state": ContainerState.COMPLETE, "exit_code": command.exit_code}
            if command.failure:
                status = {"failure": command.failure, "error": "it used all that it had"}
                changes["runtime_status"] = status
            manifests["output"] = content_of(command.output)
        if self.random.random() < 0.6:
            body = {"container": changes, "collections": manifests, "blocks": []}
            try:
                await self._exchange(one, "finish", "POST", "/finish", body)
                return
            except LadingError:
                # Step by step it learns which call is refused.
                pass
        for name, text in manifests.items():
            saved = {"collection": {"manifest_text": text, "is_trashed": True}}
            save = partial(self.server.call, one.own_token, "POST", "collections", saved)
            changes[name] = (await self._repeat(one, f"save {name}", save))["portable_data_hash"]
        await self._report(one, changes)

    async def _or_stop(self, one: Supervisor, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await one.stop.wait()
        except TimeoutError:
            return

    async def _report(self, one: Supervisor, changes: dict[str, Any]) -> None:
        await self._ask(one, f"{changes['state']}", "PUT", "", {"container": changes})

    async def _ask(
        self,
        one: Supervisor,
        what: str,
        method: str,
        action: str,
        body: dict[str, Any] | None = None,
    ) -> Any:
        path = f"containers/{one.uuid}{action}"
        call = partial(self.server.call, one.token, method, path, body)
        return await self._repeat(one, what, call)

    async def _exchange(
        self,
        one: Supervisor,
        what: str,
        method: str,
        action: str,
        body: dict[str, Any],
    ) -> Any:
        path = f"containers/{one.uuid}{action}"
        call = partial(self.server.call, one.token, method, path, body)
        return await self.traffic.exchange(f"api {self.name} {one.uuid[-3:]} {what}", call)

    async def _repeat(self, one: Supervisor, what: str, call: Callable[[], Any]) -> Any:
        """The answer to a call; the call is repeated while the server cannot be reached."""
        until = self.clock() + LONGEST
        while True:
            try:
                return await self.traffic.exchange(f"api {self.name} {one.uuid[-3:]} {what}", call)
            except LadingError as error:
                if error.status in _LOSSES or self.clock() > until:
                    raise
            await asyncio.sleep(PAUSE * (0.5 + self.random.random()))


def _surface(task: asyncio.Task[None]) -> None:
    """Pass an exception of a task to the loop, so that the seed fails."""
    if not task.cancelled() and task.exception() is not None:
        context = {"message": "a supervisor failed", "exception": task.exception()}
        task.get_loop().call_exception_handler(context)
