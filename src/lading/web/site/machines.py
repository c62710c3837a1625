"""The machines of all dispatchers: what each has, what runs there, and orders of admins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client.api import ApiClient, Record
from lading.core.errors import Invalid
from lading.core.quantities import size
from lading.web.visit import Visit

PLACE: Final = "/ui/machines"
_KINDS: Final = {"vm": "VM", "node": "Slurm node or worker", "host": "machine of the dispatcher"}
# Earlier machines that the page shows.
_SHOWN_HISTORY: Final = 30
# Requests are looked up for so many containers at most.
_LOOKED_UP: Final = 300
_SURE: Final = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    """A machine as the list shows it; `uses` has each resource with how much is used, reserved and
    there.
    """

    dispatcher: str
    machine: Record
    kind: str
    uses: list[MachineAmountRow]
    requests: list[Record]
    gpus: list[MachineGpuRow]
    others: int
    """Containers here that the reader may not see."""

    @property
    def look(self) -> str:
        """The class of its state."""
        if self.machine["behavior"] != "run":
            return "off"
        words = {"running": "run", "idle": "good", "shutdown": "off", "mixed": "run"}
        state = self.machine["state"].rstrip("*~#!%$@^-+")
        bad = state.startswith(("down", "fail", "drain"))
        return "bad" if bad else words.get(state, "wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGpuRow:
    """A GPU of a machine, and the request whose container has it, if the reader may see that.

    `use` says how busy it is and how much of its memory is in use, `fault` why it is out of
    service.
    """

    device: str
    is_used: bool
    request: Record | None
    kind: str = ""
    use: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAmountRow:
    """A resource of a machine, in texts; `share` is reserved over total, from 0 to 1."""

    name: str
    used: str
    reserved: str
    total: str
    share: float


async def show(visit: Visit) -> Response:
    """The page; `state` is a state, `dispatcher` the uuid of a dispatcher's token."""
    return visit.page("machines.html", **await _values(visit))


async def refresh(visit: Visit) -> Response:
    """The part of the page that changes."""
    return visit.page("machines_list.html", **await _values(visit))


async def order(visit: Visit) -> Response:
    """Order an action for a machine. Killing asks first."""
    fields: dict[str, Any] = {
        name: visit.field(name) for name in ("dispatcher", "machine", "action")
    }
    reason = visit.field("reason").strip()
    if fields["action"] == "kill" and visit.field("sure") != _SURE:
        return visit.page("machine_kill.html", **fields, reason=reason)
    if not all(fields.values()):
        raise Invalid("name a machine and an action")
    body: Any = {**fields, "reason": reason}
    await visit.api.request("POST", "dispatch/machines/order", body=body)
    query = urlencode({"ordered": fields["action"], "machine": fields["machine"]})
    return visit.redirect(f"{PLACE}?{query}")


async def list_reports(api: ApiClient) -> list[Record]:
    """The reports of all dispatchers."""
    found = await api.request("GET", "dispatch/machines")
    reports: list[Record] = found["items"]
    return reports


async def _values(visit: Visit) -> dict[str, Any]:
    reports = await list_reports(visit.api)
    state = visit.query("state")
    chosen = [
        (report["dispatcher"], machine)
        for report in reports
        for machine in report["machines"]
        if not state or state in (machine["state"], machine["behavior"])
    ]
    running = await _requests_of(visit, [machine for _, machine in chosen])
    rows = [_row(dispatcher, machine, running) for dispatcher, machine in chosen]
    states = sorted({machine["state"] for report in reports for machine in report["machines"]})
    history = sorted(
        (note for report in reports for note in report["history"]),
        key=lambda note: str(note["at"]),
        reverse=True,
    )
    return {
        "rows": rows,
        "state": state,
        "states": states,
        "history": history[:_SHOWN_HISTORY],
        "has_dispatchers": bool(reports),
        "ordered": visit.query("ordered"),
        "machine": visit.query("machine"),
    }


async def _requests_of(visit: Visit, machines: list[Record]) -> dict[str, Record]:
    """A request of each container, as far as the reader may see it."""
    uuids = [uuid for machine in machines for uuid in machine["containers"]][:_LOOKED_UP]
    if not uuids:
        return {}
    requests = await visit.api.list(
        "container_requests",
        filters=[["container_uuid", "in", uuids], ["state", "=", "Committed"]],
        select=("uuid", "name", "command", "container_uuid"),
        limit=_LOOKED_UP,
    )
    return {request["container_uuid"]: request for request in requests}


def _row(dispatcher: str, machine: Record, running: dict[str, Record]) -> MachineRow:
    requests = [running[uuid] for uuid in machine["containers"] if uuid in running]
    return MachineRow(
        dispatcher=dispatcher,
        machine=machine,
        kind=_KINDS[machine["kind"]],
        uses=_uses(machine),
        requests=requests,
        gpus=[
            MachineGpuRow(
                device=gpu["device"],
                is_used=gpu["is_used"],
                request=running.get(gpu["container"]),
                kind=gpu.get("kind", ""),
                use=_gpu_use(gpu),
                fault=gpu.get("fault", ""),
            )
            for gpu in machine["gpus"]
        ],
        others=machine["container_count"] - len(requests),
    )


def _gpu_use(gpu: Record) -> str:
    """The use of a GPU in words; "" where its driver does not tell it."""
    busy, memory = gpu.get("busy"), gpu.get("memory") or 0
    words = [] if busy is None else [f"{100 * busy:.0f} % busy"]
    if memory and busy is not None:
        words.append(f"{size(gpu['memory_used'])} of {size(memory)}")
    return ", ".join(words)


def _in_use(used: float, total: float, shown: Callable[[Any], str]) -> str:
    """Used share of a total. More processes may want to run than there are processors."""
    return shown(used) if used <= total else f"{shown(total)} (load {shown(used)})"


def _uses(machine: Record) -> list[MachineAmountRow]:
    used = machine["used"] or {}
    rows = []
    for name, key, shown in (
        ("VCPUs", "vcpus", lambda number: f"{number:g}"),
        ("RAM", "ram", size),
        ("Disk", "disk", size),
        ("GPUs", "gpus", str),
    ):
        total, reserved = machine["total"][key], machine["reserved"][key]
        if not total:
            continue
        rows.append(
            MachineAmountRow(
                name=name,
                used=_in_use(used[key], total, shown) if key in used else "",
                reserved=shown(reserved),
                total=shown(total),
                share=min(1.0, reserved / total),
            )
        )
    return rows
