"""Quotas: limits on what a user, the users of a role, or the requests of a project may use.

A quota concerns a request whose subject it names: the user who committed it, a role of that user,
or a project that the request is in, directly or below. It limits

- `containers`, `vcpus`, `ram`, `gpus`: those of containers that are Locked or Running;
- `queued`: Committed requests whose container has not started; further ones are refused;
- `bytes_stored`: bytes in collections that belong to the subject; more is refused;
- `money` of a period, and a `budget` for all time: `core.policy.budgets`.

A container that waits has *room* once it is charged to each quota that concerns one of its
requests; the charges of a quota never exceed its limits, so locking what has room exceeds none. A
container is charged once to a quota, however many of its requests the quota concerns. A request
without room waits in the queue of the first quota that has none: its priority does not count. Who
comes first there is decided by rank, the value of the request for the priority of its container. A
later request is not admitted before an earlier one that waits for the same quota, so that small
containers do not keep a large one from ever running; one of a higher rank takes the room of
containers that wait themselves. Containers that run workflows have at most half of each amount, so
that there is room for the steps that they wait for; those without room in that half wait apart.
Locked and Running containers keep their room, also if a limit is lowered.

Source: docs/spec/containers, section Quotas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lading.core.containers.container import Container
from lading.core.errors import Invalid
from lading.core.hpc.gang import SHARE_VCPUS
from lading.core.ids import Infix, infix_of
from lading.core.policy.budgets import Money, Period, Spent, exhausted
from lading.core.records.schema import Record
from lading.core.resources import format_bytes, gang_need, need
from lading.core.values import JsonObject, printable

MOST: Final = (1 << 63) - 1
"""The largest amount that a database holds, and that a limit can be."""
HIDDEN_WAIT: Final = (
    "It waits for a quota that you cannot read: it runs when others end, or ask an administrator."
)
"""Why a request waits for a quota that the reader of the sentence cannot read."""
HIDDEN_FAULT: Final = (
    "a quota that you cannot read has no room for this; ask for less, or ask an administrator"
)
"""The fault of a call that exceeds a quota that the caller cannot read."""
SHARE_SPENT: Final = (
    "A limit on money of its user, of a role or of a project that it is in is spent for the most "
    "part; at its end nothing further starts. 'lading quota list' shows those that you can read."
)
"""The warning in a running container when the share to warn at is reached: readers of the container
need not be readers of the quota.
"""
ALL_SPENT: Final = (
    "A limit on money of its user, of a role or of a project that it is in is spent; nothing "
    "further starts. 'lading quota list' shows those that you can read."
)
"""The same at the end of a limit."""
COUNTS: Final = ("containers", "vcpus", "ram", "gpus", "queued", "bytes_stored")
"""The attributes that are whole numbers, or null."""
_LONGEST: Final = 255


class Limit(StrEnum):
    """The limits of a quota, by its attributes; ORDER: earlier requests wait for the same quota;
    WORKFLOWS: the half of it for containers that run workflows.
    """

    CONTAINERS = "containers"
    VCPUS = "vcpus"
    RAM = "ram"
    GPUS = "gpus"
    MONEY = "money"
    BUDGET = "budget"
    QUEUED = "queued"
    BYTES = "bytes_stored"
    ORDER = "order"
    WORKFLOWS = "workflows"


AMOUNTS: Final = (Limit.CONTAINERS, Limit.VCPUS, Limit.RAM, Limit.GPUS)
"""The limits on what containers hold."""
_UNITS: Final[Mapping[Limit, str]] = {
    Limit.CONTAINERS: "containers",
    Limit.VCPUS: "VCPUs",
    Limit.GPUS: "GPUs",
    Limit.QUEUED: "queued requests",
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amounts that containers hold: their number, virtual CPUs, bytes of RAM, GPUs."""

    containers: int = 0
    vcpus: int = 0
    ram: int = 0
    gpus: int = 0

    def __add__(self, amounts: Amounts) -> Amounts:
        return Amounts(
            self.containers + amounts.containers,
            self.vcpus + amounts.vcpus,
            self.ram + amounts.ram,
            self.gpus + amounts.gpus,
        )

    def __sub__(self, amounts: Amounts) -> Amounts:
        return Amounts(
            self.containers - amounts.containers,
            self.vcpus - amounts.vcpus,
            self.ram - amounts.ram,
            self.gpus - amounts.gpus,
        )

    def of(self, limit: Limit) -> int:
        """The amount that a limit is about."""
        return {
            Limit.CONTAINERS: self.containers,
            Limit.VCPUS: self.vcpus,
            Limit.RAM: self.ram,
            Limit.GPUS: self.gpus,
        }[limit]


