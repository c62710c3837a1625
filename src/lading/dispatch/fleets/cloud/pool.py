"""The VMs of one dispatcher: created, listed, connected, watched, removed.

- A VM that the cloud lists with this dispatcher's tag belongs to it, even if another process made
  it; other VMs are never changed.
- A VM that is missing from one list is not gone yet: it is gone when it was missing from several in
  a row, and no connection shows it alive.
- Every VM has one task that connects to it and polls its state (`vm_bootstrap`).
- The reasons for removing a VM are in `core.scheduling.instance_lifecycle.verdict`. The removal is
  requested until the VM is gone.
- Refusals of the cloud change the limits, and so do VMs that never became ready: an image that does
  not boot causes fewer and fewer VMs.

Source: docs/spec/cloud, section Life of an instance.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lading.core.errors import IllegalTransition, LadingError, RequestError, Unavailable
from lading.core.quantities import format_time
from lading.core.scheduling import cloud_limits
from lading.core.scheduling.instance_lifecycle import (
    Behavior,
    InstanceEvent,
    InstancePhase,
    next_moment,
    verdict,
)
from lading.core.scheduling.instance_types import InstanceType
from lading.core.scheduling.machines import MOST_NOTES, MachineNote
from lading.dispatch.fleets.cloud.cloud_calls import CloudCalls
from lading.dispatch.fleets.cloud.drivers.driver import (
    Driver,
    Instance,
    InstanceSpec,
    QuotaReached,
    RateLimited,
)
from lading.dispatch.fleets.cloud.instance_journal import InstanceJournal, LogCollector
from lading.dispatch.fleets.cloud.instance_watch import Consumer, InstanceWatch
from lading.dispatch.fleets.cloud.machine import CloudMachine, Work, unkept_behavior
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.spot_losses import SpotLosses
from lading.dispatch.fleets.cloud.vm_bootstrap import VmBootstrap
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")
# Seconds for which a VM that was given up is remembered.
_REMEMBERED = 3600.0
_KEPT = ("InstanceType", "IdleBehavior")


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A VM that the cloud has ceased to list: a later list may show it again.

    `at` is when that was, `since` from when on it had not been well; `why` it was to go, if it was.
    """

    at: float
    since: float
    why: str


