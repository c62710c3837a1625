"""Accounting: when containers held resources for which request, and what containers cost.

An interval of allocation begins and ends with each change of a container's state and of a request's
state, priority or container (`store.containers`). The cost of a request that a container made is
added to the `subrequests_cost` of that container. Source: docs/spec/containers, section Cost;
`docs/requests.md` describes the intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lading.core.containers import request
from lading.core.containers.container import FINAL, HELD, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.records.schema import Record
from lading.store import containers as intervals

if TYPE_CHECKING:
    from lading.api.transaction import UnitOfWork

_ACCOUNTED: Final = ("state", "priority", "container_uuid")


async def follow_container(unit: UnitOfWork, old: Record, new: Record) -> None:
    """End and begin intervals after a container's change."""
    if new["state"] == old["state"]:
        return
    if old["state"] in HELD:
        ended = new["finished_at"] if new["state"] in FINAL else unit.now
        await intervals.end_intervals(unit.tx, new["uuid"], ended)
    if new["state"] in HELD:
        await intervals.begin_intervals(unit.tx, new["uuid"], new["state"], unit.now)


async def follow_request(unit: UnitOfWork, old: Record, new: Record) -> None:
    """End and begin intervals after a request's change, or after its creation (`old` empty)."""
    if all(old.get(name) == new[name] for name in _ACCOUNTED):
        return
    if old.get("container_uuid") and old["state"] == request.RequestState.COMMITTED:
        await intervals.end_intervals(
            unit.tx, old["container_uuid"], unit.now, request_uuid=new["uuid"]
        )
    uuid = new["container_uuid"]
    # A container that was made in this transaction is Queued: it holds nothing, and need not be
    # read.
    if uuid is None or uuid in unit.made or new["state"] != request.RequestState.COMMITTED:
        return
    container = await unit.container(uuid)
    if container is not None and container["state"] in HELD:
        interval = intervals.Interval(
            request_uuid=new["uuid"],
            user_uuid=new["committed_by_uuid"] or new["owner_uuid"],
            priority=new["priority"] or 0,
            state=container["state"],
            started_at=unit.now,
        )
        await intervals.begin_interval(unit.tx, uuid, interval)


async def end_request(unit: UnitOfWork, row: Record) -> None:
    """End the interval of a request that was deleted."""
    if row["container_uuid"] is not None:
        await intervals.end_intervals(
            unit.tx, row["container_uuid"], unit.now, request_uuid=row["uuid"]
        )


async def charge_parent(unit: UnitOfWork, subject: ContainerRequest) -> None:
    """Add the cost of a request that ends before its container does to the container that made the
    request, while that container runs.
    """
    if subject.requesting_container_uuid is not None and subject.cumulative_cost > 0:
        row = await unit.container(subject.requesting_container_uuid)
        if row is not None and row["state"] == ContainerState.RUNNING:
            await charge(unit, row["uuid"], row["subrequests_cost"] + subject.cumulative_cost)


async def charge(unit: UnitOfWork, container_uuid: str, cost: float) -> None:
    """Set the cost of the requests that a container made."""
    row = await unit.container(container_uuid)
    if row is not None:
        await unit.write_container(row, {"subrequests_cost": cost}, expected={})
