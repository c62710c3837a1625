"""image add and image ls against a real API and block store."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Site
from tests.client.images.images_on_disk import LAYERS, saved_files, write_tar


def test_an_archive_is_added_once_and_listed(site: Site, here: Path) -> None:
    write_tar(here / "a.tar", saved_files(*LAYERS, tags=["tools:1"]))
    added = site.lading("image", "add", "a.tar")
    assert added.stdout.startswith("sha256:")
    assert "added" in added.stderr
    again = json.loads(site.lading("image", "add", "--json", "a.tar", "--name", "tools").stdout)
    assert (again["is_new"], again["names"]) == (False, ["tools:1", "tools:latest"])
    lines = site.lading("image", "ls").stdout.splitlines()
    assert lines[0].split() == ["NAME", "IMAGE", "SIZE", "ADDED", "COLLECTION"]
    assert [line.split()[:2] for line in lines[1:]] == [[name, again["digest"][7:19]] for name in again["names"]]
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
    assert "--name a b: not a name" in site.lading("image", "add", "x", "--name", "a b", code=1).stderr
    assert "nosuch: no such file or directory, and" in site.lading("image", "add", "nosuch", code=1).stderr
    assert "--from-host nosuch: is not on PATH" in site.lading("image", "add", "--from-host", "nosuch", code=1).stderr


def test_no_image_yet(tmp_path: Path) -> None:
    with Site(tmp_path) as fresh:
        assert "no image yet; try: lading image add" in fresh.lading("image", "ls").stderr
        assert "no image yet; add one first" in fresh.lading("run", "--", "true", code=1).stderr
