"""Fair share between projects: accounts and tickets, kept in the transaction of each change.

`core.policy.fair_share` decides; the rows are in `store.fair_shares`. Without
`Containers.FairShare.Enabled` no unit uses this module, and nothing is read or stored.

- `priorities` and `enter`: a container that comes to wait gets a ticket, and from it its priority.
- `follow`: a lock, a return to the queue, an end.
- `prolong`, by a timer: charges of containers that are held for longer than was expected.

Each of them changes the rows of one or two shares, and the priority of at most WINDOW containers.
Source: docs/spec/containers, section Fair share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from lading.api.server.machine_board import CAPACITY
from lading.api.unit import ChangeFollower, Feature, Unit
from lading.core import resources
from lading.core.containers import priority
from lading.core.containers.attempts.retry_rules import SHARE
from lading.core.containers.container import FINAL, HELD, Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.hpc.gang import SHARE_VCPUS
from lading.core.policy import fair_share
from lading.core.policy.fair_share import (
    WINDOW,
    Claim,
    ShareAccount,
    Ticket,
)
from lading.core.quantities import parse_time
from lading.core.records.container_types import CONTAINERS
from lading.core.records.schema import Record
from lading.core.resources import Resources
from lading.core.scheduling.expected_times import Tool, run_time, tool_of
from lading.store import fair_shares as rows
from lading.store import records, run_times
from lading.store.fair_shares import Place, StoredTicket

_PROLONGED: Final = 200
_RETIRED: Final = 200
# Half-lives after which an account that nobody uses is deleted: nothing is left of its use.
_FORGOTTEN: Final = 20


def of(unit: Unit) -> FairShares:
    """The accounts and tickets of a unit, where fair share is on (`Unit.uses`)."""
    return unit.part(FairShares)


class ShareTickets(ChangeFollower):
    """Keeps the tickets of containers whose state changes."""

    feature = Feature.SHARES
    of_containers = ("state",)

    async def container_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """Follow a lock, a return to the queue, an end."""
        if old:
            await of(unit).follow(old, new)


class FairShares:
    """Accounts and tickets of one transaction."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._tx = unit.tx
        self._config = unit.services.config.Containers.FairShare
        self._now = milliseconds(unit.now)
        # Many containers of a transaction belong to the same few owners.
        self._shares: dict[str, tuple[str, float]] = {}
        self._times: dict[Tool, int] = {}
        # Levels and shares in which a container gave up its exact tag, with the clock then.
        self._open: dict[tuple[int, str], int] = {}

    async def priorities(
        self, claims: Mapping[str, Claim | None], stored: Mapping[str, Record]
    ) -> dict[str, int]:
        """The new priorities of containers whose stored priority is wrong, from their claims."""
        tickets = await rows.tickets(self._tx, claims)
        changed: dict[str, int] = {}
        for uuid, claim in claims.items():
            value = await self._priority(stored[uuid], claim, tickets.get(uuid))
            if value != stored[uuid]["priority"]:
                changed[uuid] = value
        # After all have left: one that comes forward must not be one that leaves.
        for uuid in await self._fill():
            changed.pop(uuid, None)
        return changed

    async def enter(self, container: Container, claim: Claim) -> int:
        """Have a new container wait; its priority."""
        share, weight = await self.share_of(claim.request)
        tool = tool_of(container, 0)
        clock = await self._clock(claim.level)
        stored = await rows.account(self._tx, claim.level, share)
        account, reached = stored or (ShareAccount(finish=clock, changed_at=self._now), clock)
        account = replace(account, weight=weight)
        expected = await self._expected(tool, account)
        vcpus = fair_share.dominant_vcpus(
            _need(container), self._unit.services.features[CAPACITY].ratios
        )
        new = StoredTicket(
            container_uuid=container.uuid,
            level=claim.level,
            share=share,
            created=milliseconds(claim.request.created_at),
            state=Place.PARKED,
            ticket=Ticket(tag=0, vcpus=vcpus, weight=weight, expected=expected, charge=0),
        )
        floor = self._floor(account, new, clock)
        waiting = await rows.exact(self._tx, claim.level, share, since=floor)
        # Older ones that are parked go first.
        if len(waiting) >= WINDOW or await rows.parked(self._tx, claim.level, share, most=1):
            await rows.put_ticket(self._tx, new)
            if stored is None or stored[0].weight != weight:
                await rows.put_account(self._tx, claim.level, share, account, reached=reached)
        else:
            account, new = self._charged(account, new, clock, is_first=not waiting)
            await rows.put_account(self._tx, claim.level, share, account, reached=reached)
            await rows.put_ticket(self._tx, new)
        return _priority_of(new, claim.level)

    async def follow(self, old: Record, new: Record) -> None:
        """Follow the change of a container's state."""
        entry = (await rows.tickets(self._tx, [new["uuid"]])).get(new["uuid"])
        if entry is None:
            return
        if new["state"] == ContainerState.LOCKED:
            await self._locked(entry)
        elif new["state"] == ContainerState.QUEUED:
            # It keeps its tag, and what it was charged.
            await rows.put_ticket(self._tx, replace(entry, state=Place.EXACT, held_at=0, due=None))
        elif new["state"] in FINAL and old["state"] in HELD:
            await self._ended(entry)
        elif new["state"] in FINAL:
            await self._left(entry)
            await self._fill()

    async def share_of(self, request: ContainerRequest) -> tuple[str, float]:
        """The uuid and weight of the share of a request: of the project with a weight that is
        nearest to it, else of the topmost project, else of its owner; or of the user.
        """
        configured = self._config.Weights
        if self._config.By == fair_share.BY_USER:
            user = request.committed_by_uuid or request.owner_uuid
            return user, configured.get(user, 1.0)
        owner = request.owner_uuid
        if owner not in self._shares:
            self._shares[owner] = await self._find_share(owner)
        return self._shares[owner]

    async def _find_share(self, owner: str) -> tuple[str, float]:
        configured, top = self._config.Weights, owner
        for uuid, policy in await rows.policies_above(self._tx, owner):
            weight = policy.get(SHARE, configured.get(uuid))
            if isinstance(weight, int | float):
                return uuid, float(weight)
            top = uuid
        return top, configured.get(top, 1.0)

    async def _priority(self, row: Record, claim: Claim | None, entry: StoredTicket | None) -> int:
        if claim is None:
            if entry is not None and entry.state is not Place.HELD:
                await self._left(entry)
            return 0
        if row["state"] in HELD:
            # The charge stays where it is; the level counts for children.
            own = priority.own_priority(claim.level, claim.request.created_at)
            return own if entry is None else _priority_of(entry, claim.level)
        if entry is not None:
            share, _ = await self.share_of(claim.request)
            if (entry.level, entry.share) == (claim.level, share):
                return _priority_of(entry, claim.level)
            await self._left(entry)
        return await self.enter(Container.from_record(row), claim)

    async def _clock(self, level: int) -> int:
        found = await rows.clock(self._tx, level)
        return found or fair_share.first_clock(self._now)

    async def _account(self, entry: StoredTicket, clock: int) -> tuple[ShareAccount, int]:
        """The account of a ticket, brought up, and the largest tag that it locked."""
        stored = await rows.account(self._tx, entry.level, entry.share)
        account, reached = stored or (
            ShareAccount(weight=entry.ticket.weight, finish=clock, changed_at=self._now),
            clock,
        )
        return self._brought_up(account, clock), reached

    def _brought_up(
        self, account: ShareAccount, clock: int, floor: int | None = None
    ) -> ShareAccount:
        half_life = round(self._config.HalfLife * 1000)
        return fair_share.bring_up(
            account, clock=clock, now=self._now, half_life=half_life, floor=floor
        )

    def _floor(self, account: ShareAccount, entry: StoredTicket, clock: int) -> int:
        ticket = entry.ticket
        return fair_share.floor(account, clock=clock, vcpus=ticket.vcpus, expected=ticket.expected)

    def _charged(
        self, account: ShareAccount, entry: StoredTicket, clock: int, *, is_first: bool = False
    ) -> tuple[ShareAccount, StoredTicket]:
        """The account with a container that gets an exact tag; `is_first`: no other one waits."""
        floor = clock if is_first else self._floor(account, entry, clock)
        account, ticket = fair_share.admit(
            self._brought_up(account, clock, floor),
            vcpus=entry.ticket.vcpus,
            expected=entry.ticket.expected,
        )
        return account, replace(entry, state=Place.EXACT, ticket=ticket)

    async def _locked(self, entry: StoredTicket) -> None:
        clock = await self._clock(entry.level)
        account, reached = await self._account(entry, clock)
        if entry.state is Place.PARKED:
            # A dispatcher had room for it before it came forward; the clock stays.
            account, entry = self._charged(account, entry, clock)
        else:
            waiting = await rows.exact(self._tx, entry.level, entry.share, since=0)
            start = fair_share.virtual_start(
                account, entry.ticket, [waiter.ticket for waiter in waiting]
            )
            reached = max(reached, start)
        clock = max(clock, reached)
        held_entry = replace(
            entry, state=Place.HELD, held_at=self._now, due=self._now + entry.ticket.expected
        )
        await rows.put_ticket(self._tx, held_entry)
        await rows.put_account(self._tx, entry.level, entry.share, account, reached=reached)
        await self._forward(entry.level, entry.share, clock)
        await self._align(entry.level, entry.share, clock)
        passed_share = await rows.passed_over(self._tx, entry.level, clock=clock)
        if passed_share is not None and passed_share != entry.share:
            await self._forward(entry.level, passed_share, clock)

    async def _ended(self, entry: StoredTicket) -> None:
        clock = await self._clock(entry.level)
        account, reached = await self._account(entry, clock)
        held_ms = max(0, self._now - entry.held_at)
        account = fair_share.finish(account, entry.ticket, held_ms=held_ms)
        await rows.put_account(self._tx, entry.level, entry.share, account, reached=reached)
        await rows.remove_ticket(self._tx, entry.container_uuid)
        await self._align(entry.level, entry.share, clock)

    async def _left(self, entry: StoredTicket) -> None:
        """Take a container out that does not wait any more."""
        await rows.remove_ticket(self._tx, entry.container_uuid)
        if entry.state is Place.EXACT:
            clock = await self._clock(entry.level)
            account, reached = await self._account(entry, clock)
            account = fair_share.withdraw(account, entry.ticket)
            await rows.put_account(self._tx, entry.level, entry.share, account, reached=reached)
            self._open[entry.level, entry.share] = clock

    async def _fill(self) -> list[str]:
        """Have parked containers come forward for those that left; their uuids."""
        opened, self._open = self._open, {}
        moved: list[str] = []
        for (level, share), clock in opened.items():
            moved += await self._forward(level, share, clock)
        return moved

    async def _forward(self, level: int, share: str, clock: int) -> list[str]:
        """Give parked containers of a share exact tags, as far as there is room; their uuids."""
        parked = await rows.parked(self._tx, level, share, most=WINDOW)
        if not parked:
            return []
        account, reached = await self._account(parked[0], clock)
        floor = self._floor(account, parked[0], clock)
        coming = parked[: WINDOW - len(await rows.exact(self._tx, level, share, since=floor))]
        stored = await self._containers(coming)
        for entry in coming:
            # More may be known than when it came.
            tool = tool_of(Container.from_record(stored[entry.container_uuid]), 0)
            expected = await self._expected(tool, account)
            entry = replace(entry, ticket=replace(entry.ticket, expected=expected))
            account, entry = self._charged(account, entry, clock)
            await self._put(entry, stored[entry.container_uuid])
        await rows.put_account(self._tx, level, share, account, reached=reached)
        return [entry.container_uuid for entry in coming]

    async def _align(self, level: int, share: str, clock: int) -> None:
        """Give the first waiting container of a share the tag that follows from what the share has
        used by now. The tags behind it are those of the time when each came forward.
        """
        stored = await rows.account(self._tx, level, share)
        waiting = await rows.exact(self._tx, level, share, since=0)
        if stored is None or not waiting:
            return
        account = stored[0]
        floor = self._floor(account, waiting[0], clock)
        waiting = [entry for entry in waiting if entry.ticket.tag >= floor] or waiting[-1:]
        moved = fair_share.align(account, [entry.ticket for entry in waiting], floor=floor)
        changed = waiting[: len(moved)]
        if changed:
            containers = await self._containers(changed)
            for entry, ticket in zip(changed, moved, strict=True):
                await self._put(replace(entry, ticket=ticket), containers[entry.container_uuid])

    async def _put(self, entry: StoredTicket, row: Record) -> None:
        """Store an exact ticket, and the priority that follows."""
        await rows.put_ticket(self._tx, entry)
        value = _priority_of(entry, entry.level)
        if value != row["priority"]:
            await self._unit.write_container(row, {"priority": value}, expected={})

    async def _containers(self, tickets: Sequence[StoredTicket]) -> dict[str, Record]:
        uuids = [entry.container_uuid for entry in tickets]
        containers = await records.among(self._tx, CONTAINERS, "uuid", uuids)
        return {row["uuid"]: row for row in containers}

    async def _expected(self, tool: Tool, account: ShareAccount) -> int:
        """Milliseconds for which a container of a tool is expected to be held."""
        if tool not in self._times:
            found = run_time(await run_times.find(self._tx, tool))
            self._times[tool] = max(1, round(found.median * 1000)) if found else 0
        return self._times[tool] or account.expected or fair_share.DEFAULT_EXPECTED

    async def prolong(self) -> None:
        """Charge containers that are held for longer than was expected."""
        for entry in await rows.overdue(self._tx, self._now, most=_PROLONGED):
            clock = await self._clock(entry.level)
            account, reached = await self._account(entry, clock)
            held_ms = self._now - entry.held_at
            account, ticket = fair_share.prolong(account, entry.ticket, held_ms=held_ms)
            longer = replace(entry, ticket=ticket, due=entry.held_at + ticket.expected)
            await rows.put_ticket(self._tx, longer)
            await rows.put_account(self._tx, entry.level, entry.share, account, reached=reached)
            await self._align(entry.level, entry.share, clock)


