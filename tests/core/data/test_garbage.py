from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lading.core.data.garbage import (
    DAY_NS,
    GarbageAction,
    GarbagePlan,
    GarbageVolume,
    Replica,
    Sight,
    Terms,
    add_need,
    decide,
    make_plan,
)
from lading.core.data.garbage import distinct_volumes as distinct
from lading.core.data.garbage import revise_plan as revise
from lading.core.data.placement import ReplicaPlace

HASH = "acbd18db4cc2f85cedef654fccc4a4d8"
NOW = 100 * DAY_NS
TERMS = Terms(now_ns=NOW, grace_ns=14 * DAY_NS, lifetime_ns=14 * DAY_NS)
OLD, NEW = NOW - 20 * DAY_NS, NOW - 5 * DAY_NS
ARCHIVE = frozenset({"archive"})
VOLUMES = distinct(
    [
        GarbageVolume(replica_place=ReplicaPlace(uuid="a", free=1000)),
        GarbageVolume(replica_place=ReplicaPlace(uuid="b", free=1000)),
        GarbageVolume(replica_place=ReplicaPlace(uuid="archive", free=1000, classes=ARCHIVE)),
        GarbageVolume(replica_place=ReplicaPlace(uuid="ro", free=1000), is_read_only=True),
    ]
)


def on(*volumes: str, at: int = OLD) -> list[Replica]:
    return [Replica(volume, 3, at) for volume in volumes]


def steps(plan: GarbagePlan) -> list[tuple[str, str]]:
    return [(step.kind, step.volume) for step in plan.steps]


def about(
    need: dict[str, int] | None, held: Sequence[Replica] = (), thrown: Sequence[Replica] = ()
) -> GarbagePlan:
    return decide(HASH, need, held, thrown, VOLUMES, TERMS)


def test_what_no_collection_names_goes_once_its_signatures_have_ended() -> None:
    plan = about(None, [*on("a"), *on("b", at=NEW), *on("ro")])
    assert steps(plan) == [(GarbageAction.TRASH, "a")]
    assert plan.steps[0].reason == "no collection names it, last put 20 days ago"
    assert plan.steps[0].moment_ns == OLD


def test_what_lay_in_the_bin_long_enough_is_deleted() -> None:
    plan = about(None, (), [*on("a"), *on("b", at=NEW), *on("ro")])
    assert steps(plan) == [(GarbageAction.DELETE, "a")]
    assert plan.steps[0].reason == "20 days in the trash, no collection names it"


def test_a_short_lifetime_does_not_outrun_signatures() -> None:
    terms = Terms(now_ns=NOW, grace_ns=14 * DAY_NS, lifetime_ns=0)
    assert decide(HASH, None, (), on("a", at=NEW), VOLUMES, terms).steps == ()
    assert len(decide(HASH, None, (), on("a"), VOLUMES, terms).steps) == 1


def test_nothing_goes_when_it_may_not() -> None:
    terms = Terms(now_ns=NOW, grace_ns=0, lifetime_ns=0, may_trash=False)
    assert decide(HASH, None, on("a"), on("b"), VOLUMES, terms).steps == ()
    assert decide(HASH, {"default": 1}, on("a", "b"), on("a"), VOLUMES, terms).steps == ()


def test_what_is_needed_comes_back_from_the_bin() -> None:
    assert steps(about({"default": 1}, (), on("a", "b"))) == [(GarbageAction.UNTRASH, "a")]
    assert steps(about({"default": 2}, on("a"), on("a", "b"))) == [(GarbageAction.UNTRASH, "b")]
    assert steps(about({"default": 1}, (), on("archive"))) == [(GarbageAction.UNTRASH, "archive")]


def test_what_has_too_few_copies_is_copied() -> None:
    plan = about({"default": 2, "archive": 1}, on("a"))
    assert sorted(steps(plan)) == [(GarbageAction.PULL, "archive"), (GarbageAction.PULL, "b")]
    assert all(step.reason.startswith("too few copies in ") for step in plan.steps)
    assert plan.lacking == ()


