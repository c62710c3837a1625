"""Quotas of the model server: what is charged, and who waits, in memory.

It acts as `lading.api.quotas` does, with the same decisions of `core`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lading.core.containers import priority
from lading.core.containers.container import FINAL, HELD, Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Invalid
from lading.core.policy import quotas as policy
from lading.core.policy.budgets import Spent, crossed
from lading.core.policy.quotas import Amounts, Limit, Quota, Room, Shortage, Standing
from lading.store.quota_waits import WORKFLOWS
from tests.simulation.rules import ServerRules
from tests.simulation.tables import RecordTables

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge of a container to a subject."""

    rank: int
    held: bool
    amounts: Amounts
    runs_workflow: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """A request that waits for the quota of a subject."""

    container_uuid: str
    queue: str
    rank: int


@dataclass(slots=True)
class ModelQuotas:
    """Charges by container and subject, and waits by request.

    `stale` are containers whose priority is to be computed anew, `touched` subjects whose waiting
    requests are to be looked at.
    """

    records: RecordTables
    rules: ServerRules
    charges: dict[str, dict[str, Charge]] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    stale: dict[str, None] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    warned: dict[str, str] = field(default_factory=dict)
    """Warnings for containers that run, to be stored."""

    def concerning(self, subject: ContainerRequest) -> list[Quota]:
        """The quotas of a request, by subject."""
        subjects = {subject.committed_by_uuid, subject.owner_uuid}
        return [one for uuid, one in sorted(self.records.quotas.items()) if uuid in subjects]

    def check_new(self, subject: ContainerRequest, container: Container) -> bool:
        """Whether quotas concern a new container's request. Raises Invalid."""
        found = self.concerning(subject)
        for one in found:
            is_runner = policy.runs_workflow(container)
            policy.check_single(one, policy.amounts_of(container), runs_workflow=is_runner)
        return bool(found)

    def admit(
        self, recompute: Iterable[str], counting: list[ContainerRequest],
        parents: Mapping[str, int | None],
    ) -> list[ContainerRequest]:  # fmt: skip
        """Those of the counting requests that have room."""
        if not self.records.quotas:
            return counting
        recompute = list(recompute)
        known = {**parents, **priority.propagate(parents, counting, recompute=recompute)}
        wanting: dict[str, list[tuple[int, ContainerRequest]]] = {}
        for one in counting:
            rank = priority.request_value(one, known)
            wanting.setdefault(one.container_uuid or "", []).append((rank, one))
        was = {uuid: one for uuid, one in self.waits.items() if one.container_uuid in recompute}
        held: dict[str, Wait] = {}
        containers = self.records.containers
        queued = [one for one in recompute if containers[one].state is ContainerState.QUEUED]
        for uuid in sorted(
            queued, key=lambda one: -max((r for r, _ in wanting.get(one, ())), default=0)
        ):
            ranked = sorted(wanting.get(uuid, ()), key=lambda one: (-one[0], one[1].uuid))
            held |= self._settle_one(containers[uuid], ranked)
        self.waits |= held
        for uuid in was.keys() - held.keys():
            self.waits.pop(uuid, None)
        for uuid, former in was.items():
            if uuid not in held or held[uuid].queue != former.queue:
                self.touched[former.queue] = None
        return [one for one in counting if one.uuid not in held]

    def _settle_one(
        self, container: Container, ranked: Iterable[tuple[int, ContainerRequest]]
    ) -> dict[str, Wait]:
        kept: dict[str, int] = {}
        short: dict[str, Wait] = {}
        wanted = policy.amounts_of(container)
        charged = dict(self.charges.get(container.uuid, {}))
        for rank, subject in ranked:
            concerning = self.concerning(subject)
            if not concerning or rank <= 0:
                continue
            found = self._look(container, subject, rank, {*charged, *kept})
            if isinstance(found, Shortage):
                short[subject.uuid] = self._wait(container, rank, found)
            else:
                for one in concerning:
                    kept.setdefault(one.subject_uuid, rank)
        self.charges[container.uuid] = {
            uuid: Charge(rank, False, wanted, policy.runs_workflow(container))
            for uuid, rank in kept.items()
        }
        self.touched |= dict.fromkeys(sorted(charged.keys() - kept.keys()))
        return short

    def _wait(self, container: Container, rank: int, found: Shortage) -> Wait:
        apart = WORKFLOWS if found.limit is Limit.WORKFLOWS else ""
        return Wait(container.uuid, found.subject_uuid + apart, _NEVER if found.for_ever else rank)

    def used(
        self, subject: str, *, without: str = "", held: bool = False, workflows: bool = False
    ) -> Amounts:
        """What is charged to a subject."""
        return sum(
            (
                charged[subject].amounts
                for uuid, charged in self.charges.items()
                if subject in charged
                and uuid != without
                and (charged[subject].held or not held)
                and (charged[subject].runs_workflow or not workflows)
            ),
            start=Amounts(),
        )

    def first(self, subject: str) -> tuple[str, Wait] | None:
        """The first request that waits for a subject."""
        found = [item for item in self.waits.items() if item[1].queue == subject]
        return min(found, key=lambda item: (-item[1].rank, item[0]), default=None)

    def _look(
        self, container: Container, subject: ContainerRequest, rank: int,
        charged: Iterable[str], *, head: str = "", displaces: bool = True,
    ) -> Room | Shortage:  # fmt: skip
        charged, wanted = set(charged), policy.amounts_of(container)
        standings, below = [], {}
        for one in self.concerning(subject):
            uuid = one.subject_uuid
            spent = self.spent_of(uuid)
            if uuid in charged:
                standings.append(Standing(quota=one, spent=spent))
                continue
            used = self.used(uuid, without=container.uuid)
            if displaces and policy.exceeds(used + wanted, one):
                below[uuid] = self._yielding(uuid, rank)
            is_runner = policy.runs_workflow(container)
            queues = [uuid, *([uuid + WORKFLOWS] if is_runner else [])]
            firsts = [self.first(queue) for queue in queues if queue != head]
            is_behind = any(
                first is not None
                and first[0] != subject.uuid
                and (-first[1].rank, first[0]) < (-rank, subject.uuid)
                for first in firsts
            )
            workflows = (
                self.used(uuid, without=container.uuid, workflows=True) if is_runner else None
            )
            yielding = sum((each.amounts for each in below.get(uuid, ())), start=Amounts())
            standings.append(
                Standing(
                    quota=one,
                    used=used,
                    yielding=yielding,
                    is_behind=is_behind,
                    workflows=workflows,
                    spent=spent,
                )
            )
        found = self.rules.find_room(wanted, standings)
        if isinstance(found, Room):
            self._displace(found, below)
        return found

    def _yielding(self, subject: str, rank: int) -> list[policy.Charge]:
        return [
            policy.Charge(uuid, charged[subject].rank, charged[subject].amounts)
            for uuid, charged in self.charges.items()
            if subject in charged and not charged[subject].held and charged[subject].rank < rank
        ]

    def _displace(self, room: Room, below: Mapping[str, list[policy.Charge]]) -> None:
        gone: set[str] = set()
        for subject, lacking in room.displaces.items():
            for one in below[subject]:
                if one.container_uuid in gone:
                    lacking -= one.amounts
            left = [one for one in below[subject] if one.container_uuid not in gone]
            gone |= set(policy.choose_displaced(lacking, left) or ())
        for uuid in sorted(gone):
            self.touched |= dict.fromkeys(sorted(self.charges.pop(uuid, {})))
        self.stale |= dict.fromkeys(sorted(gone))

    def fill(self) -> None:
        """Give free room to the first requests that wait."""
        touched, self.touched = self.touched, {}
        subjects = dict.fromkeys(one.removesuffix(WORKFLOWS) for one in touched)
        for subject in self.rules.refills(subjects):
            for queue in (subject, subject + WORKFLOWS):
                while self._fill_one(queue):
                    pass

    def _fill_one(self, queue: str) -> bool:
        first = self.first(queue)
        if first is None:
            return False
        uuid, was = first
        subject, container = (
            self.records.requests[uuid],
            self.records.containers[was.container_uuid],
        )
        if container.state is not ContainerState.QUEUED:
            del self.waits[uuid]
            return True
        rank = self._rank(subject) if was.rank == _NEVER else was.rank
        charged = self.charges.setdefault(container.uuid, {})
        found = self._look(container, subject, rank, charged, head=queue)
        if isinstance(found, Room):
            amounts = policy.amounts_of(container)
            for one in self.concerning(subject):
                if one.subject_uuid not in charged:
                    charged[one.subject_uuid] = Charge(
                        rank, False, amounts, policy.runs_workflow(container)
                    )
            del self.waits[uuid]
            self.stale[container.uuid] = None
            return True
        self.waits[uuid] = moved = self._wait(container, rank, found)
        return moved.queue != queue or moved.rank != was.rank

    def _rank(self, subject: ContainerRequest) -> int:
        parent = self.records.containers.get(subject.requesting_container_uuid or "")
        return priority.request_value(subject, {parent.uuid: parent.priority} if parent else {})

    def follow(self, before: Container, after: Container) -> None:
        """Change the charges of a container with its state. Raises Conflict without room."""
        if not self.records.quotas:
            return
        if after.cost != before.cost and before.state in HELD:
            self._spend(after.uuid, after.cost - before.cost)
        if after.state is before.state:
            return
        if after.state is ContainerState.LOCKED:
            self._hold(after)
        elif after.state is ContainerState.QUEUED:
            charged = self.charges.get(after.uuid, {})
            for uuid, one in charged.items():
                charged[uuid] = dataclasses.replace(one, held=False)
            self.touched |= dict.fromkeys(sorted(charged))
            self.stale[after.uuid] = None
        elif after.state in FINAL:
            self.touched |= dict.fromkeys(sorted(self.charges.pop(after.uuid, {})))
            for uuid in [u for u, one in self.waits.items() if one.container_uuid == after.uuid]:
                self.touched[self.waits.pop(uuid).queue] = None

    def spent_of(self, subject_uuid: str) -> Spent:
        """What a subject has spent in all; there are no limits for a period here."""
        return Spent(0.0, self.spent.get(subject_uuid, 0.0))

    def _spend(self, container_uuid: str, amount: float) -> None:
        for uuid in sorted(self.charges.get(container_uuid, {})):
            quota, was = self.records.quotas[uuid], self.spent_of(uuid)
            self.spent[uuid] = was.total + amount
            after = self.spent_of(uuid)
            for _, is_end in crossed(quota.money, was, after):
                text = policy.ALL_SPENT if is_end else policy.SHARE_SPENT
                for other, charged in self.charges.items():
                    if uuid not in charged:
                        continue
                    if charged[uuid].held:
                        self.warned[other] = text
                    elif is_end:
                        self.stale[other] = None

    def _spent_before(self, subject_uuid: str) -> float:
        """What the containers of the requests of a subject have cost that paid for them."""
        asking: dict[str, list[str]] = {}
        for one in self.records.requests.values():
            if subject_uuid in (one.committed_by_uuid, one.owner_uuid):
                for uuid in (one.container_uuid or "", *one.attempted_container_uuids):
                    asking.setdefault(uuid, []).append(one.created_at)
        return sum(
            one.cost
            for uuid, one in self.records.containers.items()
            if any(made <= one.created_at for made in asking.get(uuid, ()))
        )

    def _hold(self, container: Container) -> None:
        charged = self.charges.get(container.uuid, {})
        kept: dict[str, None] = {}
        is_free, is_short = False, False
        for subject in self.records.wanting(container.uuid):
            if not subject.is_wanted or subject.uuid in self.waits:
                continue
            concerning = self.concerning(subject)
            if isinstance(self._room_to_hold(container, subject, charged), Shortage):
                is_short = True
            else:
                is_free = True
                kept |= {one.subject_uuid: None for one in concerning}
        waits = [u for u, one in self.waits.items() if one.container_uuid == container.uuid]
        if not is_free and (is_short or waits):
            raise Conflict(f"{container.uuid}: no room")
        amounts = policy.amounts_of(container)
        self.charges[container.uuid] = {
            uuid: Charge(container.priority, True, amounts, policy.runs_workflow(container))
            for uuid in kept
        }
        self.touched |= dict.fromkeys(sorted(charged.keys() - kept.keys()))
        for uuid in waits:
            self.touched[self.waits.pop(uuid).queue] = None
            self.stale[container.uuid] = None

    def _room_to_hold(
        self, container: Container, subject: ContainerRequest, charged: Mapping[str, Charge]
    ) -> Room | Shortage:
        concerning = self.concerning(subject)
        if any(one.subject_uuid not in charged for one in concerning):
            return self._look(container, subject, self._rank(subject), (), displaces=False)
        is_runner = policy.runs_workflow(container)
        standings = []
        for one in concerning:
            uuid = one.subject_uuid
            used = self.used(uuid, without=container.uuid, held=True)
            workflows = self.used(uuid, without=container.uuid, held=True, workflows=True)
            standings.append(
                Standing(
                    quota=one,
                    used=used,
                    workflows=workflows if is_runner else None,
                    spent=self.spent_of(uuid),
                )
            )
        return self.rules.find_room(policy.amounts_of(container), standings)

    def refuse(self, container_uuid: str) -> None:
        """Look anew at a container whose lock was refused."""
        self.touched |= dict.fromkeys(sorted(self.charges.pop(container_uuid, {})))
        self.stale[container_uuid] = None

    def set(self, quota: Quota) -> None:
        """Make or change a quota; what waits is looked at anew."""
        is_new = quota.subject_uuid not in self.records.quotas
        self.records.quotas[quota.subject_uuid] = quota
        if is_new:
            self.spent[quota.subject_uuid] = self._spent_before(quota.subject_uuid)
            for container in self._live(quota.subject_uuid, HELD):
                amounts, is_runner = policy.amounts_of(container), policy.runs_workflow(container)
                charge = Charge(container.priority, True, amounts, is_runner)
                self.charges.setdefault(container.uuid, {})[quota.subject_uuid] = charge
        self._look_anew(quota.subject_uuid)

    def remove(self, subject_uuid: str) -> None:
        """Remove a quota."""
        if self.records.quotas.pop(subject_uuid, None) is None:
            raise Invalid(f"{subject_uuid}: has no quota")
        self.spent.pop(subject_uuid, None)
        for charged in self.charges.values():
            charged.pop(subject_uuid, None)
        self._look_anew(subject_uuid)
        self.stale |= {
            one.container_uuid: None
            for one in self.waits.values()
            if one.queue.removesuffix(WORKFLOWS) == subject_uuid
        }

    def _look_anew(self, subject_uuid: str) -> None:
        for uuid, charged in list(self.charges.items()):
            one = charged.get(subject_uuid)
            if one is not None and not one.held:
                self.touched |= dict.fromkeys(sorted(self.charges.pop(uuid)))
                self.stale[uuid] = None
        live = self._live(subject_uuid, {ContainerState.QUEUED})
        self.stale |= {one.uuid: None for one in live}
        self.touched[subject_uuid] = None

    def _live(self, subject_uuid: str, states: Iterable[ContainerState]) -> list[Container]:
        found = {
            one.container_uuid or ""
            for one in self.records.requests.values()
            if one.state == "Committed" and subject_uuid in (one.committed_by_uuid, one.owner_uuid)
        }
        containers = self.records.containers
        return [containers[uuid] for uuid in sorted(found) if containers[uuid].state in states]
