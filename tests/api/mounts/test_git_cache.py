"""Mirrors of git repositories: what is found in them, what happens when they cannot be reached."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.api.mounts.git_cache import GitCache
from lading.core.containers.mounting.git_trees import GitReference, ResolvedGitTree
from lading.core.errors import Invalid, Unavailable
from tests.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[GitCache]:
    made = GitCache(tmp_path / "mirrors", timeout=20.0)
    yield made
    await made.close()


def commit(revision: str, path: str = "") -> GitReference:
    return GitReference(
        target="/x", source="git_url", name="u", selector="commit", revision=revision, path=path
    )


def revisions(revision: str, path: str = "") -> GitReference:
    return GitReference(
        target="/x", source="git_url", name="u", selector="revisions", revision=revision, path=path
    )


async def find(
    cache: GitCache, repository: Repository, wanted: GitReference
) -> tuple[ResolvedGitTree, ...]:
    found = await cache.find(repository.url, wanted, patience=20.0)
    assert found is not None
    return found


async def test_a_commit_is_resolved_to_its_tree_a_path_to_tree_or_blob(
    cache: GitCache, repository: Repository
) -> None:
    head = repository.commit(tools__grep="x", readme="y")
    whole = (ResolvedGitTree(head, "tree", repository.hash("HEAD^{tree}")),)
    assert await find(cache, repository, commit("main")) == whole
    assert await find(cache, repository, commit(head)) == whole
    assert await find(cache, repository, commit("main", "tools")) == (
        ResolvedGitTree(head, "tree", repository.hash("HEAD:tools")),
    )
    blob = repository.hash("HEAD:tools/grep")
    assert await find(cache, repository, commit("main", "tools/grep")) == (
        ResolvedGitTree(head, "blob", blob),
    )


async def test_a_branch_that_moved_is_seen(cache: GitCache, repository: Repository) -> None:
    first = repository.commit(a="1")
    assert (await find(cache, repository, commit("main")))[0].commit == first
    second = repository.commit(a="2")
    assert (await find(cache, repository, commit("main")))[0].commit == second
    repository.git("tag", "v2")
    assert (await find(cache, repository, commit("v2")))[0].commit == second


async def test_a_range_is_a_set_of_trees_the_newest_first(
    cache: GitCache, repository: Repository
) -> None:
    repository.commit(a="0")
    repository.git("tag", "v0")
    one = repository.commit(a="1")
    repository.commit(b="unrelated")
    three = repository.commit(a="3")
    assert (await find(cache, repository, revisions("v0..main")))[0].commit == three
    by_path = await find(cache, repository, revisions("v0..main", "a"))
    assert [(found.commit, found.kind) for found in by_path] == [
        (three, "blob"),
        (repository.hash("main~1"), "blob"),
    ]
    assert by_path[1].hash == repository.hash(f"{one}:a")


@pytest.mark.parametrize(
    "wanted", [commit("nope"), commit("main", "nope"), revisions("main..main"), revisions("a..b")]
)
async def test_what_is_not_there(
    cache: GitCache, repository: Repository, wanted: GitReference
) -> None:
    repository.commit(a="1")
    with pytest.raises(Invalid, match=r"Mounts \[/x\].* has no commit"):
        await find(cache, repository, wanted)


async def test_a_repository_that_cannot_be_reached(cache: GitCache, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="git fetch .*failed with code"):
        await cache.find(f"file://{tmp_path}/nothing", commit("main"), patience=20.0)
    with pytest.raises(Unavailable, match="install git"):
        await GitCache(tmp_path / "m", timeout=1.0, program="no-such-git").find(
            "file:///x", commit("x"), patience=9.0
        )


def _slow(tmp_path: Path, seconds: str) -> str:
    program = tmp_path / "slow"
    program.write_text(f'#!/bin/sh\nsleep {seconds}\nexec git "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


async def test_git_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    slow = GitCache(tmp_path / "mirrors", timeout=0.05, program=_slow(tmp_path, "60"))
    with pytest.raises(Unavailable, match=r"took longer than 0.05 s"):
        await slow.find("file:///x", commit("main"), patience=20.0)


async def test_who_asks_again_shares_the_search(tmp_path: Path, repository: Repository) -> None:
    repository.commit(a="1")
    slow = GitCache(tmp_path / "mirrors", timeout=20.0, program=_slow(tmp_path, "0.05"))
    assert await slow.find(repository.url, commit("main"), patience=0.0) is None
    both = await asyncio.gather(
        *(slow.find(repository.url, commit("main"), patience=20.0) for _ in range(2))
    )
    assert both[0] == both[1] is not None
    assert await slow.find(repository.url, commit("main"), patience=0.0) is None
    await slow.close()


async def test_searches_are_limited(tmp_path: Path) -> None:
    slow = GitCache(tmp_path / "mirrors", timeout=20.0, program=_slow(tmp_path, "60"), most=1)
    assert await slow.find("file:///x", commit("main"), patience=0.0) is None
    with pytest.raises(Unavailable, match="too many repositories"):
        await slow.find("file:///y", commit("main"), patience=0.0)
    await slow.find("file:///x", commit("main"), patience=0.2)
    await slow.close()


async def test_waiting_for_one_fetch_is_enough(cache: GitCache, repository: Repository) -> None:
    repository.commit(a="1", b="2")
    several = (commit("main", "a"), commit("main", "b"), commit("main"))
    found = await asyncio.gather(*(find(cache, repository, one) for one in several))
    assert {one[0].kind for one in found} == {"blob", "tree"}


async def test_what_no_mirror_has_is_no_archive(cache: GitCache, repository: Repository) -> None:
    repository.commit(a="1")
    assert await cache.archive("tree", "a" * 40) is None
    await find(cache, repository, commit("main"))
    assert await cache.archive("tree", "a" * 40) is None


async def test_an_archive_that_takes_too_long_is_given_up(
    tmp_path: Path, repository: Repository
) -> None:
    repository.commit(a="1")
    made = GitCache(tmp_path / "mirrors", timeout=20.0)
    await find(made, repository, commit("main"))
    late = GitCache(tmp_path / "mirrors", timeout=20.0)
    stream = await late.archive("tree", repository.hash("main^{tree}"))
    assert stream is not None
    late.timeout = 0.0
    with pytest.raises(Unavailable, match="GitTimeout"):
        async for _ in stream:
            late.timeout = -1.0
    missing = GitCache(tmp_path / "mirrors", timeout=20.0, program="no-such-git")
    with pytest.raises(Unavailable, match="install git"):
        await missing.archive("tree", repository.hash("main^{tree}"))


async def test_the_longest_unused_mirrors_go_first(tmp_path: Path) -> None:
    cache = GitCache(tmp_path / "mirrors", timeout=10, size=1500)
    for number, name in enumerate(("old", "older", "new")):
        mirror = tmp_path / "mirrors" / name
        (mirror / "objects" / "pack").mkdir(parents=True)
        (mirror / "objects" / "pack" / "pack").write_bytes(b"x" * 1000)
        (mirror / "lading.lock").touch()
        moment = [5000.0, 1000.0, 9000.0][number]
        os.utime(mirror / "lading.lock", (moment, moment))
    (tmp_path / "mirrors" / "unused").mkdir()

    def left() -> set[str]:
        return {one.name for one in (tmp_path / "mirrors").iterdir()}

    with (tmp_path / "mirrors" / "older" / "lading.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert await cache.shrink(9100.0) == 2
        assert left() == {"older", "new"}, "one that is being fetched stays"
    assert await cache.shrink(9100.0) == 1
    assert left() == {"new"}
    (tmp_path / "mirrors" / "new" / "objects" / "pack" / "x").write_bytes(b"x" * 2000)
    assert await cache.shrink(9100.0) == 0, "one that was used lately stays"
    assert await cache.shrink(99999.0) == 1
    await cache.close()