def test_copies_that_cannot_be_made_are_told() -> None:
    assert about({"default": 4}, on("a", "b", "ro")).lacking == (HASH,)
    full = distinct(
        [
            GarbageVolume(replica_place=ReplicaPlace(uuid="a")),
            GarbageVolume(replica_place=ReplicaPlace(uuid="b", free=2)),
        ]
    )
    assert decide(HASH, {"default": 2}, on("a"), (), full, TERMS) == GarbagePlan(
        steps=(), lacking=(HASH,)
    )


def test_what_is_nowhere_is_lost() -> None:
    assert about({"default": 1}) == GarbagePlan(steps=(), lost=(HASH,))
    assert about({"default": 1}, on("unknown"), on("unknown")).lost == (HASH,)


def test_a_second_look_takes_back_what_was_said_of_a_block() -> None:
    other = "0" * 32
    sight = Sight(
        VOLUMES, needs={HASH: {"default": 1}, other: {"default": 2}}, replicas={other: on("ro")}
    )
    plan = make_plan(sight, TERMS)
    assert (plan.lost, {step.hash for step in plan.steps}) == ((HASH,), {other})
    sight.replicas[HASH] = on("a")
    again = revise(plan, [HASH], sight, TERMS)
    assert again == GarbagePlan(steps=plan.steps)
    assert revise(plan, [other], Sight(VOLUMES, needs=sight.needs), TERMS).lost == (other,)


def test_copies_beyond_the_need_go_but_never_the_last_nor_a_recent_one() -> None:
    (trashed,) = about({"default": 1}, on("a", "b")).steps
    assert (trashed.kind, trashed.reason) == (GarbageAction.TRASH, "there are copies enough")
    assert about({"default": 1}, on("a", "b", at=NEW)).steps == ()
    assert about({"default": 0}, on("a")).steps == ()
    assert steps(about({"default": 1}, on("a", "ro"))) == [(GarbageAction.TRASH, "a")]
    assert steps(about({"archive": 1}, on("a", "archive"))) == [(GarbageAction.TRASH, "a")]
    assert steps(about({"default": 1}, on("a"), on("b"))) == [(GarbageAction.DELETE, "b")]


def test_a_class_that_nobody_serves_keeps_blocks_where_they_are() -> None:
    assert about({"tape": 1}, on("a", "b")).steps == ()
    assert steps(about({"tape": 1}, (), on("a"))) == [(GarbageAction.UNTRASH, "a")]


def test_a_volume_that_stands_for_all_copies_is_enough() -> None:
    volumes = distinct([GarbageVolume(replica_place=ReplicaPlace(uuid="one", copies=None))])
    assert decide(HASH, {"default": 5}, on("one"), (), volumes, TERMS) == GarbagePlan(steps=())


def test_volumes_on_one_device_are_one() -> None:
    found = distinct(
        [
            GarbageVolume(replica_place=ReplicaPlace(uuid="a", device="disk"), is_read_only=True),
            GarbageVolume(replica_place=ReplicaPlace(uuid="b", device="disk")),
            GarbageVolume(replica_place=ReplicaPlace(uuid="c")),
        ]
    )
    assert list(found) == ["b", "c"]


def test_the_most_that_is_needed_counts() -> None:
    sight = Sight(VOLUMES, replicas={HASH: on("a"), "f" * 32: on("b")})
    add_need(sight.needs, HASH, copies=1, classes=("default",))
    add_need(sight.needs, HASH, copies=2, classes=("default", "archive"))
    add_need(sight.needs, HASH, copies=1, classes=("default",))
    add_need(sight.needs, "0" * 32, copies=1, classes=("default",))
    assert sight.needs[HASH] == {"default": 2, "archive": 2}
    plan = make_plan(sight, TERMS)
    assert plan.lost == ("0" * 32,)
    assert plan.lacking == (HASH,)
    assert sorted(steps(plan)) == [
        (GarbageAction.PULL, "archive"),
        (GarbageAction.PULL, "b"),
        (GarbageAction.TRASH, "b"),
    ]


