"""A fake cloud with faults, without machines.

On a simulated loop whole days of VMs pass in a moment. The faults are drawn from a seed: calls fail
before or after they have had their effect, or hang; VMs are missing from lists, listed twice, show
old tags; they never boot, break, die, are preempted; agents lose their connection, or keep one that
transmits nothing any more; supervisors crash before or after their container runs. A forbidden
state raises AssertionError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from lading.core.errors import LadingError, Unavailable
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.ssh_connection import Unverified
from lading.net.rpc import LineChannel, Message
from lading.testing.cloud_troubles import Crashed, Troubles

_FOREVER = 1e9
# Seconds after which an attempt to connect is given up, and longest life of ranks without a gang.
_CONNECT, _POST_LAG = 60.0, 5.0
_NOTHING = InstanceType(name="", provider_type="", resources=Resources())
Work = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(slots=True, eq=False)
class FakeVm:
    """One VM of the fake cloud."""

    instance: Instance
    secret: str
    kind: InstanceType
    created_at: float
    ready: float
    dies: float = _FOREVER
    breaks: float = _FOREVER
    taken: float = _FOREVER
    hidden: int = 0
    lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    posts: dict[str, int] = field(default_factory=dict)
    used: int = 0
    empty: float = 0.0
    """Since when nothing runs there."""
    harmed: float = -_FOREVER
    """When a connection to it was last spoiled."""
    gone: float = _FOREVER
    paid: float = 0.0
    """Dollars that its containers have cost together."""
    agents: dict[_Agent, None] = field(default_factory=dict)

    def freeze(self) -> None:
        """Over the connections that there are nothing comes any more."""
        for agent in self.agents:
            agent.freeze()


async def _rest(_: Mapping[str, Any]) -> None:
    await asyncio.Event().wait()


class FakeCloud:
    """Implements `Driver`; its method `reach` is a `VmBootstrap`. `of_set` is the same cloud for
    another dispatcher.

    `work` is the behaviour of a supervisor for an assignment. `gone` gets the containers whose
    remains are removed, `lost` the containers whose supervisor ended too early. `pays` is the price
    of a container in dollars an hour. `on_create` gets each new VM with its number, and may spoil
    it.
    """

    preemption = ""

    def __init__(
        self,
        *,
        seed: int = 0,
        troubles: Troubles | None = None,
        work: Work = _rest,
        gone: Callable[[str], None] = lambda _: None,
        lost: Callable[[str], None] = lambda _: None,
        pays: Callable[[Mapping[str, Any]], float] = lambda _: 0.0,
        on_create: Callable[[FakeVm, int], None] = lambda *_: None,
        tag: str = "ArvadosInstanceSetID",
        set_id: str = "set",
    ) -> None:
        self.troubles = troubles or Troubles()
        self.posts_stay = False
        """Whether outposts outlive the supervisor of their gang."""
        self.vms: dict[str, FakeVm] = {}
        self.calls: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.past: list[FakeVm] = []
        self.most = 0
        self.faults: list[AssertionError] = []
        self.gangs = 0
        """Gangs that were started on several VMs."""
        self._random = Random(seed)
        self._work = work
        self._gone = gone
        self._lost = lost
        self._pays = pays
        self._on_create = on_create
        self._tag, self._set_id = tag, set_id
        self._number = 0
        self._last_create = -_FOREVER
        self._slowest = 2.0

    # The driver.

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make a VM, perhaps."""
        await self._call("create")
        t, now = self.troubles, self._now()
        if self._chance(t.create_fails):
            raise self._refuse("error", Unavailable("the fake cloud made nothing"))
        if now - self._last_create < t.gap:
            raise self._refuse(
                "rate", RateLimited("the fake cloud is asked too often", pause=t.gap)
            )
        if t.quota and len(self.vms) >= t.quota:
            raise self._refuse("quota", QuotaReached(f"the fake cloud gives {t.quota} at most"))
        if spec.kind.provider_type in t.scarce:
            raise self._refuse(
                "capacity", NoCapacity(f"the fake cloud has no {spec.kind.provider_type}")
            )
        self._last_create = now
        made = self._make(spec, now)
        if self._chance(t.create_pretends):
            raise self._refuse(
                "pretended", Unavailable("the fake cloud does not say whether it made anything")
            )
        return replace(made.instance, address="")

    async def list_set(self, set_id: str) -> list[Instance]:
        """The VMs of one dispatcher."""
        await self._call("list")
        if self._chance(self.troubles.list_fails):
            raise self._refuse("list", Unavailable("the fake cloud lists nothing now"))
        self._pass_time()
        instances: list[Instance] = []
        for vm in self.vms.values():
            if vm.hidden == 0 and self._chance(self.troubles.missing):
                vm.hidden = self._random.randint(1, 3)
            if vm.hidden:
                vm.hidden -= 1
                continue
            if self.set_of(vm) == set_id:
                instances += [vm.instance] * (2 if self._chance(self.troubles.doubled) else 1)
        return instances

    async def list(self) -> list[Instance]:
        """The present VMs, with faults."""
        return await self.list_set(self._set_id)

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Give it tags."""
        await self._call("tag")
        if self._chance(self.troubles.tag_fails):
            raise self._refuse("tag", Unavailable("the fake cloud tags nothing now"))
        if not self.troubles.late_tags:
            self._tagged(id, dict(tags))
            return
        later = self._random.uniform(0.0, self.troubles.late_tags)
        asyncio.get_running_loop().call_later(later, self._tagged, id, dict(tags))

    def _tagged(self, id: str, tags: dict[str, str]) -> None:
        if id in self.vms:
            self.vms[id].instance = replace(self.vms[id].instance, tags=tags)

    async def destroy(self, id: str) -> None:
        """Remove it, perhaps."""
        await self._call("destroy")
        if self._chance(self.troubles.destroy_fails):
            raise self._refuse("destroy", Unavailable("the fake cloud removes nothing now"))
        self.take(id)

    async def console(self, id: str) -> str:
        """The output of its boot."""
        return f"{id} boots"

    def group(self, kind: InstanceType) -> str:
        """Each type by itself."""
        return kind.name

    def set_of(self, vm: FakeVm) -> str:
        """The InstanceSetID of a VM."""
        return vm.instance.tags.get(self._tag, "")

    def of_set(self, set_id: str) -> CloudOfSet:
        """The cloud as another dispatcher sees it."""
        return CloudOfSet(self, set_id)

    def quick(self) -> None:
        """Calls and connections take no time from now on."""
        self._slowest = 0.0

    # Events of VMs.

    def foreign(self, id: str) -> None:
        """Add a VM of another owner."""
        self.vms[id] = FakeVm(
            Instance(id=id, address="9.9.9.9"), "", _NOTHING, self._now(), _FOREVER
        )

    def take(self, id: str) -> None:
        """A VM is no more."""
        vm = self.vms.pop(id, None)
        if vm is not None:
            self._empty(vm)
            vm.gone = self._now()
            self.past.append(vm)

    def harmed(self, id: str, since: float) -> bool:
        """Whether a VM is gone, or something was wrong with it or the way there since then."""
        vm, now = self.vms.get(id), self._now()
        return vm is None or min(vm.dies, vm.breaks, vm.taken) <= now or vm.harmed >= since

    def _empty(self, vm: FakeVm) -> None:
        for uuid in (*vm.lives, *sorted(vm.left)):
            self._gone(uuid)
        for uuid, task in vm.lives.items():
            self._lost(uuid)
            task.cancel()
        for uuid in vm.lives:
            self._abandon_posts(uuid)
        vm.lives.clear()
        vm.left.clear()
        vm.posts.clear()

    def _abandon_posts(self, uuid: str) -> None:
        """The supervisor of a gang has ended: its outposts do so too, a little later."""
        for vm in self.vms.values():
            if uuid in vm.posts and not self.posts_stay:
                later = self._random.uniform(0.0, _POST_LAG)
                asyncio.get_running_loop().call_later(later, vm.posts.pop, uuid, None)

    def _make(self, spec: InstanceSpec, now: float) -> FakeVm:
        self._number += 1
        t, id = self.troubles, f"i-{self._number}"
        boot = _FOREVER if self._chance(t.never_boots) else self._random.uniform(*t.boot)
        instance = Instance(
            id=id, provider_type=spec.kind.provider_type,
            address=f"10.0.{self._number >> 8}.{self._number & 255}", tags=dict(spec.tags),
        )  # fmt: skip
        secret = next(
            (value for name, value in spec.tags.items() if name.endswith("InstanceSecret")), ""
        )
        vm = self.vms[id] = FakeVm(instance, secret, spec.kind, now, now + boot, empty=now)
        for name, chance in (("dies", t.dies), ("breaks", t.breaks), ("taken", t.taken)):
            if self._chance(chance):
                setattr(vm, name, now + self._random.uniform(0, t.life))
        self.most = max(self.most, len(self.vms))
        self._on_create(vm, self._number)
        return vm

    def _pass_time(self) -> None:
        now = self._now()
        for vm in list(self.vms.values()):
            if now >= vm.taken:
                self.take(vm.instance.id)
            elif now >= vm.dies:
                # It is lost without a report; its containers have ended all the same.
                self._empty(vm)

    # The way to a VM.

    @asynccontextmanager
    async def reach(
        self, machine: CloudMachine, tell: Callable[[Message], None]
    ) -> AsyncGenerator[LineChannel]:
        """An agent, when the VM has booted and the secret is right."""
        self._pass_time()
        vm = self.vms.get(machine.name)
        await asyncio.sleep(self._random.uniform(0.0, self._slowest / 4 + self.troubles.slow_copy))
        if vm is not None and self._chance(self.troubles.mute):
            vm.harmed = self._now()
            await asyncio.sleep(_CONNECT)
            raise Unavailable(f"{machine.name}: no ssh connection: no answer in {_CONNECT:g} s")
        if vm is None or self._now() < vm.ready or self._now() >= vm.dies:
            raise Unavailable(f"{machine.name}: no ssh connection: refused")
        if vm.secret != machine.secret or self._chance(self.troubles.impostor):
            vm.harmed = self._now()
            raise Unverified(
                f"{machine.name}: it does not know the secret that the instance was made with"
            )
        if not machine.pinned:
            machine.pinned = "its key"
            tell({"op": "verified"})
        agent = _Agent(self, vm)
        vm.agents[agent] = None
        link = LineChannel(
            agent.lines(),
            agent,
            peer="The instance",
            stray=lambda reply: tell(reply.message),
        )
        try:
            yield link
        finally:
            vm.agents.pop(agent, None)
            agent.close()

    def start(self, vm: FakeVm, assignment: Mapping[str, Any]) -> None:
        """A supervisor begins."""
        uuid = assignment["container_uuid"]
        if any(uuid in peer.lives for peer in self.vms.values()):
            self.faults.append(AssertionError(f"{uuid} has two supervisors"))
        ranks = 1 + len((assignment.get("outposts") or {"ranks": ()})["ranks"])
        present = 1 + sum(peer.posts.get(uuid, 0) for peer in self.vms.values())
        self.gangs += ranks > 1
        if present > ranks:
            self.faults.append(AssertionError(f"{uuid} has {present} ranks in place of {ranks}"))
        vm.used += 1
        vm.lives[uuid] = asyncio.create_task(
            self._live(vm, assignment), name=f"supervisor of {uuid}"
        )

    async def _live(self, vm: FakeVm, assignment: Mapping[str, Any]) -> None:
        uuid, tidy = assignment["container_uuid"], False
        try:
            await asyncio.sleep(self._random.uniform(0.0, 1.0))
            if not self._chance(self.troubles.crash_before):
                await self._pay(vm, assignment)
                tidy = not self._chance(self.troubles.crash_after)
                await asyncio.sleep(_FOREVER if self._chance(self.troubles.stuck) else self._lag())
        except Crashed:
            tidy = False
        except LadingError:
            tidy = True
        except AssertionError as fault:
            self.faults.append(fault)
        except asyncio.CancelledError:
            return
        if vm.lives.pop(uuid, None) is not None and not tidy:
            vm.left.add(uuid)
            self._lost(uuid)
        vm.empty = self._now()
        self._abandon_posts(uuid)
        self._tell_ended(vm, uuid)

    async def _pay(self, vm: FakeVm, assignment: Mapping[str, Any]) -> None:
        price, began = self._pays(assignment), self._now()
        try:
            await self._work(assignment)
        finally:
            vm.paid += price * (self._now() - began) / 3600.0

    def _lag(self) -> float:
        return self._random.uniform(0.0, self.troubles.lag)

    def stop(self, vm: FakeVm, uuid: str) -> None:
        """A supervisor gets a signal."""
        if uuid in vm.lives:
            vm.lives.pop(uuid).cancel()
            vm.left.add(uuid)
            vm.empty = self._now()
            self._lost(uuid)
            self._abandon_posts(uuid)
            self._tell_ended(vm, uuid)

    def _tell_ended(self, vm: FakeVm, uuid: str) -> None:
        for agent in vm.agents:
            agent.ended(uuid)

    def clear(self, vm: FakeVm, uuid: str) -> None:
        """Remove the remains of a supervisor."""
        vm.left.discard(uuid)
        vm.posts.pop(uuid, None)
        if not any(uuid in peer.lives or uuid in peer.posts for peer in self.vms.values()):
            self._gone(uuid)

    # Chance and time.

    def chance_of(self, chance: float) -> bool:
        """Whether it happens."""
        return self._chance(chance)

    async def _call(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if self._chance(self.troubles.hangs):
            await asyncio.sleep(_FOREVER)
        await asyncio.sleep(self._random.uniform(0.0, self._slowest))

    def _refuse(self, name: str, error: LadingError) -> LadingError:
        self.refused[name] = self.refused.get(name, 0) + 1
        return error

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance


class CloudOfSet:
    """Implements `Driver` for one InstanceSetID; a call for a VM of another set is a fault of the
    caller.
    """

    preemption = ""

    def __init__(self, cloud: FakeCloud, set_id: str) -> None:
        self._cloud, self._set_id = cloud, set_id

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make a VM, perhaps."""
        return await self._cloud.create(spec)

    async def list(self) -> list[Instance]:
        """The present VMs of this set; some calls leave VMs out."""
        return await self._cloud.list_set(self._set_id)

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Give it tags."""
        self._own(id)
        await self._cloud.tag(id, tags)

    async def destroy(self, id: str) -> None:
        """Remove it, perhaps."""
        self._own(id)
        await self._cloud.destroy(id)

    async def console(self, id: str) -> str:
        """See `Driver`."""
        self._own(id)
        return await self._cloud.console(id)

    def group(self, kind: InstanceType) -> str:
        """Each type by itself."""
        return self._cloud.group(kind)

    def _own(self, id: str) -> None:
        vm = self._cloud.vms.get(id)
        if vm is not None and self._cloud.set_of(vm) != self._set_id:
            self._cloud.faults.append(
                AssertionError(f"{id} was touched by a dispatcher that it does not belong to")
            )


class _Agent:
    """The other end of a link; it acts as `agent.py` and the forkserver on a real VM."""

    def __init__(self, cloud: FakeCloud, vm: FakeVm) -> None:
        self._cloud = cloud
        self._vm = vm
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._frozen = False

    async def lines(self) -> AsyncIterator[bytes]:
        """Its messages, line by line."""
        while (line := await self._lines.get()) is not None:
            yield line

    def freeze(self) -> None:
        """The connection stays, and nothing comes over it any more."""
        self._frozen = True

    def close(self) -> None:
        """The connection is gone."""
        self._lines.put_nowait(None)

    def write(self, data: bytes) -> None:
        """Take a request."""
        request = msgspec.json.decode(data)
        now = asyncio.get_running_loop().time()
        vm, troubles = self._vm, self._cloud.troubles
        if self._cloud.chance_of(troubles.freezes):
            vm.harmed = now
            self.freeze()
        if now >= min(vm.dies, vm.taken) or vm.instance.id not in self._cloud.vms or self._frozen:
            return
        answer = {"id": request["id"], "uuid": request.get("uuid"), **self._answer(request, now)}
        if self._cloud.chance_of(troubles.loses_link):
            vm.harmed = now
            self.close()
            return
        self._say(answer)

    def _answer(self, request: Mapping[str, Any], now: float) -> dict[str, Any]:
        """Carry out a request; the fields of its answer."""
        vm, uuid = self._vm, request.get("uuid")
        match request["op"]:
            case "ping":
                return {"op": "pong", "broken": "it says so" if now >= vm.breaks else ""}
            case "list":
                return {
                    "op": "listed",
                    "live": [{"uuid": container} for container in vm.lives],
                    "dead": sorted(vm.left),
                    "outposts": [
                        {"uuid": container, "ranks": ranks} for container, ranks in vm.posts.items()
                    ],
                }
            case "admit" if uuid in vm.posts:
                return {"op": "refused", "error": "an earlier outpost is still there"}
            case "admit":
                vm.posts[str(uuid)] = request["ranks"]
                return {"op": "admitted", "address": "", "port": 1000 + len(vm.posts)}
            case "start":
                self._cloud.start(vm, request["assignment"])
                return {"op": "started", "uuid": request["assignment"]["container_uuid"]}
            case "signal":
                if uuid in vm.lives:
                    self._cloud.stop(vm, str(uuid))
                return {"op": "signalled", "delivered": True}
            case "clean":
                alive = uuid in vm.lives
                if not alive:
                    self._cloud.clear(vm, str(uuid))
                return {"op": "cleaned", "error": "it is alive" if alive else ""}
        return {}

    async def drain(self) -> None:
        """Return at once: there is always room."""

    def ended(self, uuid: str) -> None:
        """A supervisor has ended."""
        if not self._frozen:
            self._say({"op": "ended", "uuid": uuid})

    def _say(self, message: Mapping[str, Any]) -> None:
        self._lines.put_nowait(msgspec.json.encode(message))


@asynccontextmanager
async def open_fake(site: DriverSite) -> AsyncGenerator[FakeCloud]:
    """The fake driver by its entry point: without machines, so nothing becomes ready."""
    yield FakeCloud(tag=site.tag, set_id=site.set_id)
