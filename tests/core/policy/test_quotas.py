"""Room in quotas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.container import Container
from lading.core.errors import Invalid
from lading.core.policy.budgets import Money, Period, Spent
from lading.core.policy.quotas import (
    AMOUNTS,
    MOST,
    Amounts,
    Charge,
    Limit,
    Quota,
    Room,
    Shortage,
    Standing,
    amount_text,
    amounts_of,
    check_queued,
    check_quota,
    check_single,
    check_stored,
    choose_displaced,
    crossing_sentence,
    exceeds,
    find_room,
    runs_workflow,
    shortage_sentence,
    shown_use,
    use_text,
)
from lading.core.records.service_records import QUOTAS
from lading.core.values import Json, JsonObject
from tests.records import make_container

USER, PROJECT = "zzzzz-tpzed-000000000000000", "zzzzz-j7d0g-000000000000000"
SMALL = st.integers(0, 9)
AMOUNT = st.builds(Amounts, SMALL, SMALL, SMALL, SMALL)
MAYBE = st.none() | st.integers(0, 20)
QUOTA = st.builds(
    lambda subject, containers, vcpus, ram, gpus: Quota(
        subject_uuid=subject, containers=containers, vcpus=vcpus, ram=ram, gpus=gpus
    ),
    st.sampled_from([USER, PROJECT]), MAYBE, MAYBE, MAYBE, MAYBE,
)  # fmt: skip


@given(wanted=AMOUNT, used=AMOUNT, quota=QUOTA)
def test_room_never_exceeds_a_quota(wanted: Amounts, used: Amounts, quota: Quota) -> None:
    found = find_room(wanted, [Standing(quota=quota, used=used)])
    assert isinstance(found, Room) is not exceeds(wanted + used, quota)
    if isinstance(found, Shortage):
        assert found.for_ever is exceeds(wanted, quota)
        limit = quota.limit(found.limit)
        assert limit is not None
        assert (wanted + used).of(found.limit) > limit
    else:
        assert found.displaces == {}


@given(
    wanted=AMOUNT, held=AMOUNT, waiting=st.lists(AMOUNT, max_size=6), quota=QUOTA,
    ranks=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)  # fmt: skip
def test_what_is_displaced_makes_room_and_is_not_too_much(
    wanted: Amounts, held: Amounts, waiting: list[Amounts], quota: Quota, ranks: list[int]
) -> None:
    charges = [
        Charge(str(n), rank, one) for n, (rank, one) in enumerate(zip(ranks, waiting, strict=False))
    ]
    yielding = sum(waiting, start=Amounts())
    standing = Standing(quota=quota, used=held + yielding, yielding=yielding)
    found = find_room(wanted, [standing])
    if isinstance(found, Shortage):
        assert exceeds(wanted + held, quota)
        return
    lacking = found.displaces.get(quota.subject_uuid, Amounts())
    chosen = choose_displaced(lacking, charges)
    assert chosen is not None
    left = sum((one.amounts for one in charges if one.container_uuid not in chosen), Amounts())
    assert not exceeds(wanted + held + left, quota)
    if lacking == Amounts():
        assert chosen == []


def test_the_first_shortage_is_named() -> None:
    quota = Quota(subject_uuid=USER, name="ada", vcpus=4, containers=2)
    full = Standing(quota=quota, used=Amounts(1, 4))
    assert find_room(Amounts(1, 1), [full]) == Shortage(USER, Limit.VCPUS)
    assert find_room(Amounts(1, 5), [full]) == Shortage(USER, Limit.VCPUS, for_ever=True)
    behind = Standing(quota=quota, is_behind=True)
    assert find_room(Amounts(1, 1), [behind]) == Shortage(USER, Limit.ORDER)
    broke = Quota(subject_uuid=PROJECT, money=Money(limit=5.0))
    poor = Standing(quota=broke, spent=Spent(5.0, 5.0))
    assert find_room(Amounts(1), [Standing(quota=quota), poor]) == Shortage(PROJECT, Limit.MONEY)
    assert choose_displaced(Amounts(1), []) is None


@given(wanted=AMOUNT, workflows=AMOUNT, steps=AMOUNT, quota=QUOTA)
def test_workflows_leave_half_for_their_steps(
    wanted: Amounts, workflows: Amounts, steps: Amounts, quota: Quota
) -> None:
    standing = Standing(quota=quota, used=workflows + steps, workflows=workflows)
    found = find_room(wanted, [standing])
    ours = wanted + workflows
    limits = {one: quota.limit(one) for one in AMOUNTS}
    within = all(most is None or ours.of(one) <= most // 2 for one, most in limits.items())
    assert isinstance(found, Room) is (within and not exceeds(ours + steps, quota))
    if within and isinstance(found, Shortage):
        assert found.limit is not Limit.WORKFLOWS


def test_what_a_container_holds() -> None:
    constraints: JsonObject = {
        "vcpus": 2, "ram": 100, "keep_cache_ram": 10, "gpu": {"device_count": 1},
    }  # fmt: skip
    one = Container(uuid="c", runtime_constraints=constraints)
    assert amounts_of(one) == Amounts(1, 2, 110, 1)
    gang = Container(uuid="c", runtime_constraints=constraints, scheduling_parameters={"nodes": 3})
    assert amounts_of(gang) == Amounts(1, 6, 330, 3)
    sharing: JsonObject = {"nodes": 3, "share_vcpus": True}
    gang = Container(uuid="c", runtime_constraints=constraints, scheduling_parameters=sharing)
    assert amounts_of(gang) == Amounts(1, 2, 330, 3)
    assert amounts_of(Container(uuid="c")) == Amounts(1)
    huge = {**constraints, "vcpus": 1 << 62, "ram": 1 << 62}
    endless = Container(uuid="c", runtime_constraints=huge, scheduling_parameters={"nodes": 9})
    assert amounts_of(endless) == Amounts(1, MOST, MOST, 9)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit.CONTAINERS, "the user ada: 3 of 4 containers are in use, and it needs 1; it runs"),
        (Limit.RAM, "1.0 GiB of 2.0 GiB of RAM are in use, and it needs 512.0 MiB; it runs"),
        (Limit.VCPUS, "It can never run: it needs 9 VCPUs, and the quota of the user ada is 8"),
        (
            Limit.WORKFLOWS,
            "have at most half of it, so that their steps can run (3 of 4 containers",
        ),
        (Limit.ORDER, "for which requests before it wait: 3 of 4 containers, 6 of 8 VCPUs"),
        (Limit.MONEY, "$7.00 of $5.00 a week are spent; it runs in the next week, or ask the lab"),
        (Limit.BUDGET, "$9.50 of its budget of $8.00 are spent; ask the lab for more"),
    ],
)
def test_sentences(limit: Limit, text: str) -> None:
    quota = Quota(
        subject_uuid=USER, name="ada", containers=4, vcpus=8, ram=2 << 30, contact="the lab",
        money=Money(limit=5.0, period=Period.WEEK, budget=8.0),
    )  # fmt: skip
    used = Amounts(3, 6, 1 << 30)
    wanted = Amounts(1, 9 if limit is Limit.VCPUS else 1, 1 << 29)
    assert text in shortage_sentence(quota, limit, used=used, needed=wanted, spent=Spent(7.0, 9.5))


def test_crossings() -> None:
    quota = Quota(subject_uuid=PROJECT, name="thesis", money=Money(limit=10.0, budget=20.0))
    assert crossing_sentence(quota, "money", Spent(8.5, 12.0), is_end=False) == (
        "the quota of the group thesis: $8.50 of the limit for the month of $10.00 are spent; "
        "at $10.00 nothing further starts"
    )
    assert crossing_sentence(quota, "budget", Spent(8.5, 20.0), is_end=True).endswith(
        "$20.00 of the budget of $20.00 are spent; nothing further starts"
    )


def test_what_is_refused_at_once() -> None:
    quota = Quota(subject_uuid=PROJECT, name="thesis", vcpus=2, queued=3, bytes_stored=10)
    check_single(quota, Amounts(1, 2))
    check_queued(quota, 2)
    check_stored(quota, 20, more=0)
    with pytest.raises(Invalid, match="is 2 VCPUs in all; ask for less"):
        check_single(quota, Amounts(1, 3))
    with pytest.raises(Invalid, match="2 VCPUs in all, of which a workflow has half"):
        check_single(quota, Amounts(1, 2), runs_workflow=True)
    with pytest.raises(Invalid, match="3 of 3 requests wait"):
        check_queued(quota, 3)
    with pytest.raises(Invalid, match="The quota of the group thesis has no room for 2 bytes"):
        check_stored(quota, 9, more=2)


def test_records() -> None:
    record = {**QUOTAS.defaults, "uuid": "q", "owner_uuid": USER, "subject_uuid": USER, "vcpus": 3}
    check_quota(record)
    quota = Quota.from_record(record)
    assert (quota.name, quota.vcpus, quota.ram) == (USER, 3, None)
    assert quota.money == Money()
    assert all(quota.limit(one) is None for one in AMOUNTS if one is not Limit.VCPUS)
    assert use_text(quota, Amounts(1, 2)) == "2 of 3 VCPUs"
    assert use_text(Quota(subject_uuid=USER), Amounts()) == "no limit"
    shown = shown_use(quota, Amounts(1, 2), Spent(1.5, 2.5), 4, 5)
    assert (shown["vcpus"], shown["money"], shown["queued"]) == (2, 1.5, None)
    tree = {**record, "subject_uuid": "zzzzz-xvhdp-000000000000000"}
    check_quota(tree)
    for fault in (
        {"subject_uuid": "zzzzz-4zz18-000000000000000"},
        {"money": float("nan")},
        {"warn_share": 1.5},
        {"period": "century"},
        {"contact": "a\x1b"},
        {"name": "n" * 256},
    ):
        with pytest.raises(Invalid):
            check_quota({**record, **fault})
    with pytest.raises(Invalid, match="stores nothing itself"):
        check_quota({**tree, "bytes_stored": 5})


@pytest.mark.parametrize(
    ("limit", "amount", "text"),
    [
        (Limit.RAM, 3 << 30, "3.0 GiB of RAM"),
        (Limit.BYTES, 1 << 20, "1.0 MiB stored"),
        (Limit.MONEY, 0.125, "$0.12"),
        (Limit.VCPUS, 2, "2 VCPUs"),
    ],
)
def test_an_amount_has_its_unit(limit: Limit, amount: float, text: str) -> None:
    assert amount_text(limit, amount) == text


@pytest.mark.parametrize(
    ("value", "runs"), [(True, True), (False, False), (1, False), (None, False)]
)
def test_a_container_that_runs_a_workflow_says_so(value: Json, runs: bool) -> None:
    assert runs_workflow(make_container(scheduling_parameters={"supervisor": value})) is runs


def test_a_container_whose_room_does_not_help_keeps_it() -> None:
    waiting = [Charge("a", 0, Amounts(1, ram=5)), Charge("b", 1, Amounts(1, vcpus=2))]
    assert choose_displaced(Amounts(vcpus=1), waiting) == ["b"]
    assert choose_displaced(Amounts(vcpus=3), waiting) is None