class World:
    """Volumes, collections and signatures as they are in truth; a plan may be old by the time it is
    carried out.
    """

    def __init__(self, names: str, copies: int) -> None:
        self.now = NOW
        self.volumes = distinct(
            [GarbageVolume(replica_place=ReplicaPlace(uuid=name, free=1000)) for name in names]
        )
        self.held: dict[tuple[str, str], int] = {}
        self.thrown: dict[tuple[str, str], int] = {}
        self.collections: dict[int, tuple[str, int | None]] = {}
        self.signed: dict[str, int] = {}
        self.copies = copies
        self.plan = GarbagePlan(steps=())

    def put(self, hash: str, volume: str) -> None:
        self.now += 1
        self.held[hash, volume] = self.now
        self.signed[hash] = self.now + TERMS.grace_ns

    def save(self, hash: str, number: int) -> None:
        if self.signed.get(hash, 0) >= self.now:
            self.collections[number] = (hash, None)

    def read(self, number: int) -> None:
        if number in self.collections and self.collections[number][1] is None:
            hash = self.collections[number][0]
            self.signed[hash] = max(self.signed.get(hash, 0), self.now + TERMS.grace_ns)

    def remove(self, number: int) -> None:
        # Into the trash; the record goes when every signature that was read from it has ended.
        if number in self.collections and self.collections[number][1] is None:
            self.collections[number] = (self.collections[number][0], self.now + TERMS.grace_ns)

    def wait(self, days: int) -> None:
        self.now += days * DAY_NS
        gone = [
            number
            for number, (_, end) in self.collections.items()
            if end is not None and end < self.now
        ]
        for number in gone:
            del self.collections[number]

    def look(self) -> None:
        sight = Sight(self.volumes)
        for seen, found in ((sight.replicas, self.held), (sight.thrown, self.thrown)):
            for (hash, volume), moment in found.items():
                seen.setdefault(hash, []).append(Replica(volume, 3, moment))
        for hash, _ in self.collections.values():
            add_need(sight.needs, hash, copies=self.copies, classes=("default",))
        self.plan = make_plan(
            sight, Terms(now_ns=self.now, grace_ns=TERMS.grace_ns, lifetime_ns=TERMS.lifetime_ns)
        )
        assert self.plan.lost == ()

    def act(self) -> None:
        for step in self.plan.steps:
            key = step.hash, step.volume
            if step.kind is GarbageAction.UNTRASH and key in self.thrown:
                del self.thrown[key]
                self.held[key] = self.now
            elif step.kind is GarbageAction.PULL and any(
                hash == step.hash for hash, _ in self.held
            ):
                self.held[key] = self.now
            elif step.kind is GarbageAction.TRASH and self.held.get(key) == step.moment_ns:
                del self.held[key]
                self.thrown[key] = self.now
            elif step.kind is GarbageAction.DELETE and self.thrown.get(key) == step.moment_ns:
                del self.thrown[key]

    def check(self) -> None:
        there = {hash for hash, _ in (*self.held, *self.thrown)}
        assert {hash for hash, _ in self.collections.values()} <= there
        assert {hash for hash, end in self.signed.items() if end >= self.now} <= there


BLOCKS, NUMBERS = st.sampled_from("xyz"), st.integers(0, 3)
MOVES = st.one_of(
    st.tuples(st.just("put"), BLOCKS, st.sampled_from("ab")),
    st.tuples(st.just("save"), BLOCKS, NUMBERS),
    st.tuples(st.just("read"), NUMBERS),
    st.tuples(st.just("remove"), NUMBERS),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("look")),
    st.tuples(st.just("act")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(MOVES, max_size=60), st.integers(1, 2))
def test_nothing_that_is_or_may_yet_be_named_is_ever_lost(
    moves: list[tuple[object, ...]], copies: int
) -> None:
    world = World("ab", copies)
    for name, *arguments in moves:
        getattr(world, str(name))(*arguments)
        world.check()


@settings(max_examples=50, deadline=None)
@given(st.lists(MOVES, max_size=30), st.integers(1, 2))
def test_left_alone_every_block_ends_up_where_it_is_needed(
    moves: list[tuple[object, ...]], copies: int
) -> None:
    world = World("ab", copies)
    for name, *arguments in moves:
        getattr(world, str(name))(*arguments)
    for _ in range(6):
        world.wait(30)
        world.look()
        world.act()
    named = {hash for hash, _ in world.collections.values()}
    assert sorted(hash for hash, _ in world.held) == sorted(
        hash for hash in named for _ in range(copies)
    )
    assert world.thrown == {}
