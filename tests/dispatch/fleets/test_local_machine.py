"""This machine in reports, and orders for it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from signal import Signals

import pytest

from lading.core.errors import NotFound, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.machines import MachineAction
from lading.core.scheduling.planning import FleetWorker, TrackedContainer
from lading.dispatch.fleet import FleetView, SupervisorProcess
from lading.dispatch.fleets.local_machine import LocalMachine, measure_use
from lading.dispatch.gpu_watch import GpuWatch
from lading.testing.gpu_machines import add_information, log_xid
from lading.testing.images import make_devices

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class FakeProcesses:
    """A machine with one container, and the signals that it got."""

    def __init__(self) -> None:
        self.signals: list[tuple[str, Signals]] = []

    def view(self) -> FleetView:
        """One worker."""
        return FleetView(
            is_known=True,
            workers=(FleetWorker("local", Resources(4, 8 * GIB)),),
            processes={
                "a": SupervisorProcess("local"),
                "dead": SupervisorProcess("local", alive=False),
            },
        )

    async def signal(self, uuid: str, number: Signals) -> None:
        """Note a signal."""
        self.signals.append((uuid, number))


def _machine(directory: Path, fleet: FakeProcesses | None = None) -> LocalMachine:
    need = TrackedContainer(uuid="a", need=Resources(1, GIB))
    return LocalMachine(
        fleet or FakeProcesses(),
        worker="local",
        capacity=Resources(4, 8 * GIB),
        directory=directory,
        price=0.25,
        look_up={"a": need}.get,
        changed=lambda: None,
        wall=lambda: NOW,
        root=directory,
    )


def test_what_is_reported(tmp_path: Path) -> None:
    [found] = _machine(tmp_path).machines().machines
    assert (found.kind, found.state, found.total.vcpus, found.reserved.vcpus) == (
        "host", "running", 4, 1,
    )  # fmt: skip
    assert (found.price, found.used, found.actions) == (0.25, None, ("hold", "kill"))


def _with_gpus(tmp_path: Path) -> tuple[LocalMachine, GpuWatch, Path]:
    root = make_devices(tmp_path / "tree", cuda=1, real=False)
    add_information(root, 0)
    known = Gpu(targets=("8.6",), driver="12.2", vram=24 * GIB)
    gpus = GpuWatch(root, locks=tmp_path / "locks", configured=known)
    machine = LocalMachine(
        FakeProcesses(),
        worker="local",
        capacity=Resources(4, 8 * GIB, gpus=1),
        directory=tmp_path,
        price=0.0,
        look_up=lambda _: None,
        changed=lambda: None,
        gpus=gpus,
    )
    return machine, gpus, root


def test_its_gpus_are_reported(tmp_path: Path) -> None:
    machine, _, _ = _with_gpus(tmp_path)
    [state] = machine.machines().machines
    assert state.gpu_kind == "1 GPU (8.6, 24.0 GiB, CUDA 12.2)"
    assert [gpu.device for gpu in state.gpus] == ["nvidia0"]


async def test_gpus_that_failed_are_restored_by_an_order(tmp_path: Path) -> None:
    machine, gpus, root = _with_gpus(tmp_path)
    log_xid(root, 0, 79)
    assert gpus.look()
    machine.note_gpus(gpus.fault)
    [state] = machine.machines().machines
    assert state.note.startswith("GPUs out of service: nvidia0: Xid 79")
    assert state.gpus[0].fault.startswith("Xid 79 (it has fallen off the bus)")
    assert "restore" in state.actions
    await machine.act("local", MachineAction.RESTORE, "new cable")
    [state] = machine.machines().machines
    assert (state.note, state.gpus[0].fault, "restore" in state.actions) == ("", "", False)
    assert [note.is_fault for note in machine.machines().history] == [True, False]


async def test_an_order_to_hold_outlives_the_dispatcher(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert machine.shortage == ""
    await machine.act("local", MachineAction.HOLD, "new disk")
    assert machine.shortage == "An admin holds this machine: new disk"
    later = _machine(tmp_path)
    [found] = later.machines().machines
    assert (found.behavior, found.note, found.actions[0]) == ("hold", "new disk", "run")
    await later.act("local", MachineAction.RUN, "")
    assert _machine(tmp_path).shortage == ""
    assert [one.sentence for one in later.machines().history] == ["run"]


async def test_a_machine_is_held_without_a_reason(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    await machine.act("local", MachineAction.HOLD, "")
    assert machine.shortage == "An admin holds this machine"


async def test_kill_ends_what_runs_and_holds(tmp_path: Path) -> None:
    fleet = FakeProcesses()
    machine = _machine(tmp_path, fleet)
    await machine.act("local", MachineAction.KILL, "fire")
    assert fleet.signals == [("a", Signals.SIGTERM)]
    assert machine.shortage == "An admin holds this machine: fire"


async def test_orders_that_cannot_be_carried_out(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await _machine(tmp_path).act("other", MachineAction.HOLD, "")
    machine = _machine(tmp_path / "absent")
    with pytest.raises(Unavailable):
        await machine.act("local", MachineAction.HOLD, "")
    assert machine.shortage == ""


def test_the_use_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/loadavg").write_text("1.26 0.5 0.2 1/100 42\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 40 kB\nHugePages: 0\n")
    found = measure_use(tmp_path)
    assert found is not None
    assert (found.vcpus, found.ram) == (1.3, 60 * 1024)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\n")
    assert measure_use(tmp_path) is None
