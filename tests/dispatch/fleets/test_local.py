"""The local fleet beyond the contract: a forkserver that dies, lies, or is not there."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from lading.core.containers.container import ContainerState
from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import FleetView, StartRequest, SupervisorProcess
from lading.dispatch.fleets.local import LocalFleet
from lading.dispatch.fleets.local_settings import WORKER, LocalSettings

PROGRAM = Path(__file__).parents[2] / "contracts" / "warm_parent.py"
UUID, OTHER = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"
ASSIGNMENT = StartRequest(uuid=UUID, worker=WORKER, token="secret")


@asynccontextmanager
async def local(
    run: Path, *, parent: str = "", start: str = "", **more: Any
) -> AsyncIterator[LocalFleet]:
    behave = ("--behave", parent) if parent else ()
    settings = LocalSettings(
        command=(sys.executable, "-S", "-E", str(PROGRAM), *behave),
        run_directory=run,
        template={"behave": start},
        capacity=Resources(2, GIB),
        **{"restart_first": 0.01, "restart_longest": 0.05, **more},
    )
    async with asyncio.timeout(45), LocalFleet(settings) as fleet:
        yield fleet


async def until(fleet: LocalFleet, condition: Callable[[FleetView], bool]) -> None:
    while not condition(fleet.view()):
        await fleet.changed()


async def ready(fleet: LocalFleet) -> None:
    await until(fleet, lambda view: bool(view.workers))


async def kill(fleet: LocalFleet, uuid: str = UUID) -> None:
    await fleet.signal(uuid, Signals.SIGKILL)
    await until(fleet, lambda view: not view.processes[uuid].alive)


async def test_the_internet_that_containers_lack_is_noticed_and_its_return(tmp_path: Path) -> None:
    faults = ["no /dev/net/tun"]
    async with local(tmp_path, internet_fault=lambda: "".join(faults), disk_interval=0.01) as fleet:
        await until(fleet, lambda view: any(worker.internet_fault for worker in view.workers))
        faults.clear()
        await until(fleet, lambda view: not any(worker.internet_fault for worker in view.workers))


async def test_memory_that_others_use_is_not_given_away(tmp_path: Path) -> None:
    use = [GIB // 2]
    more: dict[str, Any] = {"others": lambda reserved: use[0] + reserved, "disk_interval": 0.001}
    async with local(tmp_path, **more) as fleet:
        await until(fleet, lambda view: bool(view.workers) and view.workers[0].others > 0)
        (worker,) = fleet.view().workers
        assert (worker.capacity.ram, worker.others) == (GIB // 2, GIB // 2)
        use[0] = 5 * GIB
        await until(fleet, lambda view: view.workers[0].others == GIB)
        assert fleet.view().workers[0].capacity == Resources(2, 0)
        use[0] = 0
        await until(fleet, lambda view: view.workers[0].others == 0)


async def test_processes_outlive_the_fleet_and_are_adopted(tmp_path: Path) -> None:
    async with local(tmp_path) as first:
        await ready(first)
        await first.start(ASSIGNMENT)
    async with local(tmp_path) as second:
        await until(second, lambda view: view.is_known)
        assert second.view().processes[UUID].alive
        await kill(second)
        await second.clean(UUID)
    assert list(tmp_path.iterdir()) == []


async def test_a_container_goes_on_when_its_supervisor_dies(tmp_path: Path) -> None:
    async with local(tmp_path, parent="resume") as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        pid = int((tmp_path / UUID / "lock").read_text())
        await fleet.signal(UUID, Signals.SIGTERM)
        while int((tmp_path / UUID / "lock").read_text() or pid) == pid:
            await fleet.changed()
            assert fleet.view().processes[UUID] == SupervisorProcess(WORKER)
        await fleet.signal(UUID, Signals.SIGUSR1)
        await until(fleet, lambda view: not (tmp_path / UUID).exists())


@pytest.mark.parametrize("parent", ["", "silent resume", "resume and leave"])
async def test_a_container_whose_supervisor_is_not_replaced_has_exited(
    tmp_path: Path, parent: str
) -> None:
    async with local(tmp_path, parent=parent, start_timeout=0.5) as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await fleet.signal(UUID, Signals.SIGTERM)
        await until(fleet, lambda view: not view.processes[UUID].alive)
        await ready(fleet)
        await fleet.clean(UUID)
        assert fleet.view().processes == {}


async def test_what_died_unseen_is_shown_as_exited(tmp_path: Path) -> None:
    (tmp_path / UUID).mkdir()
    (tmp_path / UUID / "lock").write_text("")
    async with local(tmp_path) as fleet:
        await ready(fleet)
        assert not fleet.view().processes[UUID].alive
        await fleet.clean(UUID)
        assert fleet.view().processes == {}
    assert list(tmp_path.iterdir()) == []


async def test_a_tidy_end_needs_no_cleaning(tmp_path: Path) -> None:
    async with local(tmp_path, parent="no clean") as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await fleet.signal(UUID, Signals.SIGUSR1)
        await until(fleet, lambda view: not view.processes[UUID].alive)
        await fleet.clean(UUID)
        assert fleet.view().processes == {}


async def test_a_warm_parent_that_dies_while_starting_leaves_no_process_unseen(
    tmp_path: Path,
) -> None:
    async with local(tmp_path, start="die") as fleet:
        await ready(fleet)
        with pytest.raises(Unavailable):
            await fleet.start(ASSIGNMENT)
        await until(fleet, lambda view: UUID in view.processes)
        assert fleet.view().processes[UUID].alive
        await kill(fleet)


async def test_nothing_is_offered_while_the_warm_parent_is_gone(tmp_path: Path) -> None:
    async with local(tmp_path, parent="leave") as fleet:
        await asyncio.wait_for(_some_restarts(fleet), 60)
        assert fleet.view().workers == ()
        assert not fleet.view().is_known
        with pytest.raises(Unavailable):
            await fleet.start(ASSIGNMENT)


async def _some_restarts(fleet: LocalFleet) -> None:
    for _ in range(3):
        await fleet.changed()


async def test_a_refusal_is_told(tmp_path: Path) -> None:
    async with local(tmp_path, start="refuse") as fleet:
        await ready(fleet)
        with pytest.raises(ExecutionError, match="told to refuse"):
            await fleet.start(ASSIGNMENT)
        assert fleet.view().processes == {}


async def test_an_answer_that_comes_late_is_not_lost(tmp_path: Path) -> None:
    async with local(tmp_path, start="late", start_timeout=0.05) as fleet:
        await ready(fleet)
        with pytest.raises(Unavailable, match="did not answer to start"):
            await fleet.start(ASSIGNMENT)
        with pytest.raises(Unavailable):
            await fleet.start(StartRequest(uuid=UUID[:-1] + "2", worker=WORKER, token=""))
        await until(fleet, lambda view: UUID in view.processes)
        await kill(fleet)


async def test_a_start_without_a_descriptor_does_not_count(tmp_path: Path) -> None:
    async with local(tmp_path, start="forget the descriptor") as fleet:
        await ready(fleet)
        with pytest.raises(Unavailable, match="0 descriptors for 1"):
            await fleet.start(ASSIGNMENT)
    async with local(tmp_path) as fleet:
        await ready(fleet)
        await kill(fleet)


async def test_what_cannot_be_cleared_away_is_told(tmp_path: Path) -> None:
    async with local(tmp_path, parent="no clean") as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await kill(fleet)
        with pytest.raises(Unavailable, match="told not to"):
            await fleet.clean(UUID)
        assert UUID in fleet.view().processes


@pytest.mark.parametrize("fault", ["no list", "silent list"])
async def test_a_warm_parent_that_cannot_list_is_not_used(tmp_path: Path, fault: str) -> None:
    async with local(tmp_path, parent=fault, ready_timeout=0.2, stop_timeout=0.2) as fleet:
        await _some_restarts(fleet)
        assert not fleet.view().is_known


async def test_nonsense_is_ignored(tmp_path: Path) -> None:
    async with local(tmp_path, parent="babble") as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await kill(fleet)


async def test_a_program_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    settings = LocalSettings(
        command=("/nonexistent/program",),
        run_directory=tmp_path,
        template={},
        capacity=Resources(1, 1),
        restart_first=0.001,
    )
    async with LocalFleet(settings) as fleet:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not fleet.view().is_known


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = _descriptors()
    async with local(tmp_path) as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await kill(fleet)
        await fleet.clean(UUID)
    assert _descriptors() == before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("start", ["end", "end at once"])
async def test_an_end_that_is_told_is_one(tmp_path: Path, start: str) -> None:
    async with local(tmp_path, start=start) as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await until(fleet, lambda view: not view.processes[UUID].alive)
        await fleet.clean(UUID)
        assert fleet.view().processes == {}


@pytest.mark.parametrize("start", ["idle", "idle at once"])
async def test_what_saves_results_is_shown_as_idle_a_few_at_a_time(
    tmp_path: Path, start: str
) -> None:
    async with local(tmp_path, start=start, most_idle=1) as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await until(fleet, lambda view: view.processes[UUID].idle)
        await fleet.start(StartRequest(uuid=OTHER, worker=WORKER, token="secret"))
        assert fleet.view().processes[UUID] == SupervisorProcess(WORKER, idle=True)
        assert fleet.view().processes[OTHER] == SupervisorProcess(WORKER)
        await kill(fleet)
        assert not fleet.view().processes[UUID].idle
        await until(fleet, lambda view: view.processes[OTHER].idle)
        await kill(fleet, OTHER)


async def test_an_image_is_ready_once_a_command_with_it_has_ended(tmp_path: Path) -> None:
    known: dict[str, Any] = {"container": {"container_image": "image"}}
    async with local(tmp_path, start="idle") as fleet:
        fleet.settings = replace(fleet.settings, template={"behave": "idle", "api_socket": "/s"})
        await ready(fleet)
        await fleet.start(replace(ASSIGNMENT, records=known))
        await until(fleet, lambda view: view.ready_images == ("image",))
        # The end of a supervisor that did not say so is a fault.
        await kill(fleet)
        assert fleet.view().ready_images == ()


async def test_no_image_counts_as_ready_without_the_local_socket(tmp_path: Path) -> None:
    known: dict[str, Any] = {"container": {"container_image": "image"}}
    async with local(tmp_path, start="idle") as fleet:
        await ready(fleet)
        await fleet.start(replace(ASSIGNMENT, records=known))
        await until(fleet, lambda view: view.processes[UUID].idle)
        assert fleet.view().ready_images == ()
        await kill(fleet)


async def test_after_a_start_that_failed_the_warm_parent_is_asked_to_clean(tmp_path: Path) -> None:
    async with local(tmp_path, parent="no clean", start="refuse") as fleet:
        await ready(fleet)
        await fleet.clean(UUID)
        with pytest.raises(ExecutionError):
            await fleet.start(ASSIGNMENT)
        # An order that was not answered may still be carried out; no directory shows it yet.
        with pytest.raises(Unavailable, match="could not be cleared away"):
            await fleet.clean(UUID)


async def test_what_is_prepared_is_shown_a_few_at_a_time(tmp_path: Path) -> None:
    async with local(tmp_path, start="preparing", most_preparing=1) as fleet:
        await ready(fleet)
        for uuid in (UUID, OTHER):
            await fleet.start(replace(ASSIGNMENT, uuid=uuid))
        await until(fleet, lambda view: view.processes[UUID].preparing)
        assert fleet.view().processes[UUID].takes(Resources(1, 2, 3)) == Resources(disk=3)
        assert fleet.view().processes[OTHER] == SupervisorProcess(WORKER)
        for uuid in (UUID, OTHER):
            await kill(fleet, uuid)


async def test_what_is_ready_asks_and_is_let_go_on(tmp_path: Path) -> None:
    async with local(tmp_path, start="asking") as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await until(fleet, lambda view: view.processes[UUID].asking)
        assert fleet.view().processes[UUID].takes(Resources(1, 2, 3)) == Resources(1, 2, 3)
        await fleet.signal(UUID, Signals.SIGCONT)
        assert fleet.view().processes[UUID] == SupervisorProcess(WORKER)
        await kill(fleet)


async def test_what_was_not_told_to_go_on_asks_still(tmp_path: Path) -> None:
    async with local(tmp_path, start="asking", parent="silent signal", start_timeout=0.2) as fleet:
        await ready(fleet)
        await fleet.start(ASSIGNMENT)
        await until(fleet, lambda view: view.processes[UUID].asking)
        with pytest.raises(Unavailable):
            await fleet.signal(UUID, Signals.SIGCONT)
        assert fleet.view().processes[UUID].asking
    os.kill(int((tmp_path / UUID / "lock").read_text()), Signals.SIGKILL)


async def test_what_is_idle_leaves_its_share_to_other_dispatchers(tmp_path: Path) -> None:
    need = Resources(2, 1 << 20)
    wanted = StartRequest(
        uuid=UUID, worker=WORKER, token="secret", container=TrackedContainer(uuid=UUID, need=need)
    )
    shared: dict[str, Any] = {"shares": tmp_path / "shares", "share_interval": 0.001}
    for name in "ab":
        (tmp_path / name).mkdir()
    async with (
        local(tmp_path / "a", start="idle", **shared) as first,
        local(tmp_path / "b", **shared) as second,
    ):
        first.set_lookup(lambda _: TrackedContainer(uuid=UUID, need=need))
        await ready(first)
        await first.start(wanted)
        await until(first, lambda view: view.processes[UUID].idle)
        await until(second, lambda view: bool(view.workers) and view.workers[0].capacity.vcpus == 2)
        await second.start(wanted)
        await kill(first)
        await kill(second)


async def test_dispatchers_of_one_machine_share_it(tmp_path: Path) -> None:
    need = Resources(2, 1 << 20)
    wanted = StartRequest(
        uuid=UUID, worker=WORKER, token="secret", container=TrackedContainer(uuid=UUID, need=need)
    )
    shared: dict[str, Any] = {"shares": tmp_path / "shares", "share_interval": 0.001}
    for name in "ab":
        (tmp_path / name).mkdir()
    async with local(tmp_path / "a", **shared) as first, local(tmp_path / "b", **shared) as second:
        final = [False]
        first.set_lookup(
            lambda _: TrackedContainer(
                uuid=UUID,
                state=ContainerState.COMPLETE if final[0] else ContainerState.RUNNING,
                need=need,
            )
        )
        await ready(first)
        await ready(second)
        await first.start(wanted)
        await until(second, lambda view: view.workers[0].capacity.vcpus == 0)
        with pytest.raises(Unavailable, match="quicker"):
            await second.start(wanted)
        final[0] = True
        assert first.view().workers[0].capacity.vcpus == 2
        await until(second, lambda view: view.workers[0].capacity.vcpus == 2)
        await second.start(wanted)
        await kill(first)
        await kill(second)


async def test_nothing_is_started_where_the_disk_is_almost_full(tmp_path: Path) -> None:
    async with local(tmp_path, reserve=Amount(1 << 60, 0), disk_interval=0.01) as fleet:
        await until(fleet, lambda view: "is almost full" in view.shortage)
        fleet.settings = replace(fleet.settings, reserve=Amount(0, 0))
        await until(fleet, lambda view: view.shortage == "")


async def test_each_view_looks_at_the_disk(tmp_path: Path) -> None:
    async with local(tmp_path, disk_interval=3600) as fleet:
        assert fleet.view().shortage == ""
        fleet.settings = replace(fleet.settings, reserve=Amount(1 << 60, 0))
        assert "is almost full" in fleet.view().shortage
