"""The watch over one VM: a connection while the VM exists, probes, reports to the fleet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from lading.core.errors import LadingError, Unavailable
from lading.core.scheduling.instance_lifecycle import InstanceEvent, InstancePhase
from lading.dispatch.fleets.cloud.cloud_calls import CallRate
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.vm_bootstrap import VmBootstrap
from lading.net.rpc import Message, RpcReply
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")
# Seconds between attempts to reach a VM: short at first, since most are ready soon after the cloud
# lists them; never longer than a probe.
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.2, 1.5, 5.0


class Consumer(Protocol):
    """Receiver of events of VMs: the fleet."""

    def surveyed(
        self,
        machine: CloudMachine,
        live: Iterable[str],
        dead: Iterable[str],
        posts: Mapping[str, int],
    ) -> None:
        """The complete list of supervisors and of ranks on a VM."""

    def ended(self, machine: CloudMachine, uuid: str) -> None:
        """A supervisor has ended."""

    def vanished(self, machine: CloudMachine) -> None:
        """A VM is gone."""

    def touched(self) -> None:
        """A VM has changed."""


class InstanceWatch:
    """`keep` is the task of one VM. `touch` is called when something has changed, `note` when a VM
    has become ready.
    """

    def __init__(
        self,
        settings: CloudSettings,
        reach: VmBootstrap,
        consumer: Consumer,
        *,
        counts: CloudCounters,
        clock: Callable[[], float],
        touch: Callable[[], None],
        note: Callable[[CloudMachine], None],
    ) -> None:
        self._settings = settings
        self._reach = reach
        self._consumer = consumer
        self._counts = counts
        self._clock = clock
        self._touch = touch
        self._note = note
        self._probes = CallRate(settings.probe_rate)

    async def keep(self, machine: CloudMachine) -> None:
        """Keep a connection to a VM as long as the VM exists."""
        pause = _FIRST_PAUSE
        while True:
            if machine.going:
                return
            # Until it has an address there is nothing to connect to: the pool sets `changed` with
            # it.
            if not machine.address:
                await machine.changed.wait()
                machine.changed.clear()
                continue
            # VMs that boot are probed at a limited rate, all together; a ready one that was lost is
            # reached at once.
            if not machine.ready:
                await self._probes.turn()
            try:
                await self._attend(machine)
                pause = _FIRST_PAUSE
            except LadingError as error:
                self._not_reached(machine, error.message)
            if not machine.going:
                machine.changed.clear()
            try:
                async with asyncio.timeout(pause):
                    await machine.changed.wait()
            except TimeoutError:
                pause = min(pause * _GROWTH, _LONGEST_PAUSE, self._settings.probe_interval)

    def _not_reached(self, machine: CloudMachine, why: str) -> None:
        # Logged when the reason is new: a VM that boots is probed every few seconds.
        if why != machine.fault and not machine.going:
            event(_logger, "instance not reached", instance=machine.name, why=why)
        machine.fault = why
        self._consumer.touched()

    async def _attend(self, machine: CloudMachine) -> None:
        """Hold one connection to a VM until it is lost, or the VM is to go. Raises LadingError."""
        began = self._clock()
        async with self._reach(machine, lambda message: self._hear(machine, message)) as link:
            serving = asyncio.create_task(link.serve(), name=f"link {machine.name}")
            try:
                reply = await link.request("ping", timeout=60.0)
                machine.images.update(str(image) for image in reply.get("images") or [])
                # The list comes before the link is shown: nothing is started on a VM whose
                # supervisors are not known.
                answer = await link.request("list", timeout=60.0)
                self._counts.probed(self._clock() - began, failed=False)
                self._arrive(machine, answer)
                machine.link = link
                self._touch()
                await self._ask_again_and_again(machine, serving)
            except LadingError:
                # A connection that was lost, or ends with its VM, is no failed probe.
                if machine.link is None and not machine.going:
                    self._counts.probed(self._clock() - began, failed=True)
                raise
            finally:
                machine.link = None
                await cancel_all(serving)
                self._touch()

    async def _ask_again_and_again(
        self, machine: CloudMachine, serving: asyncio.Task[None]
    ) -> None:
        while machine.link is not None and machine.phase is not InstancePhase.GONE:
            done, _ = await asyncio.wait((serving,), timeout=self._settings.probe_interval)
            if done:
                raise Unavailable("its connection was lost")
            began = self._clock()
            try:
                answer = await machine.link.request(
                    "ping", timeout=max(20.0, self._settings.probe_interval)
                )
            except LadingError:
                if not machine.going:
                    self._counts.probed(self._clock() - began, failed=True)
                raise
            self._counts.probed(self._clock() - began, failed=False)
            if machine.containers or machine.posts:
                # The end of a supervisor is reported at once; this finds ends whose report was
                # lost.
                self._survey(machine, await machine.link.request("list", timeout=60.0))
            machine.answered_at = self._clock()
            self._take_health(machine, answer)

    def _take_health(self, machine: CloudMachine, answer: RpcReply) -> None:
        """Note what the agent of a VM says of its images, remains and faults."""
        machine.images.update(str(image) for image in answer.get("images") or [])
        unremoved = answer.get("unremoved")
        machine.unremoved = unremoved if isinstance(unremoved, int) else 0
        broken = str(answer.get("broken") or "")
        if broken != machine.broken:
            machine.broken = broken
            event(_logger, "instance broken", instance=machine.name, why=broken)
            self._touch()

    def _arrive(self, machine: CloudMachine, answer: RpcReply) -> None:
        now = self._clock()
        if machine.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING):
            self._counts.boot("success")
            if machine.reached is not None:
                self._counts.ready(now - machine.reached)
            event(
                _logger,
                "instance ready",
                instance=machine.name,
                type=machine.type,
                seconds=round(now - machine.created, 1),
            )
            machine.take(InstanceEvent.READY, now=now)
            self._note(machine)
        machine.answered_at, machine.fault = now, ""
        self._survey(machine, answer)

    def _survey(self, machine: CloudMachine, answer: RpcReply) -> None:
        live = [str(item.get("uuid")) for item in answer.get("live") or []]
        posts = {
            str(item.get("uuid")): int(item.get("ranks") or 1)
            for item in answer.get("outposts") or []
        }
        self._consumer.surveyed(
            machine, live, [str(uuid) for uuid in answer.get("dead") or []], posts
        )

    def _hear(self, machine: CloudMachine, message: Message) -> None:
        if message.get("op") == "verified":
            machine.reached = self._clock()
            self._counts.reached(machine.reached - machine.created)
        elif message.get("op") == "ended":
            self._consumer.ended(machine, str(message.get("uuid")))
        elif message.get("op") == "started":
            self._consumer.surveyed(
                machine, [*machine.containers, str(message.get("uuid"))], (), dict(machine.posts)
            )