class InstancePool:
    """Make the pool; run `serve` as a task. VMs accept connections with the key of `public_key`."""

    def __init__(
        self,
        settings: CloudSettings,
        driver: Driver,
        reach: VmBootstrap,
        consumer: Consumer,
        *,
        public_key: str,
        counts: CloudCounters,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
        journal: InstanceJournal | None = None,
        losses: SpotLosses | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(20),
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.journal = journal or InstanceJournal()
        self.machines: dict[str, CloudMachine] = {}
        self.listed = False
        self.wanted_by_others = False
        """Remove idle VMs at once, since containers wait for the quota."""
        self.fault = ""
        """Error of the latest list, or ""."""
        self.history: deque[MachineNote] = deque(maxlen=MOST_NOTES)
        """The latest events of VMs, for admins."""
        self.check_lease: Callable[[], None] = lambda: None
        self._driver = driver
        self._consumer = consumer
        self._public_key = public_key
        self._counts = counts
        self._clock = clock
        self._wall = wall
        self._collector = LogCollector(self.journal.logs, driver, wall)
        self._losses = losses or SpotLosses(clock=clock, wall=wall)
        self._token = token
        self._calls = CloudCalls(settings, counts, lambda: self.check_lease())
        self._creating = asyncio.Semaphore(settings.concurrent_creates)
        self._tasks: asyncio.TaskGroup | None = None
        self._given_up: dict[str, GivenUp] = {}
        self._list_now = asyncio.Event()
        self._check_now = asyncio.Event()
        self._watch = InstanceWatch(
            settings,
            reach,
            consumer,
            counts=counts,
            clock=clock,
            touch=self.touch,
            note=self._note,
        )

    async def serve(self) -> None:
        """Run until cancelled. Raises Invalid when the cloud finds fault with the configuration at
        the first list.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._list_again_and_again(), name="list of VMs")
            tasks.create_task(self._check_again_and_again(), name="verdicts")

    # Requests of the fleet.

    def create(self, key: str, kind: InstanceType) -> None:
        """Request a VM."""
        now = self._clock()
        vm = CloudMachine(
            key=key,
            type=kind.name,
            secret=self._token(),
            kind=kind,
            created=now,
            since=now,
            answered_at=now,
        )
        self.machines[key] = vm
        self._spawn(self._create(vm), f"create {key}", vm)

    def cancel(self, key: str) -> None:
        """Forget a VM that is no longer needed, unless the cloud was already asked for it."""
        vm = self.machines.get(key)
        if vm is not None and vm.phase is InstancePhase.CREATING and vm.asked is None:
            self._forget(vm)

    async def hold(self, vm: CloudMachine, behavior: Behavior, why: str = "") -> None:
        """Set an operator's behavior for a VM, and its tags. Raises Unavailable without these."""
        if vm.behavior is not behavior:
            vm.behavior, vm.is_tagged = behavior, False
            event(_logger, "idle behavior", instance=vm.name, behavior=behavior)
            self._tell(vm.name, f"{behavior.value}{f': {why}' if why else ''}")
            self.touch()
        if vm.instance is not None and not vm.is_tagged and not await self._tag(vm):
            raise Unavailable(unkept_behavior(vm.name, behavior))

    def shut_down(self, vm: CloudMachine, why: str) -> None:
        """Remove a VM, even a busy one."""
        if vm.phase not in (InstancePhase.SHUTDOWN, InstancePhase.GONE):
            booting = vm.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING)
            vm.has_failed = booting or bool(vm.broken)
            vm.why = f"{why}{f' (last: {vm.fault})' if vm.fault and booting else ''}"
            event(_logger, "instance shut down", instance=vm.name, type=vm.type, why=vm.why)
            self._tell(vm.name, f"{vm.type} shut down: {vm.why}", is_fault=booting)
            if booting:
                self._counts.boot("failure" if why.startswith("it did not") else "aborted")
            # A VM that does not become ready counts like missing capacity: its type is excluded for
            # a growing pause, so that a broken image does not cost VM after VM.
            if why.startswith("it did not") and vm.kind is not None:
                reason = f"the last {vm.type} instance was of no use: {vm.why}"
                self._limit(
                    cloud_limits.capacity_refused, group=self._driver.group(vm.kind), why=reason
                )
            vm.take(InstanceEvent.CONDEMNED, now=self._clock())
            self._list_now.set()
            self.touch()

    def occupy(self, vm: CloudMachine) -> None:
        """Note a change of the containers on a VM, or on their way to it."""
        busy = bool(vm.containers or vm.posts or vm.expected)
        if vm.phase is (InstancePhase.IDLE if busy else InstancePhase.RUNNING):
            vm.take(InstanceEvent.OCCUPIED if busy else InstanceEvent.EMPTIED, now=self._clock())
            vm.last_busy = self._clock()
            self._check_now.set()

    def touch(self) -> None:
        """Note a change of a VM."""
        self._check_now.set()
        self._consumer.touched()

    @property
    def unresolved(self) -> list[CloudMachine]:
        """VMs that have not reported yet which containers run there."""
        return [vm for vm in self.machines.values() if vm.phase is InstancePhase.UNKNOWN]

    # Making.

    async def _create(self, vm: CloudMachine) -> None:
        async with self._creating:
            # Checked again behind the semaphore: the plan may have changed while other creations
            # had their turn.
            if vm.phase is not InstancePhase.CREATING or vm.kind is None:
                return
            # The plan was made before the cloud refused a call for its rate.
            slowed = self.limits.rate_ban
            if slowed is not None and slowed.until > self._clock():
                await asyncio.sleep(slowed.until - self._clock())
            # Set before the call: from now on the cloud may have the VM, so `cancel` must not
            # forget it.
            vm.asked = self._clock()
            spec = InstanceSpec(
                kind=vm.kind,
                image=self.settings.image,
                tags=self._tags(vm),
                user_data=self.settings.user_data(vm.secret),
                public_key=self._public_key if self.settings.deploy_key else "",
                avoided_zones=self._losses.zones_to_avoid(vm.kind),
            )
            try:
                created = await self._calls.make("Create", self._driver.create(spec))
            except LadingError as error:
                self._refused(vm, error)
                return
        if not vm.gone:
            self.limits = cloud_limits.created(self.limits, group=self._driver.group(vm.kind))
            self._adopt(vm, created)

    def _refused(self, vm: CloudMachine, error: LadingError) -> None:
        event(_logger, "instance not made", type=vm.type, why=error.message)
        self._tell(vm.name, f"{vm.type} not made: {error.message}", is_fault=True)
        assert vm.kind is not None
        group = self._driver.group(vm.kind)
        if vm.instance is None:
            self._forget(vm)
        match error:
            case RateLimited():
                until = None if error.pause is None else self._clock() + error.pause
                self._limit(cloud_limits.rate_refused, until=until, why=error.message)
            case QuotaReached():
                existing = sum(listed.instance is not None for listed in self.machines.values())
                self._limit(cloud_limits.quota_refused, machines=existing, why=error.message)
            case _:
                self._limit(cloud_limits.capacity_refused, group=group, why=error.message)
        # The VM may exist in spite of the error.
        self._list_now.set()

    def _limit(self, refused: Callable[..., cloud_limits.Limits], **facts: object) -> None:
        self.limits = refused(self.limits, now=self._clock(), **facts)
        self.touch()

    def _tags(self, vm: CloudMachine) -> dict[str, str]:
        tag = self.settings.tag
        return dict(self.settings.resource_tags) | {
            tag("InstanceSetID"): self.settings.set_id,
            tag("InstanceType"): vm.type,
            tag("IdleBehavior"): vm.behavior.value,
            tag("InstanceSecret"): vm.secret,
        }

    def _kept_tags(self, vm: CloudMachine) -> dict[str, str]:
        """The tags from which a later dispatcher learns the state of a VM."""
        return {
            name: value
            for name, value in self._tags(vm).items()
            if name in map(self.settings.tag, _KEPT)
        }

    def _tag_again(self, vm: CloudMachine) -> None:
        """The list shows other tags: it may be old, or they were not set, or were changed from
        outside.
        """
        now = self._clock()
        # Tags that were set a moment ago may be missing from a list that the cloud made earlier.
        if now - vm.tagged >= self.settings.sync_interval / 2:
            self._spawn(self._tag(vm), f"tag {vm.name}")

    async def _tag(self, vm: CloudMachine) -> bool:
        """Set the tags of a VM; whether the cloud has taken them."""
        vm.tagged, behavior = self._clock(), vm.behavior
        try:
            await self._calls.make("SetTags", self._driver.tag(vm.name, self._tags(vm)))
        except LadingError as error:
            event(_logger, "tags not set", instance=vm.name, why=error.message)
            return False
        # It may have changed during the call.
        vm.is_tagged = vm.behavior is behavior
        return vm.is_tagged

    # Listing.

    async def _list_again_and_again(self) -> None:
        while True:
            self._list_now.clear()
            pause = await self._list_once()
            if self._is_busy():
                pause = min(pause, self.settings.busy_sync_interval)
                await asyncio.sleep(pause)
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._list_now.wait()
            except TimeoutError:
                continue

    async def _list_once(self) -> float:
        """List the instances; the seconds until the next list, unless one is wanted earlier."""
        try:
            await self._list()
        except LadingError as error:
            # Wrong credentials or a wrong region show at the first list: the dispatcher ends
            # with the message, in place of retrying for ever.
            if not self.listed and isinstance(error, RequestError):
                raise
            event(_logger, "instances not listed", why=error.message)
            self.fault = error.message
            self._consumer.touched()
            asked = error.pause if isinstance(error, RateLimited) else None
            return max(asked or 0.0, self.settings.busy_sync_interval)
        self.fault = ""
        for vm in list(self.machines.values()):
            if vm.phase is InstancePhase.SHUTDOWN:
                self._remove(vm)
        return self.settings.sync_interval

    def _is_busy(self) -> bool:
        return any(
            vm.phase is InstancePhase.SHUTDOWN
            or vm.misses
            or (vm.instance is not None and not vm.address)
            for vm in self.machines.values()
        )

    def _take_in(self, listed: Iterable[Instance]) -> None:
        """Learn from the instances of a list."""
        by_id = {vm.instance.id: vm for vm in self.machines.values() if vm.instance is not None}
        by_secret = {vm.secret: vm for vm in self.machines.values() if vm.instance is None}
        for instance in listed:
            matched = by_id.get(instance.id)
            # The secret connects a created VM with its list entry when the call of its creation
            # failed or has not returned yet.
            expected = by_secret.get(instance.tags.get(self.settings.tag("InstanceSecret"), ""))
            if matched is not None:
                self._refresh(matched, instance)
            elif expected is not None:
                self._adopt(expected, instance)
            else:
                self._find(instance)

    async def _list(self) -> None:
        # Taken before the call: a VM that was created during it may be missing from the list.
        began = self._clock()
        instances = await self._calls.make("List", self._driver.list())
        mark = self.settings.tag("InstanceSetID")
        # A list may name an instance twice.
        ours = {
            listed.id: listed
            for listed in instances
            if listed.tags.get(mark) == self.settings.set_id
        }
        self._take_in(ours.values())
        for vm in list(self.machines.values()):
            if vm.instance is not None and vm.instance.id not in ours and vm.created < began:
                self._miss(vm)
        self.journal.keep(ours.keys() | {vm.name for vm in self.machines.values()})
        if not self.listed:
            self.listed = True
            self._consumer.touched()

    def _refresh(self, vm: CloudMachine, instance: Instance) -> None:
        vm.misses = 0
        if not vm.going and any(
            instance.tags.get(name) != value for name, value in self._kept_tags(vm).items()
        ):
            self._tag_again(vm)
        if instance.address and instance.address != vm.address:
            vm.instance = instance
            vm.changed.set()

    def _find(self, instance: Instance) -> None:
        """Add a VM that an earlier dispatcher made, or that was missing from lists: then its times
        are kept.
        """
        tag, now = self.settings.tag, self._clock()
        before = self._given_up.pop(instance.id, GivenUp(now, now, ""))
        type_ = instance.tags.get(tag("InstanceType"), "")
        behavior = instance.tags.get(tag("IdleBehavior"), "")
        vm = CloudMachine(
            key=instance.id,
            type=type_,
            secret=instance.tags.get(tag("InstanceSecret"), ""),
            kind=self.settings.by_name.get(type_),
            instance=instance,
            phase=InstancePhase.UNKNOWN,
            behavior=Behavior(behavior) if behavior in set(Behavior) else Behavior.RUN,
            created=now,
            since=before.since,
            answered_at=now,
        )
        record = self.journal.find(instance.id)
        if record is not None:
            vm.created = self._on_clock(record.created)
            vm.since = (
                min(vm.since, self._on_clock(record.waited_since))
                if record.waited_since
                else vm.since
            )
        self._note(vm)
        self.machines[vm.key] = vm
        event(_logger, "instance found", instance=vm.name, type=type_, behavior=vm.behavior)
        self._spawn(self._watch.keep(vm), f"keep {vm.name}", vm)
        self.touch()
        if before.why:
            self.shut_down(vm, before.why)

    def _adopt(self, vm: CloudMachine, instance: Instance) -> None:
        """Take over a VM that the cloud has made."""
        if vm.instance is not None:
            return
        vm.instance = instance
        if vm.phase is InstancePhase.SHUTDOWN:
            self._list_now.set()
        else:
            vm.take(InstanceEvent.CREATED, now=self._clock())
            self._note(vm)
            self._tell(vm.name, f"{vm.type} made")
            event(
                _logger, "instance made", instance=vm.name, type=vm.type, address=instance.address
            )
            if instance.address:
                vm.changed.set()
            else:
                self._list_now.set()
            self._spawn(self._watch.keep(vm), f"keep {vm.name}", vm)
            self.touch()

    def _note(self, vm: CloudMachine) -> None:
        """Store the time of its creation, and the beginning of the wait for it, over a restart."""
        # The monotonic clock begins anew with the process (or the machine): the journal has wall
        # time.
        offset = self._wall() - self._clock()
        waited = vm.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING)
        self.journal.note(
            vm.name, created=vm.created + offset, waited_since=vm.since + offset if waited else 0.0
        )

    def _tell(self, name: str, message: str, *, is_fault: bool = False) -> None:
        at = format_time(datetime.fromtimestamp(self._wall(), UTC))
        note = MachineNote(at=at, machine=name[:400], sentence=message[:400], is_fault=is_fault)
        self.history.append(note)

    def _on_clock(self, moment: float) -> float:
        """A moment in seconds since 1970 on the loop's clock, never later than now."""
        now = self._clock()
        # Wall time may have been set back since: a moment in the future would make a boot wait
        # longer.
        return min(now, moment - self._wall() + now)

    def _miss(self, vm: CloudMachine) -> None:
        vm.misses += 1
        # A connection proves that the VM is alive, even if it is missing from lists. A VM that is
        # being removed may keep its connection to the end.
        if vm.misses >= self.settings.misses and (
            vm.link is None or vm.phase is InstancePhase.SHUTDOWN
        ):
            self._lose(vm)

    def _lose(self, vm: CloudMachine) -> None:
        """Remove a VM that is gone."""
        before, now = vm.phase, self._clock()
        self._counts.gone(before, now - vm.since)
        if before in (InstancePhase.UNKNOWN, InstancePhase.BOOTING):
            self._counts.boot("disappeared")
        self._tell(vm.name, f"{vm.type} gone", is_fault=not vm.why)
        if not vm.why:
            lost = self._collector.collect(vm, f"it disappeared while {before}", has_failed=True)
            self._spawn(lost, f"logs of {vm.name}")
        event(_logger, "instance gone", instance=vm.name, type=vm.type, was=before)
        self._given_up = {
            id: past for id, past in self._given_up.items() if now - past.at < _REMEMBERED
        }
        unwell = (
            vm.since if before in (InstancePhase.UNKNOWN, InstancePhase.BOOTING) else vm.answered_at
        )
        self._given_up[vm.name] = GivenUp(now, unwell, vm.why)
        if vm.kind is not None and vm.kind.preemptible and not vm.why:
            self._losses.note(vm.kind, vm.instance.zone if vm.instance is not None else "")
        vm.take(InstanceEvent.VANISHED, now=now)
        self._consumer.vanished(vm)
        self._forget(vm)

    def _forget(self, vm: CloudMachine) -> None:
        self.machines.pop(vm.key, None)
        vm.phase = InstancePhase.GONE
        vm.changed.set()
        if vm.task is not None and vm.task is not asyncio.current_task():
            vm.task.cancel()
        self.touch()

    def _remove(self, vm: CloudMachine) -> None:
        now = self._clock()
        if (
            vm.instance is not None
            and (vm.phase is InstancePhase.SHUTDOWN)
            and _due(vm, self.settings, now)
        ):
            vm.asked = now
            self._spawn(self._destroy(vm), f"destroy {vm.name}")

    async def _destroy(self, vm: CloudMachine) -> None:
        if not vm.logs_kept:
            # Before the first call: afterwards nobody can ask the VM, and some clouds drop its
            # console.
            vm.logs_kept = True
            await self._collector.collect(vm, vm.why, has_failed=vm.has_failed)
        try:
            await self._calls.make("Destroy", self._driver.destroy(vm.name))
        except LadingError as error:
            event(_logger, "instance not removed", instance=vm.name, why=error.message)

    # Verdicts.

    async def _check_again_and_again(self) -> None:
        while True:
            self._check_now.clear()
            due = self._check()
            try:
                async with asyncio.timeout(
                    None if due is None else max(0.001, due - self._clock())
                ):
                    await self._check_now.wait()
            except TimeoutError:
                continue

    def _check(self) -> float | None:
        """Find VMs to remove; return the time of the next check."""
        now, moments = self._clock(), []
        for vm in list(self.machines.values()):
            why = verdict(vm.facts, self.settings.times, now=now, over_quota=self.wanted_by_others)
            if why:
                try:
                    self.shut_down(vm, why)
                except IllegalTransition as error:
                    event(_logger, "verdict dropped", instance=vm.name, why=error.message)
            moments.append(next_moment(vm.facts, self.settings.times, now=now))
        moments.append(self.present_limits().next_moment(now=now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _spawn(self, work: Work, name: str, vm: CloudMachine | None = None) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        if vm is not None:
            vm.task = task

    def present_limits(self) -> cloud_limits.Limits:
        """The limits, with the types that were taken away lately."""
        return self._losses.limit(self.limits)

    def by_name(self) -> Mapping[str, CloudMachine]:
        """The VMs by name."""
        return {vm.name: vm for vm in self.machines.values()}


def _due(vm: CloudMachine, settings: CloudSettings, now: float) -> bool:
    return vm.asked is None or vm.asked < vm.since or now - vm.asked >= settings.shutdown_timeout
