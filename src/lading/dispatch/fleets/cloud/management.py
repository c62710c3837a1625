"""The management interface of a fleet of VMs: the paths of Arvados' dispatcher, as values.

    GET  /arvados/v1/dispatch/containers                  {items: [entry]} in the order of the queue
    GET  /arvados/v1/dispatch/container?container_uuid=   an entry, or 404
    POST /arvados/v1/dispatch/containers/kill             container_uuid, reason
    GET  /arvados/v1/dispatch/instances                   {items: [instance]} by id
    POST /arvados/v1/dispatch/instances/hold|drain|run|kill
                                                          instance_id, reason
    GET  /arvados/v1/dispatch/instances/logs              {items: [instance that is gone]}, latest
                                                          first
    GET  /arvados/v1/dispatch/instances/logs?instance_id= one of them with the texts of its logs,
                                                          or 404
    GET  /metrics, /metrics.json, /_health/ping           the first two are the same, as they are
                                                          in Arvados

An entry is {container, instance_resources, instance_types, instance_type: the first of them,
first_seen_at, scheduling_status}. Every call needs the ManagementToken. Source: docs/spec/cloud,
section Management.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from lading.core.errors import NotFound, RequestError
from lading.core.scheduling.instance_lifecycle import Behavior
from lading.core.scheduling.instance_types import InstanceType
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.instance_journal import MachineLogRecord
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.supervisor_assignment import described, price_of, spent
from lading.dispatch.monitoring import answering
from lading.net.http_service import CallHandler, HttpAnswer, HttpCall
from lading.process.metrics import CONTENT_TYPE

PREFIX = "/arvados/v1/dispatch"
_KEY: Final = "Containers.CloudVMs.ManagementAddress"


class Management:
    """Answers for one fleet."""

    def __init__(self, fleet: CloudFleet) -> None:
        self._fleet = fleet

    def routes(self) -> dict[tuple[str, str], CallHandler]:
        """The handlers; all need the token, as the metrics too are about containers of all
        users.
        """
        orders = ("hold", "drain", "run", "kill")
        return {
            ("GET", f"{PREFIX}/containers"): self._containers,
            ("GET", f"{PREFIX}/container"): self._container,
            ("POST", f"{PREFIX}/containers/kill"): self._kill_container,
            ("GET", f"{PREFIX}/instances"): self._instances,
            ("GET", f"{PREFIX}/instances/logs"): self._logs,
            **{
                ("POST", f"{PREFIX}/instances/{order}"): partial(self._order, order)
                for order in orders
            },
            ("GET", "/metrics"): self._metrics,
            ("GET", "/metrics.json"): self._metrics,
            ("GET", "/_health/ping"): self._health,
        }

    async def _containers(self, _: HttpCall) -> HttpAnswer:
        return _json({"items": self._entries()})

    async def _container(self, call: HttpCall) -> HttpAnswer:
        uuid = _required_parameter(call.query, "container_uuid")
        entries = [entry for entry in self._entries() if entry["container"]["uuid"] == uuid]
        if not entries:
            raise NotFound(f"{uuid}: this dispatcher has no such container")
        return _json(entries[0])

    async def _kill_container(self, call: HttpCall) -> HttpAnswer:
        uuid = _required_parameter(call.form, "container_uuid", call.query)
        # A waiting container is cancelled by its requests, not here.
        if self._fleet.place(uuid) is None:
            raise NotFound(f"{uuid}: it is on no instance of this dispatcher")
        await self._fleet.stop(uuid, _reason(call.form, call.query))
        return _json({})

    async def _instances(self, _: HttpCall) -> HttpAnswer:
        machines = sorted(self._fleet.pool.machines.values(), key=lambda machine: machine.name)
        return _json(
            {
                "items": [
                    shown(machine, now=asyncio.get_running_loop().time()) for machine in machines
                ]
            }
        )

    async def _logs(self, call: HttpCall) -> HttpAnswer:
        logs, id = self._fleet.pool.journal.logs, call.query.get("instance_id")
        if not id:
            records = await asyncio.to_thread(logs.records)
            return _json({"items": [_gone(record) for record in records]})
        record, texts = await asyncio.to_thread(logs.find, id)
        return _json({**_gone(record), "texts": texts})

    async def _order(self, order: str, call: HttpCall) -> HttpAnswer:
        name = _required_parameter(call.form, "instance_id", call.query)
        machine = self._fleet.pool.by_name().get(name)
        if machine is None or machine.instance is None:
            raise NotFound(f"{name}: this dispatcher has no such instance")
        # The VM goes with all that runs on it; the other orders leave containers alone.
        if order == "kill":
            self._fleet.pool.shut_down(
                machine, f"killed by an operator: {_reason(call.form, call.query)}"
            )
        else:
            await self._fleet.pool.hold(machine, Behavior(order))
        return _json({})

    async def _metrics(self, _: HttpCall) -> HttpAnswer:
        return HttpAnswer(body=self._fleet.counts.text(), media=CONTENT_TYPE)

    async def _health(self, _: HttpCall) -> HttpAnswer:
        pool = self._fleet.pool
        if pool.listed and not pool.fault:
            return _json({"health": "OK"})
        said = (
            f"the cloud does not list its instances: {pool.fault}"
            if pool.fault
            else "they were not listed yet"
        )
        return _json({"health": "ERROR", "error": said}, status=503)

    def _entries(self) -> list[dict[str, Any]]:
        """Containers on VMs, then waiting ones, in the order of the queue."""
        fleet, entries = self._fleet, []
        planner, statuses = fleet.planning.planner, fleet.statuses()
        processes = fleet.view().processes
        for uuid in sorted(
            processes,
            key=lambda process_uuid: (-_priority(fleet.container(process_uuid)), process_uuid),
        ):
            process, machine = processes[uuid], fleet.place(uuid)
            kinds = [machine.kind] if machine is not None and machine.kind is not None else []
            sentence = f"{'running' if process.alive else 'ended'} on {process.worker}"
            entries.append(self._entry(uuid, kinds, sentence))
        # The planner forgets a container a moment after it was started.
        for uuid, (shape, _) in sorted(planner.waiting.items(), key=lambda item: item[1][1]):
            if uuid not in processes:
                status = statuses.get(uuid)
                sentence = status.sentence if status is not None else ""
                entries.append(self._entry(uuid, planner.eligible(shape), sentence))
        return entries

    def _entry(self, uuid: str, kinds: Sequence[InstanceType], status: str) -> dict[str, Any]:
        tracked, types = self._fleet.container(uuid), [described(kind) for kind in kinds]
        container: dict[str, Any] = {"uuid": uuid}
        resources: dict[str, int] = {}
        first_seen = None
        if tracked is not None:
            container |= {
                "state": str(tracked.state),
                "priority": tracked.priority,
                "created_at": tracked.created_at,
            }
            need, vram = tracked.need, tracked.gpu.vram
            resources = {
                "VCPUs": need.vcpus,
                "RAM": need.ram,
                "Scratch": need.disk,
                "GPUs": need.gpus,
                "GPUVRAM": vram,
            }
            first_seen = _moment(tracked.seen_at, now=asyncio.get_running_loop().time())
        return {
            "container": container,
            "instance_resources": resources,
            "instance_type": types[0] if types else None,
            "instance_types": types,
            "first_seen_at": first_seen,
            "scheduling_status": status,
        }


def shown(machine: CloudMachine, *, now: float) -> dict[str, object]:
    """A VM as the interface shows it. `cost` is dollars since it was made."""
    kind, wall = machine.kind, datetime.now(UTC).timestamp()
    busy = None if machine.last_busy is None else _moment(machine.last_busy, now=now)
    return {
        "instance": machine.instance.id if machine.instance is not None else "",
        "address": machine.address,
        "price": price_of(machine, wall=wall),
        "cost": round(spent(machine, now=now, wall=wall), 6),
        "arvados_instance_type": machine.type,
        "provider_instance_type": kind.provider_type if kind is not None else "",
        "last_container_uuid": machine.last_container,
        "last_busy": busy,
        "running_container_uuids": sorted(machine.containers | machine.posts.keys()),
        "worker_state": machine.shown_phase.value,
        "idle_behavior": machine.behavior.value,
        # The reason for its removal, or its fault, comes before the last connection error.
        "fault": machine.why or machine.broken or machine.fault,
    }


def _gone(record: MachineLogRecord) -> dict[str, object]:
    at = datetime.fromtimestamp(record.at, UTC).isoformat(timespec="seconds")
    return {
        "instance": record.id,
        "arvados_instance_type": record.type,
        "at": at,
        "fault": record.why,
        "logs": record.logs,
    }


def _priority(tracked: TrackedContainer | None) -> int:
    return tracked.priority if tracked is not None else 0


def _moment(then: float, *, now: float) -> str:
    """A moment of the loop's clock as a time of day."""
    return (datetime.now(UTC) - timedelta(seconds=now - then)).isoformat(timespec="seconds")


def _reason(fields: Mapping[str, object], more: Mapping[str, str]) -> str:
    return str(fields.get("reason") or more.get("reason") or "no reason was given")


def _required_parameter(
    fields: Mapping[str, object], name: str, more: Mapping[str, str] | None = None
) -> str:
    value = fields.get(name) or (more or {}).get(name)
    if not isinstance(value, str) or not value:
        raise RequestError(f"{name} parameter not provided")
    return value


def _json(value: object, *, status: int = 200) -> HttpAnswer:
    return HttpAnswer(body=msgspec.json.encode(value), status=status)


@asynccontextmanager
async def managing(fleet: CloudFleet, address: str, token: str) -> AsyncGenerator[str]:
    """Serve at an address while inside; where that is. Raises Invalid when that cannot be."""
    async with answering(Management(fleet).routes(), address, token, key=_KEY) as url:
        yield url
