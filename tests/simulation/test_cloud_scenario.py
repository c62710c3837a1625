"""A few dramas of fake VMs under every trouble at once; `make cloud` plays large ones."""

from __future__ import annotations

from random import Random

import pytest

from lading.core.containers.container import ContainerState
from lading.dispatch.fleets.cloud.drivers.driver import InstanceSpec
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Troubles
from lading.testing.containers import FakeContainers
from lading.testing.simulated_loop import pass_time, play
from tests.simulation.cloud_exits import Watch
from tests.simulation.cloud_invariants import IDLE, PASSED, Referee
from tests.simulation.cloud_scenario import TYPES, Drama, faulty, worst
from tests.simulation.cloud_spot import SpotRequests

QUIET = Troubles(boot=(5.0, 10.0))


@pytest.mark.parametrize("seed", range(3))
def test_every_container_ends_once_and_no_vm_is_left(seed: int) -> None:
    outcome = play(Drama(seed, containers=15, waves=3, tokens=1 + seed % 2).play())
    assert outcome.locks >= 15
    assert outcome.passed <= PASSED
    assert outcome.idle <= IDLE
    assert 0.0 < outcome.cost <= outcome.price


def test_a_play_in_steps_of_half_a_second_ends_well_too() -> None:
    assert play(Drama(4, containers=40, waves=3).play(), tick=0.5).seconds % 0.5 == 0.0


def test_two_tokens_share_the_queue_and_no_vm() -> None:
    drama = Drama(0, containers=20, waves=2, restarts=0, tokens=2, troubles=QUIET)
    play(drama.play())
    assert {drama.cloud.set_of(vm) for vm in drama.cloud.past} == {
        "set of secret",
        "set of another",
    }


def test_a_seed_is_played_again_exactly() -> None:
    first, second = (play(Drama(1, containers=12, waves=2, tokens=2).play()) for _ in range(2))
    assert first == second


def test_without_trouble_nothing_but_the_quota_is_met_and_nobody_is_locked_twice() -> None:
    outcome = play(
        Drama(0, containers=15, waves=2, restarts=0, troubles=QUIET, faults=faulty(0)).play()
    )
    assert set(outcome.refused) <= {"quota"}


def test_the_troubles_of_a_seed_are_its_own() -> None:
    assert worst(1) == worst(1)
    assert worst(1) != worst(2)
    assert {worst(seed).create_fails for seed in range(6)} == {0.0, 0.1, 0.2, 0.3, 0.4, 0.5}
    assert max(faulty(seed).refuse + faulty(seed).forget for seed in range(20)) == 0.1


@pytest.mark.parametrize("vms", [10, 80])
def test_an_exit_is_known_as_soon_however_many_vms_there_are(vms: int) -> None:
    exits = play(Watch(vms, seed=3, frozen=0.3).play())
    assert len(exits.told) + len(exits.asked) == vms
    assert exits.asked
    assert exits.well


def test_the_referee_sees_who_is_passed_for_long() -> None:
    async def acts() -> None:
        referee = Referee(lambda uuid: server.records[uuid])
        server = FakeContainers(watch=referee)
        first, *others = (server.add(priority=priority) for priority in (2, 1, 1, 1))
        verdicts = (
            "",
            "",
            f"{first} is passed by others that need the same since 100.0, now 300.0 by {others[2]}",
        )
        for other, verdict in zip(others, verdicts, strict=True):
            await pass_time(100.0)
            server.records[other]["locked_by_uuid"] = "token"
            server.set_state(other, ContainerState.LOCKED)
            assert referee.verdict == verdict
        assert referee.longest_passed == 200.0

    play(acts())


def test_the_referee_sees_a_lock_without_a_cause() -> None:
    async def acts() -> None:
        referee = Referee(lambda uuid: server.records[uuid])
        server = FakeContainers(watch=referee)
        uuid = server.add()
        for verdict in ("", f"{uuid} was locked at 1.0 and again at 2.0 without a cause"):
            await pass_time(1.0)
            server.records[uuid]["locked_by_uuid"] = "token"
            server.set_state(uuid, ContainerState.LOCKED)
            assert referee.verdict == verdict
            server.set_state(uuid, ContainerState.QUEUED)

    play(acts())


def test_the_referee_sees_vms_for_nothing_and_too_dear_containers() -> None:
    async def acts() -> None:
        referee, cloud = Referee(lambda _: {}), FakeCloud(set_id="set")
        tags = {"ArvadosInstanceSetID": "set"}
        made = await cloud.create(
            InstanceSpec(kind=TYPES[0], image="", tags=tags, user_data="", public_key="")
        )
        referee.came("token")
        for seconds, verdict in (
            (IDLE - 10.0, ""),
            (20.0, "i-1 has run nothing for 1210 s and is still there"),
        ):
            await pass_time(seconds)
            referee.look(cloud, {"set": "token"})
            assert referee.verdict == verdict
        cloud.vms[made.id].paid = 99.0
        cloud.take(made.id)
        referee.verdict = ""
        referee.bill(cloud)
        assert referee.verdict.startswith("i-1 cost 0.03")

    play(acts())


@pytest.mark.parametrize(
    ("scheduling", "is_spot", "is_right"),
    [
        ({}, True, False),
        ({"preemptible": True}, False, False),
        ({"preemptible": True}, True, True),
        ({"preemptible": True, "prefer_preemptible": True}, False, True),
    ],
)
def test_a_container_on_a_vm_that_it_does_not_accept_is_seen(
    scheduling: dict[str, bool], is_spot: bool, is_right: bool
) -> None:
    async def acts() -> None:
        server = FakeContainers()
        seen = SpotRequests(server, Random(0))
        uuid = server.add(scheduling_parameters=scheduling)
        kind = {"Name": "type1", "Preemptible": is_spot}
        seen.started({"container_uuid": uuid, "instance_type": kind})
        assert (seen.verdict == "") is is_right

    play(acts())


def test_a_request_on_a_spot_vm_after_its_losses_is_seen() -> None:
    async def acts() -> None:
        server = FakeContainers()
        seen = SpotRequests(server, Random(0))
        uuid = server.add(scheduling_parameters={"preemptible": True, "prefer_preemptible": True})
        for _ in range(3):
            seen.moved(uuid, ContainerState.CANCELLED)
            await pass_time(1.0)
            uuid = max(server.records)
        assert seen.quiet
        assert server.records[uuid]["scheduling_parameters"]["preemptible"] is False
        server.records[uuid]["scheduling_parameters"] = {"preemptible": True}
        seen.started({"container_uuid": uuid, "instance_type": {"Name": "s", "Preemptible": True}})
        assert "after" in seen.verdict

    play(acts())