def amounts_of(container: Container) -> Amounts:
    """The amounts that a container holds while it runs, all nodes of a gang together. A container
    that cannot be sized counts by number alone, as no machine takes it. No amount is above `MOST`.
    """
    nodes = container.scheduling_parameters.get("nodes", 1)
    try:
        one = need(container.runtime_constraints)
    except Invalid:
        return Amounts(1)
    shares = container.scheduling_parameters.get(SHARE_VCPUS) is True
    wanted = gang_need(
        one, nodes if isinstance(nodes, int) and nodes > 1 else 1, shares_vcpus=shares
    )
    return Amounts(1, *(min(amount, MOST) for amount in (wanted.vcpus, wanted.ram, wanted.gpus)))


def runs_workflow(container: Container) -> bool:
    """Whether a container says that it runs a workflow, whose steps it waits for."""
    return container.scheduling_parameters.get("supervisor") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one subject; None is no limit. `name` is how people know the subject."""

    uuid: str = ""
    owner_uuid: str = ""
    subject_uuid: str
    name: str = ""
    containers: int | None = None
    vcpus: int | None = None
    ram: int | None = None
    gpus: int | None = None
    queued: int | None = None
    bytes_stored: int | None = None
    money: Money = Money()
    contact: str = ""

    @classmethod
    def from_record(cls, record: Record) -> Quota:
        """The quota in a row."""
        return cls(
            uuid=record["uuid"],
            owner_uuid=record["owner_uuid"],
            subject_uuid=record["subject_uuid"],
            name=record["name"] or record["subject_uuid"],
            containers=record["containers"],
            vcpus=record["vcpus"],
            ram=record["ram"],
            gpus=record["gpus"],
            queued=record["queued"],
            bytes_stored=record["bytes_stored"],
            money=Money(
                limit=record["money"],
                period=Period(record["period"]),
                budget=record["budget"],
                warn_share=record["warn_share"],
                stops=bool(record["stop"]),
            ),
            contact=record["contact"] or "",
        )

    def limit(self, limit: Limit) -> int | None:
        """The limit on an amount."""
        found: int | None = getattr(self, limit.value)
        return found

    @property
    def title(self) -> str:
        """How messages name it."""
        kind = {
            Infix.USER: "user",
            Infix.GROUP: "group",
            Infix.REQUEST: "request",
        }.get(Infix(infix_of(self.subject_uuid)), "subject")
        return f"the quota of the {kind} {printable(self.name)}"

    @property
    def help(self) -> str:
        """Whom to ask for more."""
        return f"ask {printable(self.contact)}" if self.contact else "ask an administrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A quota and its present use, without the container in question.

    `used` is charged already; of that `yielding` to containers that wait and rank below the
    request. `is_behind`: a request that ranks above waits for this quota. `workflows`: of `used`,
    what runs workflows, if the container in question runs one; else None.
    """

    quota: Quota
    used: Amounts = Amounts()
    yielding: Amounts = Amounts()
    is_behind: bool = False
    workflows: Amounts | None = None
    spent: Spent = Spent()


@dataclass(frozen=True, slots=True)
class Shortage:
    """The quota that has no room for a request, and the limit that is reached.

    `for_ever`: the request alone needs more than the limit; it keeps no other one waiting.
    """

    subject_uuid: str
    limit: Limit
    for_ever: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """There is room, once the quotas named in `displaces` took back so much from containers that
    wait and rank below.
    """

    displaces: Mapping[str, Amounts]


def find_room(needed: Amounts, standings: Iterable[Standing]) -> Room | Shortage:
    """Whether there is room for a container in all these quotas."""
    displaces: dict[str, Amounts] = {}
    for standing in standings:
        short = _shortage(needed, standing)
        if short is not None:
            return short
        lacking = _excess(needed + standing.used, standing.quota)
        if lacking != Amounts():
            displaces[standing.quota.subject_uuid] = lacking
    return Room(displaces)


