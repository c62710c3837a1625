"""image add, pull and ls against a real API and block store."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lading.client.api import ApiClient, Record
from lading.client.transport import HttpTransport
from lading.core.data import filetree, manifest
from lading.core.data.filetree import bare
from lading.testing.asgi import serving
from tests.cli.site import Site
from tests.client.images.fake_registry import FakeRegistry
from tests.client.images.images_on_disk import LAYERS, digest, saved_files, tar_of, write_tar

_LARGE = tar_of({"bin/": None, "bin/large": random.Random(1).randbytes(2 << 20)})


@pytest.fixture
def registry(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[FakeRegistry, str]]:
    """A registry and its host."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    fake, stack = FakeRegistry(), AsyncExitStack()
    server = site.call(stack.enter_async_context(serving(fake)))
    yield fake, f"127.0.0.1:{server.port}"
    site.call(stack.aclose())


def test_an_archive_is_added_once_and_listed(site: Site, here: Path) -> None:
    write_tar(here / "a.tar", saved_files(*LAYERS, tags=["tools:1"]))
    added = site.lading("image", "add", "a.tar")
    assert added.stdout.startswith("sha256:")
    assert "added" in added.stderr
    again = json.loads(site.lading("image", "add", "--json", "a.tar", "--name", "tools").stdout)
    assert (again["is_new"], again["names"]) == (False, ["tools:1", "tools:latest"])
    lines = site.lading("image", "ls").stdout.splitlines()
    assert lines[0].split() == ["NAME", "IMAGE", "SIZE", "ADDED", "COLLECTION"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [name, again["digest"][7:19]] for name in again["names"]
    ]
    (one,) = json.loads(site.lading("image", "ls", "--json").stdout)
    assert (one["digest"], one["names"]) == (added.stdout.strip(), again["names"])


def test_a_name_moves_to_the_image_that_was_given_it_last(site: Site, here: Path) -> None:
    write_tar(here / "one.tar", saved_files(LAYERS[0]))
    write_tar(here / "two.tar", saved_files(LAYERS[1]))
    site.lading("image", "add", "one.tar", "--name", "moving:1")
    moved = site.lading("image", "add", "two.tar", "--name", "moving:1")
    assert "moving:1 was another image before" in moved.stderr
    listed = json.loads(site.lading("image", "ls", "--json").stdout)
    assert [one["digest"] for one in listed if "moving:1" in one["names"]] == [moved.stdout.strip()]


def test_programs_of_this_machine(site: Site) -> None:
    done = site.lading("image", "add", "--from-host", "true", "--name", "host:1")
    assert done.stdout.startswith("sha256:")
    assert "added" in done.stderr
    assert "host:1" in done.stderr


def test_an_image_without_a_name_is_listed_too(site: Site, here: Path) -> None:
    write_tar(here / "a.tar", saved_files(LAYERS[1], LAYERS[0]))
    assert "without a name; --name gives it one" in site.lading("image", "add", "a.tar").stderr
    assert any(line.startswith("- ") for line in site.lading("image", "ls").stdout.splitlines())
    assert "lading: image sha256:" in site.lading("run", "--preview", "--", "true").stderr


def test_mistakes_are_named(site: Site, here: Path) -> None:
    assert "one SOURCE at a time" in site.lading("image", "add", "sh", "awk", code=2).stderr
    assert (
        "--name a b: not a name" in site.lading("image", "add", "x", "--name", "a b", code=1).stderr
    )
    assert (
        "nosuch: no such file or directory, and"
        in site.lading("image", "add", "nosuch", code=1).stderr
    )
    assert (
        "--from-host nosuch: is not on PATH"
        in site.lading("image", "add", "--from-host", "nosuch", code=1).stderr
    )


def test_no_image_yet(tmp_path: Path) -> None:
    with Site(tmp_path) as fresh:
        assert "no image yet; try: lading image add" in fresh.lading("image", "ls").stderr
        assert "no image yet; add one first" in fresh.lading("run", "--", "true", code=125).stderr


def test_an_image_is_pulled_once_and_pinned(site: Site, registry: tuple[FakeRegistry, str]) -> None:
    fake, host = registry
    pinned = f"{host}/a/tools@{digest(fake.push('a/tools', '1', *LAYERS, author='pull'))}"
    pulled = site.lading("image", "pull", f"{host}/a/tools:1", "--name", "tools:pulled")
    assert pulled.stdout.startswith("sha256:")
    assert (
        f"fetched {sum(map(len, LAYERS)) // 1024}.0 KiB; this very content is {pinned}"
        in pulled.stderr
    )
    again = json.loads(site.lading("image", "pull", "--json", pinned).stdout)
    assert (again["is_new"], again["fetched"], again["pinned"]) == (False, 0, pinned)
    assert again["names"] == sorted([f"{host}/a/tools:1", pinned, "tools:pulled"])
    for name in (pinned, "tools:pulled", f"{host}/a/tools:1"):
        request = site.lading("run", "--detach", "--image", name, "--", "true").stdout.strip()
        container = site.call(_container(site, request))
        assert container["container_image"] == again["pdh"], (
            "a container is bound to content, whatever was asked for"
        )


