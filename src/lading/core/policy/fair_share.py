"""Fair share: the order of waiting containers of several projects at equal priority.

Without it the older request goes first. With it (`Containers.FairShare`) a *virtual time* takes the
place of the age in `container.priority`; dispatchers do not change. This is start-time fair
queueing (Goyal, Vin and Cheng, 1996), with shares in place of flows:

- A *share* is a project with the weight that an admin gave it, or a user. Each priority of requests
  is a *level* with accounts of its own: a higher priority goes first, whatever was used.
- The *work* of a container is its dominant resource, in VCPUs (`dominant_vcpus`), times the time
  for which it is expected to be held. The *charge* of a share is work divided by its weight.
- The *tag* of a container is the virtual time at which it is due: the finish of its share, or the
  clock if that is later and no other container of the share waits. The finish then moves on by its
  charge. The lowest tag goes first.
- The *clock* of a level is the latest virtual time at which a container was locked
  (`virtual_start`). Dispatchers lock in parallel, and where there is room, so a share that waits
  may be behind it: by WINDOW containers at most (`floor`).
- At the end of a container the finish is corrected by the time for which it was held. While one is
  held longer than it was charged for, its charge is doubled again and again (`prolong`). The first
  waiting container of the share follows (`align`).
- The first WINDOW waiting containers of a share have exact tags. Those behind are *parked*, after
  all exact tags of their level, in order of age; one comes forward when another is locked.

Past use counts for a while. A share that comes back behind the clock has used less than it could:
the difference becomes *credit*. A share with credit is charged half, until it is used up. Credit,
use, and the advance of a share of which nothing waits decay, half of them in each half-life. Credit
changes the rate only, so no share ever waits for another to catch up first.

Bounds (tests/core/policy): between two shares that wait all the time and have no credit, work
divided by weight differs by at most the largest charge of each. Before the first container of a
share starts, each other share starts at most its weight, times LENT, times the distance of that
container's tag from the clock, and two containers more.

Amounts are integers: virtual milliseconds, of one VCPU at weight 1. Source: docs/spec/containers,
section Fair share.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lading.core.containers.priority import STEP, parents_first
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.resources import GIB, Resources
from lading.core.values import Json

WINDOW: Final = 32
"""Waiting containers of a share that have exact tags."""
LENT: Final = 2
"""A share with credit is charged this part of the usual."""
GRAIN: Final = 6
"""Bits of a tag that a priority leaves out: 64 ms, so that the clock lasts for decades."""
PARKED: Final = STEP - (1 << 42)
"""First of the tags of parked containers, in units of 64 ms. 42 bits are milliseconds until
2109."""
BY_PROJECT: Final = "project"
BY_USER: Final = "user"
LEAST_WEIGHT: Final = 0.1
MOST_WEIGHT: Final = 1000.0
DEFAULT_EXPECTED: Final = 1_000
"""Expected time of a container without a known run time, in milliseconds. It is short: `prolong`
adds to the charge while the container is held, and only its end takes from it."""
_LEARNS: Final = 0.25
# Part of its charge by which the first tag may be wrong: a small fault costs no write.
_EXACT: Final = 8
_RAM_OF_VCPU: Final = 4 * GIB
_VCPUS_OF_GPU: Final = 8
# Charges are bounded, so that no container moves the clock out of range.
_MOST_CHARGE: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Ratios:
    """Bytes of RAM, and VCPUs for a GPU, that count as much as one another: those of the machines
    that dispatchers report, or 4 GiB and 8.
    """

    ram: int = _RAM_OF_VCPU
    gpu: int = _VCPUS_OF_GPU


@dataclass(frozen=True, slots=True)
class Claim:
    """A waiting container's claim: its level, and the request by which it is due."""

    level: int
    request: ContainerRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAccount:
    """The account of a share at one level.

    `used`: resource-milliseconds, decayed. `changed_at`: time of the last change, milliseconds
    since 1970. `expected`: mean time for which its containers were held, 0 before the first.
    """

    weight: float = 1.0
    finish: int = 0
    credit: int = 0
    used: int = 0
    changed_at: int = 0
    expected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The charge of one container: `charge` of the finish and `lent` of the credit, for
    `expected` milliseconds of `vcpus`, at `weight`. `tag` is its virtual time.
    """

    tag: int
    vcpus: float
    weight: float
    expected: int
    charge: int
    lent: int = 0


@dataclass(frozen=True, slots=True)
class SharePosition:
    """The place of a waiting container between shares: the name of its share, how many times its
    part of all use that has used lately (0: nobody has used any), and how many of the containers
    before it are of other shares.
    """

    name: str
    times: float
    others: int

    @property
    def sentence(self) -> str:
        """The order, in words, and what the share has used."""
        rule = "a higher priority goes first, then the project that has used least of its share"
        use = f"; {self.name} has used {self.times:.1f} times its share" if self.times else ""
        return f"{rule}{use}"


def dominant_vcpus(need: Resources, ratios: Ratios = Ratios()) -> float:
    """The dominant resource of a container in VCPUs: the largest of its VCPUs, RAM and GPUs."""
    return max(need.vcpus, need.ram / max(1, ratios.ram), need.gpus * ratios.gpu, 0.001)


def ratios_of(capacity: Resources) -> Ratios:
    """The ratios of a capacity; the usual ones where it has no VCPUs, or no GPUs."""
    if capacity.vcpus <= 0 or capacity.ram <= 0:
        return Ratios()
    gpu = max(1, round(capacity.vcpus / capacity.gpus)) if capacity.gpus else _VCPUS_OF_GPU
    return Ratios(max(1, capacity.ram // capacity.vcpus), gpu)


def read_weight(where: str, value: Json) -> float | None:
    """The weight of a share; None where there is none. `where` names it in errors. Raises
    Invalid.
    """
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not LEAST_WEIGHT <= value <= MOST_WEIGHT
    ):
        raise Invalid(f"{where}: must be a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}")
    return float(value)


def first_clock(now: int) -> int:
    """The clock of a level without accounts at `now`, milliseconds since 1970: requests that were
    made before go first, in order of age.
    """
    return now << GRAIN


def floor(account: ShareAccount, *, clock: int, vcpus: float, expected: int) -> int:
    """The least finish of a share of which containers wait, where such a container comes."""
    return clock - WINDOW * _charge(vcpus, expected, account.weight)


def bring_up(
    account: ShareAccount, *, clock: int, now: int, half_life: int, floor: int | None = None
) -> ShareAccount:
    """The account at `now`: its credit and use have decayed, and it is not behind `floor`.

    None: it has no floor now, as no container comes. With the clock as floor, where no container
    waits, its advance has decayed too.
    """
    # Clocks of servers may differ a little; time does not go back here.
    halves = max(0, now - account.changed_at) / max(1, half_life)
    decay = 2.0**-halves
    credit, finish = account.credit * decay, account.finish
    if finish > clock and floor == clock:
        # While containers wait, the advance is what was charged for them.
        finish = clock + int((finish - clock) * decay)
    elif floor is not None and finish < floor:
        # What came in evenly over the time has decayed in part: the mean of 2**-x over it.
        credit += (floor - finish) * (
            (1 - decay) / (halves * math.log(2)) if halves > 1e-9 else 1.0
        )
        finish = floor
    return replace(
        account,
        finish=finish,
        credit=min(int(credit), _MOST_CHARGE),
        used=int(account.used * decay),
        changed_at=max(now, account.changed_at),
    )


def admit(account: ShareAccount, *, vcpus: float, expected: int) -> tuple[ShareAccount, Ticket]:
    """The account after a container is charged to it, and the container's ticket. The account was
    brought up.
    """
    charge = _charge(vcpus, expected, account.weight)
    lent = min(account.credit, charge - -(-charge // LENT))
    ticket = Ticket(
        tag=account.finish,
        vcpus=vcpus,
        weight=account.weight,
        expected=expected,
        charge=charge - lent,
        lent=lent,
    )
    after = replace(
        account, finish=account.finish + ticket.charge, credit=account.credit - ticket.lent
    )
    return after, ticket


def withdraw(account: ShareAccount, ticket: Ticket) -> ShareAccount:
    """The account without the charge of a container that does not wait any more."""
    return replace(
        account, finish=account.finish - ticket.charge, credit=account.credit + ticket.lent
    )


def virtual_start(account: ShareAccount, ticket: Ticket, waiting: Sequence[Ticket]) -> int:
    """The virtual time at which a container with an exact tag starts: its tag, or what the share
    had used by then if others of it, which still wait, are before it.

    `waiting` are the exact tickets of the share, this one included. Thus a container that cannot
    run anywhere moves no clock, whatever it asks for.
    """
    return min(
        ticket.tag, account.finish - sum(waiting_ticket.charge for waiting_ticket in waiting)
    )


def align(account: ShareAccount, waiting: Sequence[Ticket], *, floor: int) -> list[Ticket]:
    """The first of the waiting tickets, with other tags; none if the first is right.

    The first is due when all that was charged for others of the share is used; the tags of those
    behind it, which were given earlier, are raised to that of the first where they are below.
    """
    due = max(floor, account.finish - sum(ticket.charge for ticket in waiting))
    first = waiting[0]
    if abs(due - first.tag) <= first.charge // _EXACT:
        return []
    if due < first.tag:
        return [replace(first, tag=due)]
    return [replace(ticket, tag=due) for ticket in waiting if ticket.tag < due]


def prolong(account: ShareAccount, ticket: Ticket, *, held_ms: int) -> tuple[ShareAccount, Ticket]:
    """The account and the ticket of a container that was held for longer than it was charged for:
    it is charged for twice the time.
    """
    if held_ms < ticket.expected:
        return account, ticket
    longer = _recharged(ticket, max(1, held_ms) * 2)
    return _moved(account, ticket, longer), longer


def finish(account: ShareAccount, ticket: Ticket, *, held_ms: int) -> ShareAccount:
    """The account after the end of a container that was held for so many milliseconds."""
    real = _recharged(ticket, held_ms)
    mean = account.expected
    return replace(
        _moved(account, ticket, real),
        used=account.used + round(ticket.vcpus * held_ms),
        expected=max(1, round(mean + (held_ms - mean) * _LEARNS) if mean else held_ms),
    )


def priority_at(level: int, tag: int) -> int:
    """The priority of a container with a tag, of a level of at least 1; below all of the level
    above, however large the tag.
    """
    return level * STEP - min(max(tag >> GRAIN, 1), PARKED - 1)


def parked_priority(level: int, created: int) -> int:
    """The priority of a parked container that was asked for at `created`, milliseconds since
    1970.
    """
    return level * STEP - min(PARKED + max(0, created), STEP - 1)


def level_of(priority: int) -> int:
    """The level of a priority, with or without fair share; 0 for none."""
    return max(0, -(-priority // STEP))


def claims(
    priorities: Mapping[str, int | None],
    requests: Iterable[ContainerRequest],
    *,
    recompute: Collection[str],
) -> dict[str, Claim | None]:
    """The claim of each container in `recompute`; None for one that no request wants.

    As `core.containers.priority.propagate`, but a child keeps only the level of its parent. Of
    several requests the one of the highest level counts, then the oldest.
    """
    wanting: dict[str, list[ContainerRequest]] = {}
    for request in requests:
        wanting.setdefault(request.container_uuid or "", []).append(request)
    levels = {
        uuid: None if priority is None else level_of(priority)
        for uuid, priority in priorities.items()
    }
    levels |= dict.fromkeys(recompute, 0)
    claim_of: dict[str, Claim | None] = {}
    for uuid in parents_first(dict.fromkeys(recompute, 0), wanting):
        claim_of[uuid] = claim = _best(wanting.get(uuid, ()), levels)
        levels[uuid] = claim.level if claim else 0
    return claim_of


def times_its_share(used: float, weight: float, all_used: float, all_weights: float) -> float:
    """How many times its share of the use of all a share has used; 0 where nothing was used."""
    if all_used <= 0 or weight <= 0:
        return 0.0
    return (used / all_used) * (all_weights / weight)


def _best(requests: Iterable[ContainerRequest], levels: Mapping[str, int | None]) -> Claim | None:
    candidates: list[Claim] = []
    for request in requests:
        inherited = levels.get(request.requesting_container_uuid or "")
        level = (request.priority or 0) if inherited is None else inherited
        if request.is_wanted and level > 0:
            candidates.append(Claim(level, request))
    return min(
        candidates,
        key=lambda claim: (-claim.level, claim.request.created_at, claim.request.uuid),
        default=None,
    )


def _charge(vcpus: float, milliseconds: int, weight: float) -> int:
    return max(1, min(round(vcpus * milliseconds / weight), _MOST_CHARGE))


def _recharged(ticket: Ticket, milliseconds: int) -> Ticket:
    """The ticket for another time, of which the same part is lent."""
    charge = _charge(ticket.vcpus, milliseconds, ticket.weight)
    before = ticket.charge + ticket.lent
    lent = charge * ticket.lent // before if before else 0
    return replace(ticket, expected=milliseconds, charge=charge - lent, lent=lent)


def _moved(account: ShareAccount, before: Ticket, after: Ticket) -> ShareAccount:
    return replace(
        account,
        finish=account.finish + after.charge - before.charge,
        credit=max(0, account.credit + before.lent - after.lent),
    )