def _shortage(needed: Amounts, standing: Standing) -> Shortage | None:
    quota = standing.quota
    alone = _first_excess(needed, quota)
    if alone is not None:
        return Shortage(quota.subject_uuid, alone, for_ever=True)
    if standing.workflows is not None and _first_excess(
        needed + standing.workflows, quota, parts=2
    ):
        is_alone = _first_excess(needed, quota, parts=2) is not None
        return Shortage(quota.subject_uuid, Limit.WORKFLOWS, for_ever=is_alone)
    spent = exhausted(quota.money, standing.spent)
    if spent is not None:
        return Shortage(quota.subject_uuid, Limit(spent))
    full = _first_excess(needed + standing.used - standing.yielding, quota)
    if full is not None:
        return Shortage(quota.subject_uuid, full)
    return Shortage(quota.subject_uuid, Limit.ORDER) if standing.is_behind else None


def _first_excess(used: Amounts, quota: Quota, *, parts: int = 1) -> Limit | None:
    """The first limit that is exceeded, or the whole number of a part of it."""
    for name in AMOUNTS:
        most = quota.limit(name)
        if most is not None and used.of(name) > most // parts:
            return name
    return None


def _excess(used: Amounts, quota: Quota) -> Amounts:
    """The use beyond the limits; nothing where there is none."""
    return Amounts(
        *(
            0 if (most := quota.limit(name)) is None else max(0, used.of(name) - most)
            for name in AMOUNTS
        )
    )


def exceeds(used: Amounts, quota: Quota) -> bool:
    """Whether so much is more than a quota allows."""
    return _first_excess(used, quota) is not None


@dataclass(frozen=True, slots=True)
class Charge:
    """A container that waits and has room in a quota."""

    container_uuid: str
    rank: int
    amounts: Amounts


def choose_displaced(lacking: Amounts, waiting: Sequence[Charge]) -> list[str] | None:
    """The containers that give their room away so that `lacking` becomes free, the lowest rank
    first; None if all of them are not enough.
    """
    chosen: list[str] = []
    for charge in sorted(waiting, key=lambda charge: (charge.rank, charge.container_uuid)):
        if not any(lacking.of(name) > 0 for name in AMOUNTS):
            break
        # Only containers whose room helps.
        if any(lacking.of(name) > 0 and charge.amounts.of(name) > 0 for name in AMOUNTS):
            chosen.append(charge.container_uuid)
            lacking -= charge.amounts
    return None if any(lacking.of(name) > 0 for name in AMOUNTS) else chosen


def amount_text(limit: Limit, amount: float) -> str:
    """An amount with its unit."""
    if limit in (Limit.RAM, Limit.BYTES):
        unit = "of RAM" if limit is Limit.RAM else "stored"
        return f"{format_bytes(int(amount))} {unit}"
    if limit in (Limit.MONEY, Limit.BUDGET):
        return f"${amount:.2f}"
    return f"{int(amount)} {_UNITS[limit]}"


def shortage_sentence(
    quota: Quota, limit: Limit, *, used: Amounts, needed: Amounts, spent: Spent
) -> str:
    """Why a request waits for a quota: whose, how much is used of how much, and what helps."""
    if limit in (Limit.MONEY, Limit.BUDGET):
        return f"It waits for {quota.title}: {_spent_text(quota, limit, spent)}."
    if limit is Limit.WORKFLOWS:
        return (
            f"It waits for {quota.title}: containers that run workflows have at most half of it, "
            f"so that their steps can run ({use_text(quota, used)}); it runs when another workflow "
            f"ends, or {quota.help} for more."
        )
    if limit is Limit.ORDER:
        return (
            f"It waits for {quota.title}, for which requests before it wait: "
            f"{use_text(quota, used)}. Its turn comes when some of it is free."
        )
    most = quota.limit(limit) or 0
    if needed.of(limit) > most:
        return (
            f"It can never run: it needs {amount_text(limit, needed.of(limit))}, and "
            f"{quota.title} is {amount_text(limit, most)} in all; ask for less, or "
            f"{quota.help} for more."
        )
    if limit is Limit.RAM:
        use = f"{format_bytes(used.ram)} of {format_bytes(most)} of RAM"
        needs = format_bytes(needed.ram)
    else:
        use, needs = f"{used.of(limit)} of {amount_text(limit, most)}", str(needed.of(limit))
    return (
        f"It waits for {quota.title}: {use} are in use, and it needs {needs}; "
        f"it runs when others end, or {quota.help} for more."
    )


def _spent_text(quota: Quota, limit: Limit, spent: Spent) -> str:
    money = quota.money
    if limit is Limit.BUDGET:
        return (
            f"${spent.total:.2f} of its budget of ${money.budget or 0:.2f} are spent; "
            f"{quota.help} for more"
        )
    return (
        f"${spent.period:.2f} of ${money.limit or 0:.2f} a {money.period} are spent; "
        f"it runs in the next {money.period}, or {quota.help} for more"
    )


