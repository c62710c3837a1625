"""What holds for every cache on disk, whatever its layout: the list is run for each kind.

What one kind alone does is tested beside it: blocks in `test_block_cache`, trees in
`test_tree_cache`, layers in `images/test_layer_cache`, images in `supervisor/inputs/test_layers`,
mirrors in `api/git/test_git_cache`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lading.client.caches.disk_cache import DiskCache, EntryClaim
from lading.client.caches.entry_files import is_full
from lading.core.errors import Unavailable
from lading.process import removal
from tests.client.disk_caches import KEY, KINDS, Kind

KEYS = [letter * 32 for letter in "bcdef"]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
LOCKED = [kind for kind in KINDS if kind.layout.lock]
TREES, RUNNERS = (
    next(kind for kind in KINDS if kind.name == name) for name in ("trees", "runners")
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@contextmanager
def _builder(kind: Kind, root: Path, stage: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has come as far as `stage`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.client.disk_caches", kind.name, str(root), stage],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{stage}\n"
        try:
            yield process
        finally:
            process.kill()


def _build(kind: Kind, cache: DiskCache, key: str, data: bytes = b"whole") -> bool:
    """Build an entry unless it is there; whether it was built."""
    claim = cache.wait_for_claim(key)
    if claim is None:
        return False
    with claim:
        kind.write(claim, data)
        claim.publish(len(data))
    return True


def _left(root: Path) -> list[str]:
    return sorted(one.name for one in root.rglob("*") if one.name not in ("ledger", KEY[:3]))


def _age(cache: DiskCache, kind: Kind, key: str, used: float) -> None:
    place = cache.directory / kind.layout.lock.format(key) if kind.layout.lock else cache.path(key)
    os.utime(place, (used, used))


@each_kind
def test_an_entry_is_built_once_for_all(kind: Kind, root: Path) -> None:
    one, other = kind.cache(root), kind.cache(root)
    assert not one.holds(KEY)
    assert one.hold(KEY) is None
    assert [_build(kind, one, KEY), _build(kind, one, KEY), _build(kind, other, KEY)] == [
        True,
        False,
        False,
    ]
    assert other.holds(KEY)
    assert kind.read(other.path(KEY)) == b"whole"


@each_kind
def test_killed_before_the_rename_nothing_is_there(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)
    with _builder(kind, root, "written") as builder:
        assert not cache.holds(KEY)
        assert cache.lock(KEY, wait=False) is None
        builder.kill()
        builder.wait()
    assert not cache.holds(KEY)
    assert cache.hold(KEY) is None
    assert _build(kind, cache, KEY)
    assert kind.read(cache.path(KEY)) == b"whole"
    assert not cache.part(KEY).exists()


@each_kind
def test_killed_right_after_the_rename_the_entry_is_whole_or_absent(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)
    with _builder(kind, root, "renamed") as builder:
        builder.kill()
        builder.wait()
    _build(kind, cache, KEY)
    assert cache.holds(KEY)
    assert kind.read(cache.path(KEY)) == b"whole"


@each_kind
def test_what_a_killed_process_left_goes_with_the_next_eviction(kind: Kind, root: Path) -> None:
    with _builder(kind, root, "written") as builder:
        builder.kill()
        builder.wait()
    kind.cache(root, 0).evict(unused_since=float("inf"))
    assert _left(root) == []


@each_kind
async def test_another_process_is_waited_for_and_shared_with(kind: Kind, root: Path) -> None:
    polls = []

    async def publish(_: float) -> None:
        polls.append(1)
        builder.communicate("")

    cache = kind.cache(root, sleep=publish)
    with _builder(kind, root, "published") as builder:
        assert await cache.claim(KEY) is None
        assert len(polls) <= 1
        held = cache.hold(KEY)
    assert held is not None
    os.close(held)
    assert kind.read(cache.path(KEY)) == b"whole"


@each_kind
def test_two_at_the_same_time_build_once(kind: Kind, root: Path) -> None:
    built: list[bool] = []
    start = threading.Barrier(4)

    def build() -> None:
        cache = kind.cache(root)
        start.wait()
        built.append(_build(kind, cache, KEY))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(built) == [False, False, False, True]
    assert not kind.cache(root).part(KEY).exists()


@each_kind
def test_a_held_entry_can_be_read_whatever_is_evicted(kind: Kind, root: Path) -> None:
    cache, evicting = kind.cache(root), kind.cache(root, 0)
    _build(kind, cache, KEY)
    held = cache.hold(KEY)
    assert held is not None
    evicting.evict()
    if kind.layout.lock:
        assert kind.read(cache.path(KEY)) == b"whole"
    else:
        assert os.pread(held, 10, 0) == b"whole"
    os.close(held)
    evicting.evict()
    assert not cache.holds(KEY)


@each_kind
def test_an_entry_that_is_built_is_not_evicted(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)
    claim = cache.wait_for_claim(KEY)
    assert claim is not None
    with claim:
        kind.write(claim, b"whole")
        kind.cache(root, 0).evict(unused_since=float("inf"))
        claim.publish(5)
    assert kind.read(cache.path(KEY)) == b"whole"


@each_kind
def test_the_least_recently_used_go_first(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)
    for number, key in enumerate(KEYS):
        _build(kind, cache, key, b"x" * 5000)
        _age(cache, kind, key, 1000.0 + number)
    cache.touch(KEYS[0])
    small = kind.cache(root, 40_000 if kind.layout.page else 15_000)
    assert small.evict(spare_since=1001.0) == 0
    assert small.evict() == 2
    assert [cache.holds(key) for key in KEYS] == [True, False, False, True, True]
    assert cache.evict(unused_since=1004.0) == 1
    assert [cache.holds(key) for key in KEYS] == [True, False, False, False, True]


@each_kind
def test_what_fails_leaves_nothing(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)

    def fail() -> None:
        claim = cache.wait_for_claim(KEY)
        assert claim is not None
        with claim:
            kind.write(claim, b"half")
            raise OSError(errno.ENOSPC, "no room")

    with pytest.raises(OSError, match="no room") as caught:
        fail()
    assert is_full(caught.value)
    assert _left(root) == ([f"{KEY}.part"] if kind.layout.keeps_parts else [])
    assert _build(kind, cache, KEY)


@each_kind
def test_an_entry_is_removed_and_built_again(kind: Kind, root: Path) -> None:
    cache = kind.cache(root)
    _build(kind, cache, KEY)
    assert cache.remove(KEY)
    assert not cache.holds(KEY)
    assert cache.remove(KEY), "removing what is not there is no error"
    assert _build(kind, cache, KEY)


@pytest.mark.parametrize("kind", LOCKED, ids=lambda kind: kind.name)
async def test_acquire_builds_once_and_holds(kind: Kind, root: Path) -> None:
    caches, builds = [kind.cache(root) for _ in range(3)], []

    async def build(claim: EntryClaim) -> None:
        builds.append(claim.part)
        await asyncio.sleep(0)
        kind.write(claim, b"whole")
        claim.publish(5)

    held = await asyncio.gather(*(cache.acquire(KEY, build) for cache in caches * 2))
    assert len(builds) == 1
    assert not kind.cache(root).remove(KEY), "it is in use"
    for one in held:
        os.close(one)
    assert kind.cache(root).remove(KEY)


async def test_an_entry_that_never_stays_is_not_built_for_ever(root: Path) -> None:
    cache, builds = RUNNERS.cache(root, is_whole=lambda _: False), []

    async def build(claim: EntryClaim) -> None:
        builds.append(claim)
        RUNNERS.write(claim, b"")
        claim.publish()

    with pytest.raises(Unavailable, match="make the cache larger"):
        await cache.acquire(KEY, build)
    assert len(builds) == 5


def test_a_lock_that_was_removed_meanwhile_is_not_trusted(root: Path) -> None:
    cache = TREES.cache(root)
    first = cache.lock(KEY, wait=True)
    assert first is not None
    taken: list[int | None] = []
    waiting = threading.Thread(target=lambda: taken.append(cache.lock(KEY, wait=True)))
    waiting.start()
    (root / f"{KEY}.lock").unlink()
    os.close(first)
    waiting.join()
    assert taken[0] is not None
    assert os.fstat(taken[0]).st_ino == (root / f"{KEY}.lock").stat().st_ino
    os.close(taken[0])


def test_an_entry_that_cannot_be_removed_does_not_keep_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache, real = TREES.cache(root), removal.discard
    for key in KEYS[:2]:
        _build(TREES, cache, key)

    def discard(place: Path, **how: Any) -> None:
        if place.name.startswith(KEYS[0]):
            raise OSError(errno.EIO, "Input/output error")
        real(place, **how)

    monkeypatch.setattr(removal, "discard", discard)
    assert TREES.cache(root, 0, aside=root.parent / "aside").evict() == 1
    assert not cache.holds(KEYS[1])
    assert "cannot be removed" in caplog.text
