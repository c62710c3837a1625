"""Fair share between projects: tags, accounts, and the bounds that follow."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.core.containers import priority
from lading.core.containers.priority import STEP
from lading.core.errors import Invalid
from lading.core.policy import fair_share
from lading.core.policy.fair_share import PARKED, Claim, Ratios, ShareAccount, Ticket
from lading.core.resources import GIB, Resources
from tests.records import make_request

NOW = 1_800_000_000_000
HOUR = 3_600_000
LEVELS = st.integers(1, 1000)
TAGS = st.integers(0, 1 << 62)
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0])
ACCOUNTS = st.builds(
    ShareAccount,
    weight=WEIGHTS,
    finish=st.integers(0, 1 << 50),
    credit=st.integers(0, 1 << 50),
    used=st.integers(0, 1 << 50),
    changed_at=st.integers(NOW - 400 * HOUR, NOW),
)


@given(LEVELS, TAGS, st.integers(0, 1 << 43))
def test_a_level_outranks_all_below_it_and_exact_tags_all_parked_ones(
    level: int, tag: int, created: int
) -> None:
    exact, parked = (
        fair_share.priority_at(level, tag),
        fair_share.parked_priority(level, created),
    )
    assert (level - 1) * STEP < parked < exact < level * STEP
    assert fair_share.level_of(exact) == fair_share.level_of(parked) == level


@given(LEVELS, TAGS, TAGS)
def test_the_lower_tag_goes_first(level: int, one: int, other: int) -> None:
    first, then = sorted((one, other))
    assert fair_share.priority_at(level, first) >= fair_share.priority_at(level, then)


@given(LEVELS, st.integers(0, 4 * 10**12), st.integers(0, 4 * 10**12))
def test_parked_containers_are_in_order_of_age(level: int, one: int, other: int) -> None:
    first, then = (fair_share.parked_priority(level, created) for created in (one, other))
    assert (first > then) == (one < other)


@pytest.mark.parametrize("user", [1, 500, 1000])
def test_the_level_of_a_priority_without_fair_share(user: int) -> None:
    own = priority.own_priority(user, "2026-01-01T00:00:00.000000000Z")
    assert fair_share.level_of(own) == user
    assert fair_share.level_of(0) == 0


def test_requests_from_before_go_first() -> None:
    own = priority.own_priority(5, "2026-01-01T00:00:00.000000000Z")
    assert own > fair_share.priority_at(5, fair_share.first_clock(NOW))


def test_the_clock_lasts_for_decades_of_a_large_site() -> None:
    # 100,000 VCPUs, all used by one project of weight 1.
    years = ((PARKED << fair_share.GRAIN) - fair_share.first_clock(NOW)) / 1e8 / 86400 / 365
    assert years > 20


@pytest.mark.parametrize(
    ("need", "vcpus"),
    [
        (Resources(2, 4 * GIB), 2.0),
        (Resources(2, 16 * GIB), 4.0),
        (Resources(2, 4 * GIB, gpus=1), 8.0),
    ],
)
def test_the_dominant_resource(need: Resources, vcpus: float) -> None:
    assert fair_share.dominant_vcpus(need) == vcpus


def test_ratios_of_the_machines() -> None:
    assert fair_share.ratios_of(Resources(64, 128 * GIB, gpus=4)) == Ratios(2 * GIB, 16)
    assert fair_share.ratios_of(Resources(64, 128 * GIB)) == Ratios(2 * GIB, 8)
    assert fair_share.ratios_of(Resources()) == Ratios()


@pytest.mark.parametrize("value", [True, "3", 0, 0.01, 1e9, -1, [1]])
def test_weights_that_are_refused(value: object) -> None:
    with pytest.raises(Invalid, match="share: must be a number"):
        fair_share.read_weight("share", value)  # type: ignore[arg-type]


def test_weights() -> None:
    assert fair_share.read_weight("share", None) is None
    assert fair_share.read_weight("share", 3) == 3.0


# Accounts.


@given(ACCOUNTS, st.floats(0.1, 64), st.integers(1, 1 << 40))
def test_what_is_withdrawn_was_never_charged(
    account: ShareAccount, vcpus: float, expected: int
) -> None:
    charged, ticket = fair_share.admit(account, vcpus=vcpus, expected=expected)
    assert charged.finish > account.finish
    assert fair_share.withdraw(charged, ticket) == account


@given(ACCOUNTS, st.floats(0.1, 64), st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_the_end_corrects_what_was_expected(
    account: ShareAccount, vcpus: float, expected: int, held: int
) -> None:
    account = replace(account, credit=0)
    charged, ticket = fair_share.admit(account, vcpus=vcpus, expected=expected)
    prolonged, longer = fair_share.prolong(charged, ticket, held_ms=min(held, 2 * expected))
    after = fair_share.finish(prolonged, longer, held_ms=held)
    known, _ = fair_share.admit(account, vcpus=vcpus, expected=held)
    assert after.finish == known.finish
    assert after.used == account.used + round(vcpus * held)


@given(ACCOUNTS, st.integers(0, 1 << 50), st.integers(0, 1000 * HOUR))
def test_an_account_that_is_brought_up_is_not_behind_and_decays(
    account: ShareAccount, clock: int, later: int
) -> None:
    after = fair_share.bring_up(
        account, clock=clock, now=NOW + later, half_life=24 * HOUR, floor=clock
    )
    assert after.finish >= clock
    assert after.finish - clock <= max(0, account.finish - clock)
    assert after.credit <= account.credit + max(0, clock - account.finish)
    assert after.used <= account.used


def test_half_of_it_is_forgotten_in_a_half_life() -> None:
    account = ShareAccount(finish=5_000, credit=1_000, used=400, changed_at=NOW)
    later, clock = NOW + HOUR, 1_000
    after = fair_share.bring_up(account, clock=clock, now=later, half_life=HOUR, floor=clock)
    assert (after.finish, after.credit, after.used) == (3_000, 500, 200)
    # What is ahead because containers wait stays.
    for floor in (None, 0):
        after = fair_share.bring_up(account, clock=clock, now=later, half_life=HOUR, floor=floor)
        assert (after.finish, after.credit, after.used) == (5_000, 500, 200)


def test_an_idle_share_gets_credit_and_is_charged_half_until_it_is_used_up() -> None:
    idle = ShareAccount(finish=0, changed_at=NOW)
    assert fair_share.bring_up(idle, clock=1_000, now=NOW, half_life=HOUR) == idle
    back = fair_share.bring_up(idle, clock=1_000, now=NOW, half_life=HOUR, floor=1_000)
    assert (back.finish, back.credit) == (1_000, 1_000)
    once, ticket = fair_share.admit(back, vcpus=1, expected=1_500)
    assert (ticket.charge, ticket.lent, once.credit) == (750, 750, 250)
    twice, ticket = fair_share.admit(once, vcpus=1, expected=1_500)
    assert (ticket.charge, ticket.lent, twice.credit) == (1_250, 250, 0)


def test_the_mean_time_is_learned() -> None:
    account, ticket = fair_share.admit(ShareAccount(), vcpus=1, expected=60_000)
    account = fair_share.finish(account, ticket, held_ms=1_000)
    assert account.expected == 1_000
    account = fair_share.finish(account, ticket, held_ms=2_000)
    assert account.expected == 1_250


def test_one_that_is_not_held_for_long_is_not_prolonged() -> None:
    account, ticket = fair_share.admit(ShareAccount(), vcpus=1, expected=1_000)
    assert fair_share.prolong(account, ticket, held_ms=999) == (account, ticket)
    longer, prolonged = fair_share.prolong(account, ticket, held_ms=1_000)
    assert (longer.finish, prolonged.expected) == (2_000, 2_000)


def tickets(*tags: int) -> list[Ticket]:
    return [Ticket(tag=tag, vcpus=1, weight=1, expected=10, charge=10) for tag in tags]


@pytest.mark.parametrize(
    ("finish", "floor", "expected"),
    [
        # 30 are charged for those that wait, so the first is due at the finish less 30.
        (130, 0, []),
        (131, 0, []),
        (132, 0, [102]),
        (110, 0, [80]),
        (110, 90, [90]),
        (146, 0, [116, 116]),
        (160, 0, [130, 130, 130]),
    ],
)
def test_the_first_that_waits_follows_what_was_used(
    finish: int, floor: int, expected: list[int]
) -> None:
    moved = fair_share.align(ShareAccount(finish=finish), tickets(100, 110, 120), floor=floor)
    assert [one.tag for one in moved] == expected


def test_a_container_that_cannot_run_moves_no_clock() -> None:
    account, huge = fair_share.admit(ShareAccount(finish=100), vcpus=1e12, expected=1_000)
    account, small = fair_share.admit(account, vcpus=1, expected=10)
    assert small.tag > 1 << 49
    assert fair_share.virtual_start(account, small, [huge, small]) == 100
    assert fair_share.virtual_start(account, huge, [huge, small]) == 100


# Claims.


def wanted(
    number: int, container: str, *, user: int = 1, by: str | None = None, at: int = 0
) -> object:
    return make_request(
        number,
        state="Committed",
        container_uuid=container,
        requesting_container_uuid=by,
        priority=user,
        created_at=f"2026-01-01T00:00:{at:02d}.000000000Z",
    )


def test_the_highest_level_then_the_oldest_request_claims() -> None:
    requests = [
        wanted(1, "c", user=1, at=1),
        wanted(2, "c", user=7, at=3),
        wanted(3, "c", user=7, at=2),
        wanted(4, "d", user=0),
    ]
    found = fair_share.claims({}, requests, recompute=["c", "d"])  # type: ignore[arg-type]
    assert found == {"c": Claim(7, requests[2]), "d": None}  # type: ignore[arg-type]


def test_a_child_keeps_the_level_of_its_parent() -> None:
    requests = [
        wanted(1, "parent", user=9),
        wanted(2, "child", user=3, by="parent"),
        wanted(3, "below", user=3, by="child"),
        wanted(4, "other", user=3, by="running"),
        wanted(5, "held", user=3, by="on hold"),
        wanted(6, "alone", user=3, by="gone"),
    ]
    found = fair_share.claims(
        {"running": 4 * STEP - 17, "on hold": 0, "gone": None},
        requests,  # type: ignore[arg-type]
        recompute=["below", "child", "parent", "other", "held", "alone"],
    )
    levels = {uuid: claim.level if claim else 0 for uuid, claim in found.items()}
    assert levels == {
        "parent": 9, "child": 9, "below": 9, "other": 4, "held": 0, "alone": 3
    }  # fmt: skip


def test_containers_that_ask_for_each_other_gain_nothing() -> None:
    requests = [wanted(1, "a", by="b"), wanted(2, "b", by="a")]
    found = fair_share.claims({"a": 5, "b": 5}, requests, recompute=["a", "b"])  # type: ignore[arg-type]
    assert found == {"a": None, "b": None}


def test_how_many_times_its_share_one_has_used() -> None:
    assert fair_share.times_its_share(60, 1, 80, 4) == 3.0
    assert fair_share.times_its_share(0, 1, 0, 4) == 0.0


# Bounds, in a world with slots, where each share always has containers that wait.


@dataclass
class Share:
    account: ShareAccount
    works: list[int]
    late: float
    queue: list[Ticket] = field(default_factory=list)
    started: int = 0
    """Work of containers that began."""
    number: int = 0


@dataclass
class Site:
    """Shares that always have a window of waiting containers, and slots; all at one level."""

    shares: list[Share]
    slots: int
    clock: int = 0
    time: int = NOW
    running: list[tuple[int, int, int, Ticket]] = field(default_factory=list)
    numbers: int = 0

    def fill(self, share: Share) -> None:
        while len(share.queue) < 4:
            work = share.works[share.number % len(share.works)]
            share.number += 1
            expected = max(1, round(work * share.late))
            floor = fair_share.floor(share.account, clock=self.clock, vcpus=1, expected=expected)
            share.account = fair_share.bring_up(
                share.account,
                clock=self.clock,
                now=self.time,
                half_life=1 << 60,
                floor=floor if share.number > 1 else self.clock,
            )
            share.account, ticket = fair_share.admit(share.account, vcpus=1, expected=expected)
            share.queue.append(ticket)

    def align(self, share: Share) -> None:
        moved = fair_share.align(share.account, share.queue, floor=0) if share.queue else []
        share.queue[: len(moved)] = moved

    def start(self, place: int = 0) -> int:
        """Start a container once there is a slot; the number of its share. `place`: how many shares
        with lower tags are passed over.
        """
        while len(self.running) >= self.slots:
            self.time, _, number, ticket = heapq.heappop(self.running)
            share = self.shares[number]
            held = round(ticket.expected / share.late)
            share.account = fair_share.finish(share.account, ticket, held_ms=held)
            self.align(share)
        for share in self.shares:
            self.fill(share)
        ranked = sorted(range(len(self.shares)), key=lambda one: self.shares[one].queue[0].tag)
        number = ranked[min(place, len(ranked) - 1)]
        share = self.shares[number]
        ticket = share.queue.pop(0)
        start = fair_share.virtual_start(share.account, ticket, [ticket, *share.queue])
        self.clock = max(self.clock, start)
        held = round(ticket.expected / share.late)
        share.started += held
        self.numbers += 1
        heapq.heappush(self.running, (self.time + held, self.numbers, number, ticket))
        self.fill(share)
        self.align(share)
        return number


def sites(late: st.SearchStrategy[float]) -> st.SearchStrategy[Site]:
    share = st.builds(
        Share,
        account=st.builds(ShareAccount, weight=WEIGHTS, changed_at=st.just(NOW)),
        works=st.lists(st.integers(1, 10_000), min_size=1, max_size=4),
        late=late,
    )
    return st.builds(Site, shares=st.lists(share, min_size=2, max_size=6), slots=st.integers(1, 8))


@settings(max_examples=200)
@given(sites(st.just(1.0)), st.integers(0, 60))
def test_shares_that_wait_all_the_time_get_their_weights(site: Site, before: int) -> None:
    """In any interval; the bound of start-time fair queueing."""
    for _ in range(before):
        site.start()
    earlier = [share.started for share in site.shares]
    for _ in range(80):
        site.start()
        for one, was in zip(site.shares, earlier, strict=True):
            for other, had in zip(site.shares, earlier, strict=True):
                mine = Fraction(one.started - was) / Fraction(one.account.weight)
                theirs = Fraction(other.started - had) / Fraction(other.account.weight)
                most = max(one.works) / one.account.weight + max(other.works) / other.account.weight
                # Each charge is rounded by at most a half.
                assert abs(mine - theirs) <= most + 1 + site.numbers


@settings(max_examples=100)
@given(sites(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])))
def test_shares_converge_to_weights_whatever_was_expected(site: Site) -> None:
    largest = max(max(one.works) / one.account.weight for one in site.shares)
    site.start()
    for _ in range(600):
        site.start()
    used = [one.started / one.account.weight for one in site.shares]
    # Only what runs is charged wrongly, by four times at most.
    assert max(used) - min(used) <= largest * (3 + 4 * site.slots) + site.numbers


@settings(max_examples=100)
@given(sites(st.just(1.0)), st.lists(st.integers(0, 3), max_size=30))
def test_a_share_that_is_passed_over_catches_up(site: Site, places: list[int]) -> None:
    """Dispatchers lock in parallel, and what fits: nothing is lost by that."""
    for share in site.shares:
        # One amount for all, so that no share falls behind by more than a window.
        share.works = [1_000]
    for place in places:
        site.start(place)
    for _ in range(400):
        site.start()
    used = [one.started / one.account.weight for one in site.shares]
    assert max(used) - min(used) <= 2 * 1_000 / min(one.account.weight for one in site.shares) + 1


@settings(max_examples=100)
@given(sites(st.just(1.0)), st.integers(0, 60), st.integers(0, 1 << 30), WEIGHTS)
def test_a_share_that_comes_waits_for_a_bounded_amount_of_others(
    site: Site, before: int, credit: int, weight: float
) -> None:
    """Also when all others have credit."""
    for share in site.shares:
        share.account = replace(share.account, credit=credit)
    for _ in range(before):
        site.start()
    newcomer = Share(ShareAccount(weight=weight, changed_at=site.time), [100], 1.0)
    site.shares.append(newcomer)
    site.fill(newcomer)
    ahead = newcomer.queue[0].tag - site.clock
    assert ahead == 0
    earlier = [share.started for share in site.shares[:-1]]
    while not newcomer.started:
        site.start()
    for share, had in zip(site.shares, earlier, strict=False):
        most = fair_share.LENT * share.account.weight * ahead + 2 * max(share.works)
        assert share.started - had <= most


@given(st.integers(0, 1 << 30))
def test_credit_is_worth_twice_the_weight_at_most(credit: int) -> None:
    site = Site(
        [Share(ShareAccount(credit=credit), [100], 1.0), Share(ShareAccount(), [100], 1.0)], slots=1
    )
    for _ in range(90):
        site.start()
    one, other = (share.started for share in site.shares)
    assert other >= (one - 300) / fair_share.LENT