def crossing_sentence(quota: Quota, limit: str, spent: Spent, *, is_end: bool) -> str:
    """The message when the share to warn at, or the end, of "money" or "budget" is reached."""
    money = quota.money
    is_budget = limit == Limit.BUDGET
    most = (money.budget if is_budget else money.limit) or 0.0
    amount = spent.total if is_budget else spent.period
    kind = "budget" if is_budget else f"limit for the {money.period}"
    doing = "nothing further starts" if is_end else f"at ${most:.2f} nothing further starts"
    return f"{quota.title}: ${amount:.2f} of the {kind} of ${most:.2f} are spent; {doing}"


def use_text(quota: Quota, used: Amounts) -> str:
    """The use of each limited amount, as "3 of 10 containers"."""
    parts = []
    for name in AMOUNTS:
        most = quota.limit(name)
        if most is None:
            continue
        if name is Limit.RAM:
            parts.append(f"{format_bytes(used.ram)} of {format_bytes(most)} of RAM")
        else:
            parts.append(f"{used.of(name)} of {most} {_UNITS[name]}")
    return ", ".join(parts) or "no limit"


def check_single(quota: Quota, needed: Amounts, *, runs_workflow: bool = False) -> None:
    """Check that a container could run within a quota that nobody else uses. Raises Invalid."""
    limit = _first_excess(needed, quota, parts=2 if runs_workflow else 1)
    if limit is not None:
        half = ", of which a workflow has half, so that its steps can run" if runs_workflow else ""
        raise Invalid(
            f"Runtime constraints need {amount_text(limit, needed.of(limit))}, and {quota.title} "
            f"is {amount_text(limit, quota.limit(limit) or 0)} in all{half}; ask for less, or "
            f"{quota.help} for more"
        )


def check_queued(quota: Quota, queued: int, *, more: int = 1) -> None:
    """Check that `more` requests may be committed beside `queued` that wait. Raises Invalid."""
    most = quota.queued
    if most is not None and queued + more > most:
        raise Invalid(
            f"{quota.title[:1].upper()}{quota.title[1:]} is used up: {queued} of {most} requests "
            f"wait; commit it when some have started, or {quota.help} for more"
        )


def check_stored(quota: Quota, stored: int, *, more: int) -> None:
    """Check that `more` bytes may be stored beside `stored`. Raises Invalid."""
    most = quota.bytes_stored
    if most is not None and more > 0 and stored + more > most:
        raise Invalid(
            f"{quota.title[:1].upper()}{quota.title[1:]} has no room for {format_bytes(more)}: "
            f"{format_bytes(stored)} of {format_bytes(most)} are stored; delete some collections, "
            f"or {quota.help} for more"
        )


def check_quota(record: Record) -> None:
    """Check the values of a quota before they are stored. Raises Invalid."""
    infix = infix_of(record["subject_uuid"] or "")
    if infix not in (Infix.USER, Infix.GROUP, Infix.REQUEST):
        raise Invalid("subject_uuid: must be a user, a group or a project, or a request")
    for name in (*COUNTS, "money", "budget"):
        # Written so that it is false for nan, too.
        if record[name] is not None and not record[name] >= 0:
            raise Invalid(f"{name}: must not be negative; null is no limit")
    if record["period"] not in tuple(Period):
        raise Invalid(f"period: must be {', '.join(Period)}")
    if not 0 < record["warn_share"] <= 1:
        raise Invalid("warn_share: must be above 0, and 1 at most")
    if infix == Infix.REQUEST and record["bytes_stored"] is not None:
        raise Invalid("bytes_stored: a request stores nothing itself; limit its project")
    for name in ("name", "contact"):
        _check_line(name, record[name] or "")


def _check_line(name: str, line: str) -> None:
    if len(line) > _LONGEST or not line.isprintable():
        raise Invalid(f"{name}: must be a line of at most {_LONGEST} characters")


def shown_use(quota: Quota, used: Amounts, spent: Spent, queued: int, stored: int) -> JsonObject:
    """Plain JSON of the present use, by attribute."""
    return {
        "containers": used.containers,
        "vcpus": used.vcpus,
        "ram": used.ram,
        "gpus": used.gpus,
        "queued": queued if quota.queued is not None else None,
        "bytes_stored": stored if quota.bytes_stored is not None else None,
        "money": spent.period,
        "budget": spent.total,
    }
