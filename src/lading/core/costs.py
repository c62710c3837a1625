"""Cost report: what requests cost, what reuse saved, and what was lost.

- The cost of a container is that of its own machine (`Container.cost`), without the requests that
  it made: those are requests themselves. Each container is counted once, for the first request that
  had it from its beginning.
- Saved by reuse: the cost of the successful containers that requests found, or joined, instead of
  running their own; of a workflow with all that it asked for.
- Lost to preemption, failures and cancellation: the part of the cost that was spent on containers
  that ended so. A command that failed counts as a failure.

Source: docs/spec/containers, section Cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from types import MappingProxyType
from typing import Final

from lading.core.containers.attempts.retry import failure_class
from lading.core.containers.container import FINAL, Container, has_succeeded
from lading.core.errors import Failure
from lading.core.values import JsonObject

_LOSSES: Final = MappingProxyType(
    {
        Failure.PREEMPTED: "lost_to_preemption",
        None: "lost_to_cancellation",
    }
)


class CostGroup(StrEnum):
    """Group of requests that each line of a report adds up."""

    PROJECT = "project"
    USER = "user"
    TOOL = "tool"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedRequest:
    """A request and its containers, the present one last; unknown ones are left out.

    `project` is the owner, `user` who committed it, `created_at` an API timestamp. `charged`: its
    `cumulative_cost`, 0 where it found a finished container.
    """

    uuid: str
    created_at: str
    project: str
    user: str
    containers: tuple[Container, ...]
    charged: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """Sums of one group, in dollars; the three losses are parts of what was spent."""

    requests: int = 0
    spent: float = 0.0
    saved_by_reuse: float = 0.0
    lost_to_preemption: float = 0.0
    lost_to_failures: float = 0.0
    lost_to_cancellation: float = 0.0

    def shown(self) -> JsonObject:
        """Plain JSON of the line."""
        return {
            "requests": self.requests,
            "spent": self.spent,
            "saved_by_reuse": self.saved_by_reuse,
            "lost_to_preemption": self.lost_to_preemption,
            "lost_to_failures": self.lost_to_failures,
            "lost_to_cancellation": self.lost_to_cancellation,
        }


@dataclass(frozen=True, slots=True)
class CostReport:
    """The sum of all requests, and a line for each group, the dearest first, days in order."""

    total: CostLine
    groups: Mapping[str, CostLine]


def report(requests: Iterable[CostedRequest], *, by: CostGroup) -> CostReport:
    """The report on some requests."""
    ordered = sorted(requests, key=lambda request: (request.created_at, request.uuid))
    paid_by = _payers(ordered)
    entries = [entry for request in ordered for entry in _entries(request, paid_by, by)]
    grouped: defaultdict[str, list[_Entry]] = defaultdict(list)
    for entry in entries:
        grouped[entry.group].append(entry)
    lines = {group: _sum(group_entries) for group, group_entries in grouped.items()}
    order: Callable[[str], tuple[float, str]] = (
        (lambda group: (0.0, group))
        if by is CostGroup.DAY
        else (lambda group: (-lines[group].spent, group))
    )
    return CostReport(_sum(entries), {group: lines[group] for group in sorted(lines, key=order)})


def tool_name(container: Container) -> str:
    """The program of a container, by which a report groups; "" for that of its image."""
    return container.command[0].rpartition("/")[2] if container.command else ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A part of a request's cost: an amount under the name of a line's attribute."""

    group: str
    request: str
    attribute: str
    amount: float


def _payers(requests: Iterable[CostedRequest]) -> dict[str, str]:
    """The request that pays for each container: the first that is not younger than it. A draft may
    be older, and find a container that was made for another: nothing was charged to it.
    """
    found: dict[str, str] = {}
    for request in sorted(requests, key=lambda request: request.charged <= 0):
        for container in request.containers:
            if request.created_at <= container.created_at:
                found.setdefault(container.uuid, request.uuid)
    return found


def _entries(request: CostedRequest, paid_by: Mapping[str, str], by: CostGroup) -> Iterable[_Entry]:
    if not request.containers:
        yield _Entry(_group(request, None, by), request.uuid, "spent", 0.0)
    for container in request.containers:
        group = _group(request, container, by)
        if paid_by.get(container.uuid) != request.uuid:
            saved = container.cost + container.subrequests_cost if has_succeeded(container) else 0.0
            yield _Entry(group, request.uuid, "saved_by_reuse", saved)
            continue
        yield _Entry(group, request.uuid, "spent", container.cost)
        if container.state in FINAL and not has_succeeded(container):
            loss = _LOSSES.get(failure_class(container), "lost_to_failures")
            yield _Entry(group, request.uuid, loss, container.cost)


def _group(request: CostedRequest, container: Container | None, by: CostGroup) -> str:
    match by:
        case CostGroup.PROJECT:
            return request.project
        case CostGroup.USER:
            return request.user
        case CostGroup.TOOL:
            return tool_name(container) if container else ""
    return ((container and container.finished_at) or request.created_at)[:10]


def _sum(entries: Iterable[_Entry]) -> CostLine:
    amounts: defaultdict[str, list[float]] = defaultdict(list)
    requests = set()
    for entry in entries:
        amounts[entry.attribute].append(entry.amount)
        requests.add(entry.request)
    return CostLine(
        requests=len(requests), **{name: fsum(payments) for name, payments in amounts.items()}
    )
