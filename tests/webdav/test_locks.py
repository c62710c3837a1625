from __future__ import annotations

import itertools

import pytest

from lading.core.errors import LadingError, Malformed
from lading.webdav import locks
from lading.webdav.locks import Lock, LockCondition, Locks


class Bench:
    """Locks with a clock that is moved by hand."""

    def __init__(self, **more: int) -> None:
        self.now = 0.0
        numbers = itertools.count(1)
        self.locks = Locks(
            clock=lambda: self.now, new_token=lambda: f"urn:uuid:{next(numbers)}", **more
        )

    def take(self, path: str, *, deep: bool = True, seconds: float = 10) -> Lock:
        return self.locks.take("c", path, deep=deep, owner="o", holder="h", seconds=seconds)

    def status(
        self, path: str, *tokens: str, holder: str = "h", below: bool = False, member: bool = False
    ) -> int:
        try:
            self.locks.check(
                "c", path, tokens=set(tokens), holder=holder, below=below, member=member
            )
        except LadingError as error:
            return error.status
        return 200


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_deep_lock_holds_for_all_below(bench: Bench) -> None:
    lock = bench.take("d")
    assert [bench.status(path) for path in ("d", "d/f", "dd", "")] == [423, 423, 200, 200]
    assert bench.status("d/f", lock.token) == 200
    assert bench.status("d/f", lock.token, holder="other") == 423
    assert bench.status("", below=True) == 423


def test_a_shallow_lock_holds_for_the_members(bench: Bench) -> None:
    bench.take("d", deep=False)
    assert [bench.status("d/f"), bench.status("d/f", member=True), bench.status("d")] == [
        200,
        423,
        423,
    ]


def test_locks_in_each_others_way(bench: Bench) -> None:
    bench.take("d/f")
    for path, deep in (("d/f", False), ("d", True), ("", True)):
        with pytest.raises(LadingError, match="is locked"):
            bench.take(path, deep=deep)
    assert bench.take("d", deep=False).path == "d"


def test_locks_end(bench: Bench) -> None:
    lock = bench.take("f")
    bench.now = 9
    assert bench.locks.refresh("c", "f", tokens={lock.token}, seconds=10).until == 19
    bench.now = 18
    assert bench.status("f") == 423
    bench.now = 19
    assert bench.status("f") == 200
    with pytest.raises(LadingError, match="no such lock"):
        bench.locks.refresh("c", "f", tokens={lock.token}, seconds=10)


def test_release_and_forget(bench: Bench) -> None:
    lock, other = bench.take("f"), bench.take("d/g")
    for holder, token, status in (("x", lock.token, 403), ("h", "none", 409)):
        with pytest.raises(LadingError) as caught:
            bench.locks.release("c", "f", token, holder=holder)
        assert caught.value.status == status
    bench.locks.release("c", "f", lock.token, holder="h")
    bench.locks.forget("c", "d")
    assert bench.status("d/g") == 200
    assert other.path == "d/g"


def test_there_are_only_so_many() -> None:
    bench = Bench(most=1)
    bench.take("f")
    with pytest.raises(LadingError) as caught:
        bench.take("g")
    assert caught.value.status == 503


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("Second-5", 5), ("Infinite, Second-99999", 3600), ("Infinite", 3600), ("", 600)],
)
def test_timeouts(header: str, seconds: float) -> None:
    assert locks.read_timeout(header) == seconds


def test_conditions() -> None:
    found = locks.read_conditions(
        '<http://h/a> (<urn:x> ["t"]) (Not <urn:y>) <http://h/b> ([W/"u"])'
    )
    assert found == [
        ("http://h/a", [LockCondition("urn:x"), LockCondition(tag="t")]),
        ("http://h/a", [LockCondition("urn:y", negated=True)]),
        ("http://h/b", [LockCondition(tag="u")]),
    ]
    assert locks.tokens_of("(<urn:x>) (Not <urn:y>)") == {"urn:x"}
    with pytest.raises(Malformed):
        locks.read_conditions("(<urn:x> ?)")


def test_shared_locks_are_taken_by_several(bench: Bench) -> None:
    first, second = (
        bench.locks.take("c", "f", deep=True, owner="o", holder=holder, seconds=9, shared=True)
        for holder in ("h", "i")
    )
    with pytest.raises(LadingError, match="is locked"):
        bench.take("f")
    # Each holder writes with the own token; without one nobody does.
    for lock in (first, second):
        bench.locks.check("c", "f", tokens={lock.token}, holder=lock.holder)
    for tokens, holder in ((set(), "h"), ({first.token}, "i")):
        with pytest.raises(LadingError, match="is locked"):
            bench.locks.check("c", "f", tokens=tokens, holder=holder)
    bench.take("g")
    with pytest.raises(LadingError, match="is locked"):
        bench.locks.take("c", "g", deep=True, owner="o", holder="i", seconds=9, shared=True)
