"""Scenarios of Arvados' tests of its cloud dispatcher, each with the test that covers it here.

`SCENARIOS` maps a scenario (file of Arvados, subject) to a test; a test checks that each named test
exists. Scenarios without a test in another module are in this one. Invariants: docs/spec/cloud,
section Invariants.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lading.core.containers.container import ContainerState
from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_limits import CloudRules, Limits
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase, InstanceTimes
from lading.core.scheduling.instance_rooms import InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, InstanceType
from lading.core.scheduling.planning import StartDecision, TrackedContainer
from lading.testing.cloud import FakeVm
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time
from tests.simulation.cloud_scenario import FINAL, TYPES

from .scene import Scene, most, staged

TESTS = Path(__file__).parents[3]
QUICK = Troubles(boot=(5.0, 10.0))
SCENARIOS = {
    "chaos: 200 containers": "cloud/test_scenarios::test_two_hundred_containers_on_bad_vms",
    "chaos: larger and worse": "simulation/test_cloud_scenario::test_every_container_ends_once_and_no_vm_is_left",
    "all: the soak": "simulation/test_cloud_scenario::test_a_play_in_steps_of_half_a_second_ends_well_too",
    "all: different tokens": "simulation/test_cloud_scenario::test_two_tokens_share_the_queue_and_no_vm",
    "all: exits on many VMs": "simulation/test_cloud_scenario::test_an_exit_is_known_as_soon_however_many_vms_there_are",
    "all: lock_count": "simulation/test_cloud_scenario::test_the_referee_sees_a_lock_without_a_cause",
    "all: priority inversion": "simulation/test_cloud_scenario::test_the_referee_sees_who_is_passed_for_long",
    "all: costs": "simulation/test_cloud_scenario::test_the_referee_sees_vms_for_nothing_and_too_dear_containers",
    "dispatcher: 401 and 403": "cloud/test_management::test_only_who_has_the_token_is_answered",
    "dispatcher: API without a token": "cloud/test_management::test_an_interface_that_cannot_be_served_is_refused",
    "dispatcher: 20 containers, 4 VMs": "cloud/test_scenarios::test_twenty_containers_with_a_quota_of_four_vms",
    "dispatcher: instance fields": "cloud/test_management::test_instances_have_the_fields_that_clients_know",
    "dispatcher: CLI list, hold, drain, 404": "cli/test_instances::test_vms_are_listed_and_changed",
    "run_queue: idle reuse": "core/scheduling/test_cloud_planner::test_a_ready_machine_is_used_before_a_new_one_is_asked_for",
    "run_queue: packing on a new VM": "core/scheduling/test_cloud_planner::test_those_that_come_later_go_onto_the_machine_that_boots",
    "run_queue: packing, idle": "core/scheduling/test_cloud_planner::test_several_go_onto_one_machine_where_they_leave_the_least",
    "run_queue: too dear a VM refused": "cloud/test_scenarios::test_a_vm_that_is_too_dear_takes_nothing",
    "run_queue: spare resources": "cloud/test_cloud_planning::test_room_is_what_the_containers_there_leave",
    "run_queue: hold respected": "core/scheduling/test_cloud_planner::test_a_closed_machine_and_a_full_one_take_nothing",
    "run_queue: packing limited": "cloud/test_cloud_planning::test_a_limit_of_containers_on_one_vm_is_kept",
    "run_queue: unknown VM": "cloud/test_scenarios::test_what_a_vm_runs_that_was_not_asked_yet_is_left",
    "run_queue: RAM, CPU, scratch": "cloud/test_scenarios::test_no_resource_of_a_vm_is_given_twice",
    "run_queue: 0 VCPUs": "core/containers/test_constraints::test_bad_constraints_are_refused",
    "run_queue: quota 1 to 3": "cloud/test_scenarios::test_at_a_quota_idle_vms_make_place_and_nobody_stays_locked",
    "run_queue: a type without capacity": "core/scheduling/test_cloud_planner::test_a_scarce_type_is_passed_over_for_the_next",
    "run_queue: 503 shuts nothing down": "cloud/test_scenarios::test_a_busy_api_shuts_no_vm_down",
    "run_queue: supervisors": "core/scheduling/test_cloud_planner::test_supervisors_take_part_of_the_places_only",
    "run_queue: fraction 0": "core/scheduling/test_cloud_planner::test_supervisors_count_as_all_others_when_the_share_is_nothing",
    "run_queue: no flapping": "cloud/test_scenarios::test_equal_priorities_are_not_locked_again_and_again",
    "run_queue: small while big boots": "cloud/test_cloud_fleet::test_a_small_one_starts_while_a_big_one_waits_for_its_vm",
    "run_queue: no starvation": "core/scheduling/test_cloud_planner::test_a_large_one_runs_although_small_ones_keep_coming",
    "run_queue: metrics": "cloud/test_cloud_fleet::test_figures_count_vms_and_containers",
    "sync: irrelevant entries": "core/scheduling/test_reconcile::test_sync_rules",
    "sync: orphans": "cloud/test_scenarios::test_an_orphan_is_not_cancelled_while_a_vm_is_unknown",
    "pool: restart, tags": "cloud/test_cloud_fleet::test_hold_and_drain_are_kept_in_tags_and_over_a_restart",
    "pool: removed type": "cloud/test_pool::test_a_vm_of_a_type_that_is_not_configured_any_more_is_let_go",
    "pool: drain and hold refuse": "cloud/test_scenarios::test_held_and_drained_vms_take_nothing",
    "pool: throttled": "cloud/test_pool::test_creations_wait_while_the_cloud_wants_fewer_calls",
    "pool: create and give up": "cloud/test_pool::test_one_that_nobody_needs_any_more_is_not_asked_for",
    "pool: shutdown": "cloud/test_pool::test_removal_is_asked_for_until_it_is_gone",
    "pool: groups and spot": "core/scheduling/test_cloud_plan::test_spot_and_others_are_of_different_groups",
    "worker: 25 probe transitions": "cloud/test_probes::test_what_becomes_of_a_vm",
    "worker: time-outs": "core/scheduling/test_instance_lifecycle::test_when_a_machine_is_shut_down",
    "worker: runner copied": "cloud/test_vm_bootstrap::test_the_runner_is_copied_once_and_the_secret_asked_for_once",
    "worker: boot probe": "cloud/test_vm_bootstrap::test_a_machine_that_boots_is_waited_for",
    "throttle": "core/scheduling/test_cloud_limits::test_the_cloud_may_say_until_when_it_wants_fewer_calls",
    "sshexecutor: bad host key": "cloud/test_ssh_connection::test_another_host_key_is_refused_once_one_is_pinned",
    "sshexecutor: input, exit codes": "cloud/test_ssh_connection::test_commands_have_exit_codes_words_and_input",
    "queue: lock, unlock, cancel": "dispatch/test_queue::test_an_older_list_does_not_undo_an_answer",
    "queue: unsatisfiable": "cloud/test_cloud_fleet::test_what_fits_no_type_stays_queued_with_the_reason",
    "queue: invalid mounts": "dispatch/test_queue::test_what_cannot_be_sized_waits_without_being_planned",
    "node_size: choice": "core/scheduling/test_instance_types::test_the_cheapest_that_can_hold_it_comes_first",
    "node_size: price factor": "core/scheduling/test_instance_types::test_the_price_factor_lets_in_dearer_ones",
    "node_size: spot": "core/scheduling/test_instance_types::test_preemptible_and_not_are_apart",
    "node_size: 10 GPU cases": "core/scheduling/test_instance_types::test_gpus_have_to_be_the_right_ones",
    "node_size: image": "core/test_resources::test_an_image_is_sized_by_the_length_of_its_manifest",
    "cloud: subnets": "cloud/drivers/test_ec2::test_the_next_subnet_is_tried_and_remembered",
    "cloud: error classes": "cloud/drivers/test_ec2::test_each_code_has_its_class",
    "cloud: key pairs": "cloud/drivers/test_ec2::test_a_key_pair_is_imported_once",
    "cloud: prices": "cloud/drivers/test_ec2::test_the_prices_of_spot_instances_have_pages_and_the_volume_in_them",
    "cloud: drivers, azure too": "src/lading/testing/conformance/drivers::test_a_vm_is_listed_with_its_tags_type_and_address",
    "cloud: azure makes": "cloud/drivers/test_azure::test_the_interface_goes_with_its_vm",
    "cloud: azure clears up": "cloud/drivers/test_azure::test_an_interface_that_could_not_be_removed_goes_at_a_list",
    "cloud: azure's errors": "cloud/drivers/test_libcloud_connection::test_each_refusal_has_its_class",
    "cloud: loopback": "cloud/drivers/test_namespace_machines::test_a_machine_boots_and_leaves_nothing",
    "cloudtest: success": "cloud/test_cloud_selftest::test_all_is_well",
    "cloudtest: failures": "cloud/test_cloud_selftest::test_what_is_wrong_is_said_and_nothing_is_left",
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_has_its_test(scenario: str) -> None:
    module, _, name = SCENARIOS[scenario].partition("::")
    folder = TESTS / "dispatch" / "fleets" if module.startswith("cloud/") else TESTS
    if module.startswith("src/"):
        folder = TESTS.parent
    tree = ast.parse((folder / f"{module}.py").read_text())
    assert name in {
        one.name
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_two_hundred_containers_on_bad_vms() -> None:
    """The numbers of Arvados' chaos test, with seconds for its milliseconds: some VMs die, never
    boot, or break."""

    def spoil(vm: FakeVm, number: int) -> None:
        if number % 7 == 0:
            vm.dies = vm.ready + 90.0
        elif number % 7 == 1 or (vm.kind.name == "type4" and vm.created_at < 300.0):
            vm.ready = vm.dies
        elif number % 7 == 2:
            vm.breaks = vm.ready + 200.0

    async def acts(scene: Scene) -> None:
        for number in range(200):
            scene.server.add(
                priority=number % 20 + 1, vcpus=number % 8 + 1, ram=(number % 3 + 1) * GIB
            )
        await scene.until(lambda: _ended(scene) >= 100, limit=50_000.0)
        scene.server.down = True
        await scene.until(lambda: scene.fleet.figures().busy_at)
        scene.server.down = False
        await scene.until(lambda: _ended(scene) == 200, limit=50_000.0)
        await scene.until_empty()
        assert scene.cloud.refused["capacity"] > 0
        assert scene.cloud.most <= 10
        text = scene.fleet.counts.text().decode()
        for line in ('boot_outcomes_total{outcome="success"}', 'boot_outcomes_total{outcome="failure"}',
                     'driver_operations_total{error="1",operation="Create"}', "instances_time_to_ssh_seconds_count",
                     'instances_disappeared_total{state="shutdown"}', "last_503_time"):  # fmt: skip
            (found,) = [
                one for one in text.splitlines() if one.startswith(f"arvados_dispatchcloud_{line} ")
            ]
            assert float(found.split()[-1]) > 0, found

    troubles = Troubles(
        create_fails=0.1, destroy_fails=0.1, gap=1.0, quota=10, scarce=frozenset({"provider6"}), boot=(0.0, 5.0),
        crash_before=0.05, crash_after=0.05, stuck=0.1, lag=20.0,
    )  # fmt: skip
    times = InstanceTimes(idle=150.0, booting=150.0, probe=15.0)
    staged(
        Scene(troubles=troubles, made=spoil, seconds=20.0, times=times, probe_interval=5.0), acts
    )


def _ended(scene: Scene) -> int:
    return sum(scene.state(uuid) in FINAL for uuid in scene.server.records)


def test_twenty_containers_with_a_quota_of_four_vms() -> None:
    async def acts(scene: Scene) -> None:
        uuids = [
            scene.server.add(vcpus=1, ram=3 * GIB, priority=100 - number) for number in range(20)
        ]
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING] * 4)
        await scene.until(
            lambda: all(scene.state(uuid) is ContainerState.RUNNING for uuid in uuids[:4])
        )
        await pass_time(60.0)
        for position, uuid in enumerate(uuids[4:], 1):
            assert scene.told(uuid).startswith(
                f"Waiting in queue at position {position}: no further instance can be had: 4 of at most 4 instances"
            )
        assert all(scene.state(uuid) is ContainerState.QUEUED for uuid in uuids[4:])

    staged(Scene(troubles=QUICK, seconds=900.0, limits=most(4), types=TYPES[:1]), acts)


def _kind(name: str, price: float, resources: Resources) -> InstanceType:
    return InstanceType(name=name, provider_type=name, resources=resources, price=price)


def test_a_vm_that_is_too_dear_takes_nothing() -> None:
    types = (_kind("cheap", 1.0, Resources(2, 2 * GIB)), _kind("dear", 2.0, Resources(8, 8 * GIB)))
    planner = Planner(CloudRules(types=types, price_factor=1.5))
    planner.put(InstanceRoom("x", "dear", types[1].resources, ready=True))
    planner.add(TrackedContainer(uuid="one", priority=1), ContainerShape(need=Resources(1, GIB)))
    decided = planner.decide(Limits(), now=0.0)
    assert decided.starts == ()
    assert [name for _, name in decided.creates] == ["cheap"]


@pytest.mark.parametrize("need", [Resources(3, 1, 1), Resources(1, 3, 1), Resources(1, 1, 3)])
def test_no_resource_of_a_vm_is_given_twice(need: Resources) -> None:
    planner = Planner(CloudRules(types=(_kind("only", 1.0, Resources(8, 8, 8)),)))
    planner.put(InstanceRoom("x", "only", Resources(8, 8, 8), ready=True))
    for name in "abc":
        planner.add(
            TrackedContainer(uuid=name, priority=1, created_at=name), ContainerShape(need=need)
        )
    decided = planner.decide(Limits(most=1), now=0.0)
    assert decided.starts == (StartDecision("a", "x"), StartDecision("b", "x"))


def test_what_a_vm_runs_that_was_not_asked_yet_is_left() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(first) is ContainerState.RUNNING)
        await scene.close()
        (vm,) = scene.cloud.vms.values()
        vm.ready = 1000.0
        second = scene.server.add(vcpus=1, ram=GIB)
        scene.open()
        await scene.until(lambda: scene.phases() == [InstancePhase.UNKNOWN])
        await scene.until(lambda: scene.state(second) is ContainerState.RUNNING)
        assert scene.state(first) is ContainerState.RUNNING
        assert vm.instance.id in scene.fleet.view().unasked
        vm.ready = 0.0
        await scene.until_over()

    staged(Scene(troubles=QUICK, seconds=500.0), acts)


def test_an_orphan_is_not_cancelled_while_a_vm_is_unknown() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        await scene.close()
        (vm,) = scene.cloud.vms.values()
        vm.ready = vm.dies
        scene.open()
        await pass_time(250.0)
        assert scene.state(uuid) is ContainerState.RUNNING
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED, limit=400.0)
        await scene.until_empty()

    staged(Scene(troubles=QUICK, seconds=5000.0), acts)


def test_a_held_vm_that_does_not_answer_survives_restarts_and_stops_nothing() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (vm,) = scene.cloud.vms.values()
        await scene.fleet.pool.hold(scene.machines[0], Behavior.HOLD)
        await pass_time(60.0)
        vm.ready = 1e9
        for _ in range(3):
            await scene.close()
            scene.open()
            other = scene.server.add(vcpus=1, ram=GIB)
            await scene.until(lambda other=other: scene.state(other) is ContainerState.RUNNING)  # type: ignore[misc]
            await pass_time(3000.0)
            assert scene.state(uuid) is ContainerState.RUNNING
            assert vm.instance.id in scene.cloud.vms
        vm.ready = 0.0
        await scene.until(lambda: not scene.fleet.view().unasked)
        assert scene.state(uuid) is ContainerState.RUNNING

    staged(Scene(troubles=QUICK, seconds=99_999.0), acts)


def test_a_vm_that_never_boots_gets_no_new_time_by_restarts() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.phases() == [InstancePhase.BOOTING])
        (vm,) = scene.cloud.vms
        booting = scene.settings.times.booting
        for _ in range(3):
            await pass_time(booting / 3.5)
            await scene.close()
            scene.open()
            await scene.until(lambda: vm in [one.name for one in scene.machines])
        await scene.until(lambda: vm not in scene.cloud.vms, limit=booting / 3)

    staged(Scene(troubles=Troubles(never_boots=1.0), seconds=500.0), acts)


@pytest.mark.parametrize("quota", [1, 2, 3])
def test_at_a_quota_idle_vms_make_place_and_nobody_stays_locked(quota: int) -> None:
    async def acts(scene: Scene) -> None:
        small = [scene.server.add(vcpus=1, ram=3 * GIB) for _ in range(quota)]
        await scene.until(
            lambda: all(scene.state(uuid) is ContainerState.COMPLETE for uuid in small)
        )
        assert len(scene.cloud.vms) == quota
        big = [scene.server.add(vcpus=16, ram=60 * GIB) for _ in range(3)]
        await scene.until(lambda: scene.cloud.refused.get("quota") or quota > 1)
        await scene.until(
            lambda: all(scene.state(uuid) is ContainerState.COMPLETE for uuid in big), limit=900.0
        )
        assert set(scene.server.locks.values()) == {1}

    troubles = Troubles(boot=(5.0, 10.0), quota=quota)
    staged(
        Scene(troubles=troubles, types=(TYPES[0], TYPES[6]), times=InstanceTimes(idle=99_999.0)),
        acts,
    )


def test_a_busy_api_shuts_no_vm_down() -> None:
    async def acts(scene: Scene) -> None:
        for _ in range(4):
            scene.server.add(vcpus=1, ram=3 * GIB)
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING] * 4)
        for _ in range(20):
            scene.server.down = not scene.server.down
            await pass_time(25.0)
        assert scene.fleet.figures().busy_at > 0
        assert not [one.why for one in scene.machines if one.why]
        assert len(scene.cloud.vms) == 4

    staged(
        Scene(troubles=QUICK, seconds=9000.0, types=TYPES[:1], times=InstanceTimes(idle=9999.0)),
        acts,
    )


def test_equal_priorities_are_not_locked_again_and_again() -> None:
    async def acts(scene: Scene) -> None:
        uuids = [scene.server.add(vcpus=1, ram=3 * GIB) for _ in range(8)]
        for _ in range(30):
            await pass_time(20.0)
            assert max(scene.server.locks.values(), default=0) <= 1
        await scene.until(
            lambda: all(scene.state(uuid) is ContainerState.COMPLETE for uuid in uuids)
        )
        assert set(scene.server.locks.values()) == {1}

    staged(Scene(troubles=QUICK, seconds=100.0, types=TYPES[:1], limits=most(2)), acts)


def test_held_and_drained_vms_take_nothing() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(first) is ContainerState.COMPLETE)
        (one,) = scene.machines
        await scene.fleet.pool.hold(one, Behavior.HOLD)
        second = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(second) is ContainerState.RUNNING)
        assert one.containers == set()
        await scene.fleet.pool.hold(one, Behavior.DRAIN)
        await scene.until(lambda: one.phase is InstancePhase.GONE)

    staged(Scene(troubles=QUICK, types=TYPES[:1]), acts)
