"""What the supervisor of a container gets for its git_tree mounts."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from lading.api.mounts.git_cache import GIT
from lading.testing.world import World
from tests.api.resources.test_git_mounts import known, mounts
from tests.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


async def test_the_supervisor_gets_the_content_and_nobody_else_does(
    it: World, repository: Repository
) -> None:
    repository.commit(scripts__grep="x", readme="y")
    await known(it, repository)
    wanted = mounts(repository_name="tools", commit="main") | {
        "/one": {"kind": "git_tree", "repository_name": "tools", "commit": "main", "path": "readme"}
    }
    request = await it.submit(mounts=wanted)
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    tree, blob = repository.hash("main^{tree}"), repository.hash("main:readme")
    path = f"containers/{uuid}/git_tree"
    archive = await it.request("GET", path, params={"hash": tree}, token=supervisor)
    assert (archive.status, archive.headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(archive.body)) as tar:
        assert sorted(tar.getnames()) == ["readme", "scripts", "scripts/grep"]
    one = await it.request("GET", path, params={"hash": blob}, token=supervisor)
    assert (one.status, one.body) == (200, b"y")
    other = repository.hash("main:scripts")
    assert (await it.request("GET", path, params={"hash": other}, token=supervisor)).status == 404
    assert (await it.request("GET", path, token=supervisor)).status == 404
    assert (await it.request("GET", path, params={"hash": tree})).status == 403


async def test_a_mirror_that_is_gone_is_fetched_again(
    it: World, repository: Repository, tmp_path: Path
) -> None:
    repository.commit(a="1")
    await known(it, repository)
    request = await it.submit(mounts=mounts(repository_name="tools", commit="main"))
    supervisor = await it.lock(request["container_uuid"])
    path, tree = f"containers/{request['container_uuid']}/git_tree", repository.hash("main^{tree}")
    mirrors = it.app.services.features[GIT].directory
    shutil.rmtree(mirrors)
    assert (await it.request("GET", path, params={"hash": tree}, token=supervisor)).status == 200
    shutil.rmtree(mirrors)
    repository.git("checkout", "--orphan", "fresh")
    repository.commit(a="2")
    repository.git("branch", "-M", "main")
    gone = await it.request("GET", path, params={"hash": tree}, token=supervisor)
    assert (gone.status, "no repository" in gone.error) == (404, True)
