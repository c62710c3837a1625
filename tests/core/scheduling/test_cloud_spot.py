from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.resources import GIB, Resources
from lading.core.scheduling import cloud_limits, cloud_spot
from lading.core.scheduling.cloud_limits import CloudRules, Limits
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.cloud_spot import (
    AVOIDED_LONGEST,
    AVOIDED_SHORTEST,
    BOOT,
    WAVE,
    Reclaims,
)
from lading.core.scheduling.instance_types import (
    NO_GPU,
    ContainerShape,
    InstanceType,
    with_preemptible,
)
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject

ORDINARY = tuple(
    InstanceType(name=name, provider_type=name, resources=Resources(4, 8 * GIB), price=price)
    for name, price in (("m5", 1.0), ("m6", 1.1))
)
RULES = CloudRules(types=with_preemptible(ORDINARY, 0.3))
SPOT = ContainerShape(need=Resources(1, GIB), preemptible=True)
LOSSES = st.lists(
    st.tuples(st.sampled_from(["m5", "m6"]), st.sampled_from(["a", "b"]), st.floats(0, 5000)),
    max_size=12,
)


def after(losses: list[tuple[str, str, float]]) -> tuple[Reclaims, float]:
    found: Reclaims = {}
    now = 0.0
    for type_, zone, pause in losses:
        now += pause
        found = cloud_spot.reclaimed(found, type_, zone, now=now)
    return found, now


@given(LOSSES)
def test_no_type_is_avoided_for_ever(losses: list[tuple[str, str, float]]) -> None:
    found, now = after(losses)
    assert all(
        AVOIDED_SHORTEST <= ban.length <= AVOIDED_LONGEST and ban.until <= now + AVOIDED_LONGEST
        for ban in found.values()
    )
    for zones in ((), ("a", "b")):
        assert cloud_spot.avoided_types(found, zones, now=now + AVOIDED_LONGEST) == {}
    if losses:
        type_, zone, _ = losses[-1]
        assert zone in cloud_spot.avoided_zones(found, type_, now=now)
        assert type_ in cloud_spot.avoided_types(found, (), now=now)


def test_the_next_loss_counts_double_and_a_wave_once() -> None:
    found = cloud_spot.reclaimed({}, "m5", "a", now=0.0)
    found = cloud_spot.reclaimed(found, "m5", "a", now=WAVE - 1)
    assert found["m5", "a"].length == AVOIDED_SHORTEST
    found = cloud_spot.reclaimed(found, "m5", "a", now=2 * AVOIDED_SHORTEST)
    assert found["m5", "a"].length == 2 * AVOIDED_SHORTEST
    later = found["m5", "a"].until + 2 * AVOIDED_SHORTEST
    assert cloud_spot.reclaimed(found, "m5", "a", now=later)["m5", "a"].length == AVOIDED_SHORTEST


def test_a_type_is_avoided_when_each_zone_is() -> None:
    one = cloud_spot.reclaimed({}, "m5", "a", now=0.0)
    assert cloud_spot.avoided_types(one, ("a", "b"), now=1.0) == {}
    assert set(cloud_spot.avoided_types(one, ("a",), now=1.0)) == {"m5"}
    both = cloud_spot.reclaimed(one, "m5", "b", now=100.0)
    found = cloud_spot.avoided_types(both, ("a", "b"), now=101.0)
    assert found["m5"].until == AVOIDED_SHORTEST
    assert cloud_spot.avoided_types(both, ("a", "b"), now=AVOIDED_SHORTEST) == {}


def avoiding(*names: str) -> Limits:
    found: Reclaims = {}
    for name in names:
        found = cloud_spot.reclaimed(found, name, "", now=0.0)
    return Limits(avoided=cloud_spot.avoided_types(found, (), now=0.0))


