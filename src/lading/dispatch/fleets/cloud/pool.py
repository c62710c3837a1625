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
        one = CloudMachine(
            key=key,
            type=kind.name,
            secret=self._token(),
            kind=kind,
            created=now,
            since=now,
            seen=now,
        )
        self.machines[key] = one
        self._spawn(self._create(one), f"create {key}", one)

    def cancel(self, key: str) -> None:
        """Forget a VM that is no longer needed, unless the cloud was already asked for it."""
        one = self.machines.get(key)
        if one is not None and one.phase is InstancePhase.CREATING and one.asked is None:
            self._forget(one)

    async def hold(self, one: CloudMachine, behavior: Behavior, why: str = "") -> None:
        """Set an operator's behavior for a VM, and its tags. Raises Unavailable without these."""
        if one.behavior is not behavior:
            one.behavior, one.is_tagged = behavior, False
            event(_logger, "idle behavior", instance=one.name, behavior=behavior)
            self._tell(one.name, f"{behavior.value}{f': {why}' if why else ''}")
            self.touch()
        if one.instance is not None and not one.is_tagged and not await self._tag(one):
            raise Unavailable(unkept_behavior(one.name, behavior))

    def shut_down(self, one: CloudMachine, why: str) -> None:
        """Remove a VM, even a busy one."""
        if one.phase not in (InstancePhase.SHUTDOWN, InstancePhase.GONE):
            booting = one.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING)
            one.has_failed = booting or bool(one.broken)
            one.why = f"{why}{f' (last: {one.fault})' if one.fault and booting else ''}"
            event(_logger, "instance shut down", instance=one.name, type=one.type, why=one.why)
            self._tell(one.name, f"{one.type} shut down: {one.why}", is_fault=booting)
            if booting:
                self._counts.boot("failure" if why.startswith("it did not") else "aborted")
            # A VM that does not become ready counts like missing capacity: its type is excluded for
            # a growing pause, so that a broken image does not cost VM after VM.
            if why.startswith("it did not") and one.kind is not None:
                said = f"the last {one.type} instance was of no use: {one.why}"
                self._limit(
                    cloud_limits.capacity_refused, group=self._driver.group(one.kind), why=said
                )
            one.take(InstanceEvent.CONDEMNED, now=self._clock())
            self._list_now.set()
            self.touch()

    def occupy(self, one: CloudMachine) -> None:
        """Note a change of the containers on a VM, or on their way to it."""
        busy = bool(one.containers or one.posts or one.expected)
        if one.phase is (InstancePhase.IDLE if busy else InstancePhase.RUNNING):
            one.take(InstanceEvent.OCCUPIED if busy else InstanceEvent.EMPTIED, now=self._clock())
            one.last_busy = self._clock()
            self._check_now.set()

    def touch(self) -> None:
        """Note a change of a VM."""
        self._check_now.set()
        self._consumer.touched()

    @property
    def unresolved(self) -> list[CloudMachine]:
        """VMs that have not reported yet which containers run there."""
        return [one for one in self.machines.values() if one.phase is InstancePhase.UNKNOWN]

    # Making.

    async def _create(self, one: CloudMachine) -> None:
        async with self._creating:
            # Checked again behind the semaphore: the plan may have changed while other creations
            # had their turn.
            if one.phase is not InstancePhase.CREATING or one.kind is None:
                return
            # The plan was made before the cloud refused a call for its rate.
            slowed = self.limits.rate_ban
            if slowed is not None and slowed.until > self._clock():
                await asyncio.sleep(slowed.until - self._clock())
            # Set before the call: from now on the cloud may have the VM, so `cancel` must not
            # forget it.
            one.asked = self._clock()
            spec = InstanceSpec(
                kind=one.kind,
                image=self.settings.image,
                tags=self._tags(one),
                user_data=self.settings.user_data(one.secret),
                public_key=self._public_key if self.settings.deploy_key else "",
                avoided_zones=self._losses.zones_to_avoid(one.kind),
            )
            try:
                made = await self._calls.make("Create", self._driver.create(spec))
            except LadingError as error:
                self._refused(one, error)
                return
        if not one.gone:
            self.limits = cloud_limits.created(self.limits, group=self._driver.group(one.kind))
            self._adopt(one, made)

    def _refused(self, one: CloudMachine, error: LadingError) -> None:
        event(_logger, "instance not made", type=one.type, why=error.message)
        self._tell(one.name, f"{one.type} not made: {error.message}", is_fault=True)
        assert one.kind is not None
        group = self._driver.group(one.kind)
        if one.instance is None:
            self._forget(one)
        match error:
            case RateLimited():
                until = None if error.pause is None else self._clock() + error.pause
                self._limit(cloud_limits.rate_refused, until=until, why=error.message)
            case QuotaReached():
                there = sum(other.instance is not None for other in self.machines.values())
                self._limit(cloud_limits.quota_refused, machines=there, why=error.message)
            case _:
                self._limit(cloud_limits.capacity_refused, group=group, why=error.message)
        # The VM may exist in spite of the error.
        self._list_now.set()

    def _limit(self, refused: Callable[..., cloud_limits.Limits], **facts: object) -> None:
        self.limits = refused(self.limits, now=self._clock(), **facts)
        self.touch()

    def _tags(self, one: CloudMachine) -> dict[str, str]:
        tag = self.settings.tag
        return dict(self.settings.resource_tags) | {
            tag("InstanceSetID"): self.settings.set_id,
            tag("InstanceType"): one.type,
            tag("IdleBehavior"): one.behavior.value,
            tag("InstanceSecret"): one.secret,
        }

    def _kept_tags(self, one: CloudMachine) -> dict[str, str]:
        """The tags from which a later dispatcher learns the state of a VM."""
        return {
            name: value
            for name, value in self._tags(one).items()
            if name in map(self.settings.tag, _KEPT)
        }

    def _tag_again(self, one: CloudMachine) -> None:
        """The list shows other tags: it may be old, or they were not set, or were changed from
        outside.
        """
        now = self._clock()
        # Tags that were set a moment ago may be missing from a list that the cloud made earlier.
        if now - one.tagged >= self.settings.sync_interval / 2:
            self._spawn(self._tag(one), f"tag {one.name}")

    async def _tag(self, one: CloudMachine) -> bool:
        """Set the tags of a VM; whether the cloud has taken them."""
        one.tagged, behavior = self._clock(), one.behavior
        try:
            await self._calls.make("SetTags", self._driver.tag(one.name, self._tags(one)))
        except LadingError as error:
            event(_logger, "tags not set", instance=one.name, why=error.message)
            return False
        # It may have changed during the call.
        one.is_tagged = one.behavior is behavior
        return one.is_tagged

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
        for one in list(self.machines.values()):
            if one.phase is InstancePhase.SHUTDOWN:
                self._remove(one)
        return self.settings.sync_interval

    def _is_busy(self) -> bool:
        return any(
            one.phase is InstancePhase.SHUTDOWN
            or one.misses
            or (one.instance is not None and not one.address)
            for one in self.machines.values()
        )

    def _take_in(self, listed: Iterable[Instance]) -> None:
        """Learn from the instances of a list."""
        by_id = {one.instance.id: one for one in self.machines.values() if one.instance is not None}
        by_secret = {one.secret: one for one in self.machines.values() if one.instance is None}
        for instance in listed:
            known = by_id.get(instance.id)
            # The secret connects a created VM with its list entry when the call of its creation
            # failed or has not returned yet.
            expected = by_secret.get(instance.tags.get(self.settings.tag("InstanceSecret"), ""))
            if known is not None:
                self._refresh(known, instance)
            elif expected is not None:
                self._adopt(expected, instance)
            else:
                self._find(instance)

    async def _list(self) -> None:
        # Taken before the call: a VM that was created during it may be missing from the list.
        began = self._clock()
        found = await self._calls.make("List", self._driver.list())
        mark = self.settings.tag("InstanceSetID")
        # A list may name an instance twice.
        ours = {one.id: one for one in found if one.tags.get(mark) == self.settings.set_id}
        self._take_in(ours.values())
        for one in list(self.machines.values()):
            if one.instance is not None and one.instance.id not in ours and one.created < began:
                self._miss(one)
        self.journal.keep(ours.keys() | {one.name for one in self.machines.values()})
        if not self.listed:
            self.listed = True
            self._consumer.touched()

    def _refresh(self, one: CloudMachine, instance: Instance) -> None:
        one.misses = 0
        if not one.going and any(
            instance.tags.get(name) != value for name, value in self._kept_tags(one).items()
        ):
            self._tag_again(one)
        if instance.address and instance.address != one.address:
            one.instance = instance
            one.changed.set()

    def _find(self, instance: Instance) -> None:
        """Add a VM that an earlier dispatcher made, or that was missing from lists: then its times
        are kept.
        """
        tag, now = self.settings.tag, self._clock()
        before = self._given_up.pop(instance.id, GivenUp(now, now, ""))
        type_ = instance.tags.get(tag("InstanceType"), "")
        behavior = instance.tags.get(tag("IdleBehavior"), "")
        one = CloudMachine(
            key=instance.id,
            type=type_,
            secret=instance.tags.get(tag("InstanceSecret"), ""),
            kind=self.settings.by_name.get(type_),
            instance=instance,
            phase=InstancePhase.UNKNOWN,
            behavior=Behavior(behavior) if behavior in set(Behavior) else Behavior.RUN,
            created=now,
            since=before.since,
            seen=now,
        )
        known = self.journal.find(instance.id)
        if known is not None:
            one.created = self._on_clock(known.made)
            one.since = (
                min(one.since, self._on_clock(known.waited_since))
                if known.waited_since
                else one.since
            )
        self._note(one)
        self.machines[one.key] = one
        event(_logger, "instance found", instance=one.name, type=type_, behavior=one.behavior)
        self._spawn(self._watch.keep(one), f"keep {one.name}", one)
        self.touch()
        if before.why:
            self.shut_down(one, before.why)

    def _adopt(self, one: CloudMachine, instance: Instance) -> None:
        """Take over a VM that the cloud has made."""
        if one.instance is not None:
            return
        one.instance = instance
        if one.phase is InstancePhase.SHUTDOWN:
            self._list_now.set()
        else:
            one.take(InstanceEvent.CREATED, now=self._clock())
            self._note(one)
            self._tell(one.name, f"{one.type} made")
            event(
                _logger, "instance made", instance=one.name, type=one.type, address=instance.address
            )
            if instance.address:
                one.changed.set()
            else:
                self._list_now.set()
            self._spawn(self._watch.keep(one), f"keep {one.name}", one)
            self.touch()

    def _note(self, one: CloudMachine) -> None:
        """Store the time of its creation, and the beginning of the wait for it, over a restart."""
        # The monotonic clock begins anew with the process (or the machine): the journal has wall
        # time.
        offset = self._wall() - self._clock()
        waited = one.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING)
        self.journal.note(
            one.name, made=one.created + offset, waited_since=one.since + offset if waited else 0.0
        )

    def _tell(self, name: str, text: str, *, is_fault: bool = False) -> None:
        at = format_time(datetime.fromtimestamp(self._wall(), UTC))
        note = MachineNote(at=at, machine=name[:400], text=text[:400], is_fault=is_fault)
        self.history.append(note)

    def _on_clock(self, moment: float) -> float:
        """A moment in seconds since 1970 on the loop's clock, never later than now."""
        now = self._clock()
        # Wall time may have been set back since: a moment in the future would make a boot wait
        # longer.
        return min(now, moment - self._wall() + now)

    def _miss(self, one: CloudMachine) -> None:
        one.misses += 1
        # A connection proves that the VM is alive, even if it is missing from lists. A VM that is
        # being removed may keep its connection to the end.
        if one.misses >= self.settings.misses and (
            one.link is None or one.phase is InstancePhase.SHUTDOWN
        ):
            self._lose(one)

    def _lose(self, one: CloudMachine) -> None:
        """Remove a VM that is gone."""
        before, now = one.phase, self._clock()
        self._counts.gone(before, now - one.since)
        if before in (InstancePhase.UNKNOWN, InstancePhase.BOOTING):
            self._counts.boot("disappeared")
        self._tell(one.name, f"{one.type} gone", is_fault=not one.why)
        if not one.why:
            lost = self._collector.collect(one, f"it disappeared while {before}", has_failed=True)
            self._spawn(lost, f"logs of {one.name}")
        event(_logger, "instance gone", instance=one.name, type=one.type, was=before)
        self._given_up = {
            id: past for id, past in self._given_up.items() if now - past.at < _REMEMBERED
        }
        unwell = one.since if before in (InstancePhase.UNKNOWN, InstancePhase.BOOTING) else one.seen
        self._given_up[one.name] = GivenUp(now, unwell, one.why)
        if one.kind is not None and one.kind.preemptible and not one.why:
            self._losses.note(one.kind, one.instance.zone if one.instance is not None else "")
        one.take(InstanceEvent.VANISHED, now=now)
        self._consumer.vanished(one)
        self._forget(one)

    def _forget(self, one: CloudMachine) -> None:
        self.machines.pop(one.key, None)
        one.phase = InstancePhase.GONE
        one.changed.set()
        if one.task is not None and one.task is not asyncio.current_task():
            one.task.cancel()
        self.touch()

    def _remove(self, one: CloudMachine) -> None:
        now = self._clock()
        if (
            one.instance is not None
            and (one.phase is InstancePhase.SHUTDOWN)
            and _due(one, self.settings, now)
        ):
            one.asked = now
            self._spawn(self._destroy(one), f"destroy {one.name}")

    async def _destroy(self, one: CloudMachine) -> None:
        if not one.logs_kept:
            # Before the first call: afterwards nobody can ask the VM, and some clouds drop its
            # console.
            one.logs_kept = True
            await self._collector.collect(one, one.why, has_failed=one.has_failed)
        try:
            await self._calls.make("Destroy", self._driver.destroy(one.name))
        except LadingError as error:
            event(_logger, "instance not removed", instance=one.name, why=error.message)

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
        for one in list(self.machines.values()):
            why = verdict(one.facts, self.settings.times, now=now, over_quota=self.wanted_by_others)
            if why:
                try:
                    self.shut_down(one, why)
                except IllegalTransition as error:
                    event(_logger, "verdict dropped", instance=one.name, why=error.message)
            moments.append(next_moment(one.facts, self.settings.times, now=now))
        moments.append(self.present_limits().next_moment(now=now))
        return min((one for one in moments if one is not None), default=None)

    def _spawn(self, work: Work, name: str, one: CloudMachine | None = None) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        if one is not None:
            one.task = task

    def present_limits(self) -> cloud_limits.Limits:
        """The limits, with the types that were taken away lately."""
        return self._losses.limit(self.limits)

    def by_name(self) -> Mapping[str, CloudMachine]:
        """The VMs by name."""
        return {one.name: one for one in self.machines.values()}


def _due(one: CloudMachine, settings: CloudSettings, now: float) -> bool:
    return (
        one.asked is None or one.asked < one.since or now - one.asked >= settings.shutdown_timeout
    )
