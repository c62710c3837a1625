"""Git trees as mounts of requests, from a repository to the record of a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.api.mounts.git_cache import GIT
from lading.core.records.schema import Record
from lading.testing.world import World, world
from tests.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def mounts(**spec: str) -> Record:
    return {"/out": {"kind": "tmp"}, "/src": {"kind": "git_tree", **spec}}


async def known(it: World, repository: Repository) -> Record:
    found: Record = await it.ok(
        "POST", "repositories", {"name": "tools", "fetch_url": repository.url}
    )
    return found


async def source(it: World, request: Record) -> Any:
    return (await it.ok("GET", f"containers/{request['container_uuid']}"))["mounts"]["/src"]


async def test_a_commit_by_uuid_and_by_name(it: World, repository: Repository) -> None:
    repository.commit(scripts__grep="x")
    record = await known(it, repository)
    by_uuid = await it.submit(mounts=mounts(uuid=record["uuid"], commit="main"))
    assert await source(it, by_uuid) == {"kind": "git_tree", "tree": repository.hash("main^{tree}")}
    by_name = await it.submit(
        mounts=mounts(repository_name="tools", commit="main", path="/scripts/grep")
    )
    assert await source(it, by_name) == {
        "kind": "git_tree",
        "blob": repository.hash("main:scripts/grep"),
    }
    assert by_name["mounts"]["/src"]["commit"] == "main"


async def test_commits_with_the_same_tree_are_one_container(
    it: World, repository: Repository
) -> None:
    repository.commit(scripts__grep="x")
    await known(it, repository)
    wanted = mounts(repository_name="tools", commit="main", path="scripts")
    first = await it.submit(mounts=wanted)
    repository.commit(readme="the path did not change")
    assert (await it.submit(mounts=wanted))["container_uuid"] == first["container_uuid"]
    repository.commit(scripts__grep="changed")
    assert (await it.submit(mounts=wanted))["container_uuid"] != first["container_uuid"]


async def test_a_range_is_satisfied_by_any_of_its_trees_and_a_new_one_takes_the_newest(
    it: World, repository: Repository
) -> None:
    repository.commit(a="0")
    repository.git("tag", "v0")
    repository.commit(a="1")
    repository.git("tag", "v1")
    newest = repository.commit(a="2")
    await known(it, repository)
    older = await it.submit(mounts=mounts(repository_name="tools", commit="v1"))
    ranged = mounts(repository_name="tools", revisions="v0..main")
    assert (await it.submit(mounts=ranged))["container_uuid"] == older["container_uuid"]
    fresh = await it.submit(mounts=ranged, use_existing=False)
    assert (await source(it, fresh))["tree"] == repository.hash(f"{newest}^{{tree}}")
    shown = await it.ok("POST", "container_requests/preview", await it.spec(mounts=ranged))
    assert (shown["decision"], shown["git"]["/src"]["commit"], shown["git"]["/src"]["commits"]) == (
        "reuse",
        newest,
        2,
    )
    excluded = await it.submit(
        mounts=mounts(repository_name="tools", revisions="v1..main"), use_existing=False
    )
    chosen = await it.request(
        "PUT", f"container_requests/{excluded['uuid']}", {"container_uuid": older["container_uuid"]}
    )
    assert (chosen.status, "mounts./src.tree differs" in chosen.error) == (422, True)


async def test_a_draft_is_committed_with_the_trees_of_that_moment(
    it: World, repository: Repository
) -> None:
    repository.commit(a="1")
    await known(it, repository)
    draft = await it.submit(
        state="Uncommitted", mounts=mounts(repository_name="tools", commit="main")
    )
    shown = await it.ok("POST", f"container_requests/{draft['uuid']}/satisfy")
    assert (await source(it, shown))["tree"] == repository.hash("main^{tree}")
    repository.commit(a="2")
    done = await it.ok("PUT", f"container_requests/{draft['uuid']}", {"state": "Committed"})
    assert (await source(it, done))["tree"] == repository.hash("main^{tree}")
    assert (await it.ok("GET", f"containers/{shown['container_uuid']}"))["priority"] == 0


async def test_faults(it: World, repository: Repository) -> None:
    repository.commit(a="1")
    record = await known(it, repository)
    alice = await it.user("alice")
    for spec, token, words in (
        ({"repository_name": "tools", "commit": "nope"}, None, "has no commit 'nope'"),
        ({"repository_name": "other", "commit": "main"}, None, "repository 'other' not found"),
        ({"uuid": record["uuid"], "commit": "main"}, alice, "not found"),
        ({"git_url": repository.url, "commit": "main"}, None, "not among the repositories"),
        ({"git_url": repository.url}, None, "exactly one of commit, revisions"),
    ):
        body = await it.spec(mounts=mounts(**spec), token=token)
        refused = await it.request("POST", "container_requests", body, token=token)
        assert (refused.status, words in refused.error) == (422, True), refused.error
    wrong = await it.request("POST", "container_requests", {**(await it.spec()), "mounts": "x"})
    assert wrong.status == 422


async def test_an_address_on_the_list(tmp_path: Path, repository: Repository) -> None:
    repository.commit(a="1")
    async with world(tmp_path, Containers={"GitRepositories": [f"file://{tmp_path}/"]}) as it:
        made = await it.submit(mounts=mounts(git_url=repository.url, commit="main"))
        assert (await source(it, made))["tree"] == repository.hash("main^{tree}")
        alice = await it.user("alice")
        await it.ok(
            "POST", "repositories", {"name": "hers", "fetch_url": repository.url}, token=alice
        )


async def test_a_preview_is_asked_for_again_while_the_repository_is_fetched(
    tmp_path: Path, repository: Repository
) -> None:
    repository.commit(a="1")
    async with world(tmp_path, Containers={"ResolveTimeout": 0.0}) as it:
        await known(it, repository)
        spec = await it.spec(mounts=mounts(repository_name="tools", commit="main"))
        first = await it.request("POST", "container_requests/preview", spec)
        assert (first.status, "try again" in first.error) == (503, True)
        await it.app.services.features[GIT].close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "git@169.254.169.254", "0.0.0.0", "git@100.100.100.200"]
)
async def test_a_repository_on_the_machine_of_the_server_has_to_be_configured(
    tmp_path: Path, host: str
) -> None:
    """Also one that an admin has stored."""
    url = f"http://{host}:1/x.git"
    for listed, status, words in (
        ([], 422, "own machine or link"),
        ([f"http://{host}:1/"], 503, "fetch"),
    ):
        where = tmp_path / str(status)
        where.mkdir()
        async with world(where, Containers={"GitRepositories": listed, "GitTimeout": 5}) as it:
            await it.ok("POST", "repositories", {"name": "tools", "fetch_url": url})
            spec = await it.spec(mounts=mounts(repository_name="tools", commit="main"))
            if status == 503 and "@" in host:
                continue
            reply = await it.request("POST", "container_requests", spec)
            assert (reply.status, words in reply.error) == (status, True), reply.error


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        # git would look it up again, and might get an address that nobody checked.
        ("http://nobody.invalid/x.git", "nobody.invalid cannot be looked up; try again"),
        ("git://nobody.invalid/x.git", "nobody.invalid cannot be looked up; try again"),
        # A name of ssh's own configuration.
        ("ssh://nobody.invalid/x.git", "git fetch ssh://nobody.invalid/x.git: failed"),
    ],
)
async def test_a_name_that_nobody_knows(it: World, url: str, fault: str) -> None:
    await it.ok("POST", "repositories", {"name": "tools", "fetch_url": url})
    reply = await it.request(
        "POST",
        "container_requests",
        await it.spec(mounts=mounts(repository_name="tools", commit="main")),
    )
    assert (reply.status, fault in reply.error) == (503, True), reply.error