@pytest.mark.parametrize(
    ("avoided", "made"),
    [((), "m5.preemptible"), (("m5",), "m6.preemptible"), (("m5", "m6"), "m5.preemptible")],
)
def test_an_avoided_type_is_passed_over_where_another_one_will_do(
    avoided: tuple[str, ...], made: str
) -> None:
    planner = Planner(RULES)
    planner.add(TrackedContainer(uuid="u", priority=1), SPOT)
    decided = planner.decide(avoiding(*avoided), now=1.0)
    assert [name for _, name in decided.creates] == [made]


def test_ordinary_types_are_never_avoided() -> None:
    limits = avoiding("m5")
    assert [limits.avoids(one, now=1.0) != "" for one in RULES.types] == [False, False, True, False]
    assert limits.next_moment(now=1.0) == AVOIDED_SHORTEST


def test_why_none_is_to_be_had() -> None:
    def lack(limits: Limits, shape: ContainerShape = SPOT) -> str:
        return cloud_spot.lack_of_spot(shape, RULES, limits, now=1.0)

    assert lack(Limits()) == lack(avoiding("m5")) == ""
    assert lack(avoiding("m5", "m6")) == "m6 was taken away"
    scarce = cloud_limits.capacity_refused(avoiding("m6"), group="m5-spot", why="no", now=0.0)
    assert lack(scarce) == "m6 was taken away"
    large = ContainerShape(need=Resources(64, GIB), preemptible=True)
    assert lack(Limits(), large) == "no preemptible type can hold it"


@given(st.floats(1, 1e6), st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_deadline_leaves_time_for_a_second_run(
    left: float, run_time: int, max_run_time: int
) -> None:
    one = TrackedContainer(
        uuid="u", preemptible=True, prefers=True, deadline=1e9 + left, run_time=run_time,
        max_run_time=max_run_time,
    )  # fmt: skip
    known = run_time or max_run_time
    if not cloud_spot.is_deadline_near(one, now=1e9):
        assert known
        assert left >= 2 * (known + BOOT) - 1
    # It only comes nearer.
    elif known:
        assert cloud_spot.is_deadline_near(one, now=1e9 + 1)
    assert not cloud_spot.is_deadline_near(TrackedContainer(uuid="u"), now=1e9)


def test_a_container_for_ordinary_vms_alone() -> None:
    wanted = TrackedContainer(uuid="u", priority=1, preemptible=True, prefers=True)
    assert cloud_spot.ordinary(wanted) == TrackedContainer(uuid="u", priority=1)


def test_the_cheapest_types_are_offered_by_the_part_of_a_vm_that_a_run_takes() -> None:
    def offers(need: Resources, kinds: tuple[InstanceType, ...] = RULES.types) -> list[JsonObject]:
        made = cloud_spot.offers(need, NO_GPU, kinds, seconds=7200, extra_ram=0)
        return [one.shown() for one in made]

    half = offers(Resources(2, 4 * GIB))
    assert [(one["instance_type"], one["preemptible"]) for one in half] == [
        ("m5.preemptible", True), ("m5", False),
    ]  # fmt: skip
    assert [one["cost"] for one in half] == pytest.approx([0.3, 1.0])
    assert offers(Resources(1, GIB), ORDINARY)[0]["price"] == 1.0
    assert offers(Resources(64, GIB)) == []


def test_an_offer_in_words() -> None:
    cheap, ordinary = cloud_spot.offers(
        Resources(2, 4 * GIB), NO_GPU, RULES.types, seconds=7200, extra_ram=0
    )
    end, later = "2026-01-31T12:00:00.000000000Z", "2026-01-31T13:00:00.000000000Z"
    assert cloud_spot.offer_sentence(ordinary, end).startswith(
        "On an ordinary VM (m5, $1 an hour) its run costs $1.0000 and ends at "
    )
    words = cloud_spot.offer_sentence(cheap, end, later_finish=later)
    assert "On a preemptible VM (m5.preemptible, $0.3 an hour)" in words
    assert ", or with one loss at its end $0.6000 and " in words