def test_a_tag_that_moves_leaves_what_is_pinned(
    site: Site, registry: tuple[FakeRegistry, str]
) -> None:
    fake, host = registry
    before = digest(fake.push("b", "1", LAYERS[0], author="before"))
    first = site.lading("image", "pull", f"{host}/b:1").stdout
    fake.push("b", "1", LAYERS[0], author="after")
    moved = site.lading("image", "pull", f"{host}/b:1")
    assert f"{host}/b:1 was another image before" in moved.stderr
    assert moved.stdout != first
    listed = {
        name: one["digest"]
        for one in json.loads(site.lading("image", "ls", "--json").stdout)
        for name in one["names"]
    }
    assert listed[f"{host}/b@{before}"] == first.strip()
    assert listed[f"{host}/b:1"] == moved.stdout.strip()


def test_layers_of_several_images_are_stored_and_fetched_once(
    site: Site, registry: tuple[FakeRegistry, str]
) -> None:
    fake, host = registry
    fake.push("c", "1", LAYERS[0], _LARGE)
    fake.push("c", "2", _LARGE, LAYERS[1])
    pulled = [
        json.loads(site.lading("image", "pull", "--json", f"{host}/c:{tag}").stdout)
        for tag in (1, 2)
    ]
    assert [one["fetched"] for one in pulled] == [len(LAYERS[0]) + len(_LARGE), len(LAYERS[1])]
    texts = [site.call(_manifest(site, one["pdh"])) for one in pulled]
    blocks = [{bare(locator) for locator in manifest.locators(text)} for text in texts]
    (shared,) = blocks[0] & blocks[1]
    assert int(shared.partition("+")[2]) > len(_LARGE), (
        "the layer, with what stands before it in the archive"
    )
    assert [filetree.total_size(filetree.from_manifest(text)) for text in texts] == [
        one["size"] for one in pulled
    ]


def test_mistakes_of_a_pull_are_named(site: Site, registry: tuple[FakeRegistry, str]) -> None:
    fake, host = registry
    assert (
        "'Tools:1' is no image of a registry: write [HOST"
        in site.lading("image", "pull", "Tools:1", code=1).stderr
    )
    assert (
        f"{host}/d:1: {host} has no image"
        in site.lading("image", "pull", f"{host}/d:1", code=1).stderr
    )
    fake.push("d", "1", LAYERS[0])
    fake.blobs[digest(LAYERS[0])] = b"x" * len(LAYERS[0])
    failed = site.lading("image", "pull", f"{host}/d:1", code=1).stderr
    assert f"layer {digest(LAYERS[0])[:19]}: what the registry sent is sha256:" in failed
    wrong = site.lading("image", "pull", f"{host}/d:1", "--platform", "arm", code=1).stderr
    assert "--platform arm: write for example linux/amd64" in wrong


async def _container(site: Site, request: str) -> Record:
    async with HttpTransport(unix_socket=site.socket) as transport:
        api = ApiClient(transport, site.world.admin)
        return await api.get(
            "containers", (await api.get("container_requests", request))["container_uuid"]
        )


async def _manifest(site: Site, pdh: str) -> str:
    async with HttpTransport(unix_socket=site.socket) as transport:
        text: str = (await ApiClient(transport, site.world.admin).get("collections", pdh))[
            "manifest_text"
        ]
    return text


def test_a_short_name_is_looked_up_in_the_registry_for_them(
    site: Site, registry: tuple[FakeRegistry, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, host = registry
    fake.push("library/debian", "12", LAYERS[0], author="short")
    named = json.loads(
        site.lading("image", "pull", "--json", "--registry", host, "debian:12").stdout
    )
    assert named["names"][:1] == [f"{host}/library/debian:12"]
    assert "debian:12" in named["names"]
    monkeypatch.setenv("LADING_REGISTRY", host)
    assert json.loads(site.lading("image", "pull", "--json", "debian:12").stdout)["fetched"] == 0
    assert site.lading("image", "list").stdout == site.lading("image", "ls").stdout


def test_run_pulls_what_is_missing(
    site: Site, registry: tuple[FakeRegistry, str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    (here / "x").write_text("")
    fake, host = registry
    monkeypatch.setenv("LADING_REGISTRY", host)
    fake.push("bio/tools", "9", LAYERS[1], author="missing")
    asked = ("--detach", "--image", "bio/tools:9", "--", "true")
    assert "bio/tools:9" in site.lading("run", *asked, code=125).stderr
    assert "pulled bio/tools:9: fetched" in site.lading("run", "--pull", *asked).stderr
    fake.asked.clear()
    assert "pulled" not in site.lading("run", "--pull", *asked).stderr
    (one,) = [
        row
        for row in json.loads(site.lading("image", "list", "--json").stdout)
        if "bio/tools:9" in row["names"]
    ]
    for name in (one["digest"], one["pdh"]):
        site.lading("run", "--detach", "--pull", "--image", name, "--", "true")
    assert fake.asked == []
    site.lading(
        "map", "--detach", "--pull", "--image", "bio/tools:9", "-i", "x", "--", "echo", "{}"
    )
    assert "say which --image" in site.lading("run", "--pull", "--", "true", code=125).stderr