def forget_before(now: datetime, half_life: float) -> int:
    """The time before which an account must have been used to be deleted, in milliseconds."""
    return round((now.timestamp() - _FORGOTTEN * half_life) * 1000)


async def retire(unit: Unit) -> None:
    """Remove some tickets, as fair share is off, and mark their containers: these get the priority
    that they have without it.
    """
    uuids = await rows.waiting(unit.tx, most=_RETIRED)
    for uuid in uuids:
        await rows.remove_ticket(unit.tx, uuid)
    unit.stale(uuids)


def _priority_of(entry: StoredTicket, level: int) -> int:
    if entry.state is Place.PARKED:
        return fair_share.parked_priority(level, entry.created)
    return fair_share.priority_at(level, entry.ticket.tag)


def _need(container: Container) -> Resources:
    nodes = container.scheduling_parameters.get("nodes")
    try:
        need = resources.need(container.runtime_constraints)
    except Invalid:
        # No dispatcher can size it either.
        return Resources(1)
    if not isinstance(nodes, int) or nodes <= 1:
        return need
    shares = container.scheduling_parameters.get(SHARE_VCPUS) is True
    return resources.gang_need(need, nodes, shares_vcpus=shares)


def milliseconds(moment: str) -> int:
    return round(parse_time(moment).timestamp() * 1000)
