"""Machines as dispatchers report them: VMs, nodes of a batch system, the dispatcher's own machine.

A report has the machines of one dispatcher, what happened to them lately, and which actions each
takes. An order is an action that an admin wants; the dispatcher gets it with the answer to its next
report and may refuse it. Reports are bounded: a dispatcher runs on a machine of somebody else.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import msgspec

from lading.core.errors import Conflict, Invalid, NotFound
from lading.core.resources import UNLIMITED, Resources
from lading.core.values import Json

# Machines of one report, which the server keeps in memory.
MOST_MACHINES: Final = 2000
MOST_NOTES: Final = 100
_Text = Annotated[str, msgspec.Meta(max_length=400)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Kind = TypeVar("_Kind")


class MachineAction(StrEnum):
    """Order of an admin for a machine."""

    RUN = "run"
    HOLD = "hold"
    DRAIN = "drain"
    KILL = "kill"
    RESTORE = "restore"
    """Take GPUs back into service that have failed."""


class MachineKind(StrEnum):
    """Kind of a machine."""

    VM = "vm"
    NODE = "node"
    HOST = "host"


class MachineAmount(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of a machine; RAM and disk in bytes. A disk of 0 is not planned."""

    vcpus: _Amount = 0
    ram: _Amount = 0
    disk: _Amount = 0
    gpus: _Amount = 0


class MachineUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a machine by all of its programs: busy processors, bytes of RAM."""

    vcpus: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    ram: _Amount


class MachineGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU of a machine: its device file below /dev, and the container that has it. That is ""
    for a free one, and for one whose container the reader may not see (`is_used`).

    `kind` has the words for its kind, `busy` the share of the time in which it works, from 0 to 1;
    memory is in bytes, 0 where it is not known. `fault` says why it is out of service.
    """

    device: _Text
    is_used: bool = False
    container: _Text = ""
    kind: _Text = ""
    busy: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    memory: _Amount = 0
    memory_used: _Amount = 0
    fault: _Text = ""


class MachineState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine.

    `gpu_kind` says in words which GPUs it has, `gpus` who has which, where its dispatcher knows.
    `behavior` is an order that lasts: run, hold or drain. `reserved` is what its containers have
    asked for, `used` is None where nobody measures it. `since` is an API timestamp, "" where the
    dispatcher does not know it; `price` is in dollars an hour; `note` a fault, or why it goes;
    `takes_none` why it takes no orders, "" where that needs no words.
    """

    id: _Text
    kind: MachineKind
    state: _Text
    behavior: _Text = "run"
    type: _Text = ""
    address: _Text = ""
    price: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    since: _Text = ""
    total: MachineAmount = MachineAmount()
    reserved: MachineAmount = MachineAmount()
    used: MachineUse | None = None
    containers: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=4096)] = ()
    gpu_kind: _Text = ""
    gpus: Annotated[tuple[MachineGpu, ...], msgspec.Meta(max_length=256)] = ()
    actions: Annotated[tuple[MachineAction, ...], msgspec.Meta(max_length=4)] = ()
    note: _Text = ""
    takes_none: _Text = ""


class MachineNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Event of a machine: a decision, or a failure to boot (`is_fault`)."""

    at: _Text
    machine: _Text
    sentence: _Text = msgspec.field(name="text")
    is_fault: bool = False


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a dispatcher, and what happened lately, the latest last."""

    machines: Annotated[tuple[MachineState, ...], msgspec.Meta(max_length=MOST_MACHINES)] = ()
    history: Annotated[tuple[MachineNote, ...], msgspec.Meta(max_length=MOST_NOTES)] = ()


class MachineOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action that an admin wants."""

    machine: _Text
    action: MachineAction
    reason: _Text = ""


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a report: whether the server knows the machines, and the orders for them."""

    is_known: bool = msgspec.field(name="known")
    orders: Annotated[tuple[MachineOrder, ...], msgspec.Meta(max_length=MOST_MACHINES)] = ()


def read_report(document: Json) -> MachineReport:
    """The report of a dispatcher. Raises Invalid."""
    return _read(document, MachineReport)


def read_order(document: Json) -> MachineOrder:
    """The order of an admin. Raises Invalid."""
    order = _read(document, MachineOrder)
    if not order.machine:
        raise Invalid("machine: name the machine")
    return order


def read_answer(document: Json) -> ReportAnswer:
    """The answer of a server to a report. Raises Invalid."""
    return _read(document, ReportAnswer)


def check_order(report: MachineReport | None, order: MachineOrder) -> None:
    """Check that a dispatcher has the machine, and that it takes the action. Raises NotFound,
    Conflict.
    """
    machines = report.machines if report is not None else ()
    found = [machine for machine in machines if machine.id == order.machine]
    if not found:
        raise NotFound(f"Path not found: this dispatcher has no machine {order.machine[:80]!r} now")
    if order.action not in found[0].actions:
        able = ", ".join(found[0].actions) or "none"
        raise Conflict(f"{order.machine}: {order.action} is not possible now; possible: {able}")


def amount(resources: Resources) -> MachineAmount:
    """Resources in the form of a report; a rest below nothing is nothing."""
    disk = resources.disk if resources.disk < UNLIMITED else 0
    return MachineAmount(
        vcpus=max(0, resources.vcpus),
        ram=max(0, resources.ram),
        disk=max(0, disk),
        gpus=max(0, resources.gpus),
    )


def shown_to(state: MachineState, *, is_admin: bool, readable: Collection[str]) -> MachineState:
    """A machine as a reader may see it: with the containers that the reader may see, and for admins
    alone with address, faults and actions.
    """
    if is_admin:
        return state
    return msgspec.structs.replace(
        state,
        containers=tuple(uuid for uuid in state.containers if uuid in readable),
        gpus=tuple(
            gpu if gpu.container in readable else msgspec.structs.replace(gpu, container="")
            for gpu in state.gpus
        ),
        address="",
        note="",
        actions=(),
        takes_none="",
    )


def _read(document: Json, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(f"machines: {error}") from None
