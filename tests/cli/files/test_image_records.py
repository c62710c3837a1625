"""image show, share, unshare and remove against a real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.site import Site
from tests.client.images.images_on_disk import LAYERS, saved_files, tar_of, write_tar


@pytest.fixture
def ada(site: Site) -> str:
    return site.call(site.world.user("ada"))


def add(site: Site, here: Path, name: str, *more: str, token: str | None = None) -> str:
    """Add an image of its own content; its id."""
    layer = tar_of({"bin/": None, f"bin/{name.replace('/', '-')}": name.encode()})
    write_tar(here / "one.tar", saved_files(*LAYERS, layer))
    return site.lading("image", "add", "one.tar", "--name", name, *more, token=token).stdout.strip()


def names(site: Site, token: str | None = None) -> set[str]:
    listed = json.loads(site.lading("image", "list", "--json", token=token).stdout)
    return {name for one in listed for name in one["names"]}


def test_a_shared_image_is_found_by_its_name(site: Site, here: Path, ada: str) -> None:
    digest = add(site, here, "group/bio:2")
    assert "group/bio:2" not in names(site, ada)
    told = site.lading("image", "share", "group/bio:2", "ada")
    assert "they use it as --image group/bio:2" in told.stderr
    assert "group/bio:2" in names(site, ada)
    shown = site.lading("image", "show", "localhost/group/bio:2", token=ada)
    assert "image localhost/group/bio:2 is group/bio:2" in shown.stderr
    assert digest in shown.stdout
    found = json.loads(site.lading("image", "show", "--json", digest[7:19]).stdout)
    assert [(one["who"], one["can"]) for one in found["access"]] == [("ada", "read")]
    assert "may read" in site.lading("image", "show", found["collection_uuid"]).stdout
    assert json.loads(site.lading("image", "share", "--json", found["pdh"], "ada").stdout)
    site.lading("image", "unshare", "group/bio:2", "ada")
    assert "group/bio:2" not in names(site, ada)
    assert "not shared" in site.lading("image", "unshare", "group/bio:2", "ada", code=1).stderr
    site.lading("image", "share", "group/bio:2", "ada", "--can", "write")
    removed = site.lading("image", "unshare", "--json", "group/bio:2", "ada").stdout
    assert json.loads(removed)["removed"] == 1


def test_an_image_of_a_project_is_shared_with_it(site: Site, here: Path, ada: str) -> None:
    site.lading("project", "create", "lab")
    add(site, here, "lab/tool:1", "--project", "lab")
    assert "lab/tool:1" not in names(site, ada)
    site.lading("project", "share", "lab", "ada")
    assert "lab/tool:1" in names(site, ada)
    assert "project" in site.lading("image", "show", "lab/tool:1").stdout


def test_the_same_image_for_a_project_too(site: Site, here: Path, ada: str) -> None:
    site.lading("project", "create", "twice")
    digest = add(site, here, "own:1")
    assert add(site, here, "own:1", "--project", "twice") == digest
    listed = json.loads(site.lading("image", "list", "--json").stdout)
    assert len({one["collection_uuid"] for one in listed if one["digest"] == digest}) == 2
    site.lading("project", "share", "twice", "ada")
    # She gets one of her own, as the names of that one are not hers to give.
    again = site.lading("image", "add", "one.tar", "--name", "hers:1", token=ada)
    assert "already there" in again.stderr
    assert "hers:1" not in {name for one in listed for name in one["names"]}
    assert "hers:1" in names(site, ada)


def test_names_and_images_are_removed(site: Site, here: Path, ada: str) -> None:
    digest = add(site, here, "gone:1", "--name", "gone:2")
    assert "removed" in site.lading("image", "remove", "gone:1").stderr
    assert names(site) & {"gone:1", "gone:2"} == {"gone:2"}
    told = site.lading("image", "remove", "localhost/gone:2", code=1).stderr
    assert "means gone:2 here" in told
    assert "in the trash" in site.lading("image", "remove", "gone:2").stderr
    assert "not found" in site.lading("image", "show", digest, code=1).stderr
    digest = add(site, here, "gone:3")
    (done,) = json.loads(site.lading("image", "remove", "--json", digest).stdout)
    assert (done["is_trashed"], done["name"]) == (True, "")


def test_nobody_removes_an_image_of_others(site: Site, here: Path, ada: str) -> None:
    add(site, here, "kept:1")
    site.lading("image", "share", "kept:1", "ada")
    assert "Forbidden" in site.lading("image", "remove", "kept:1", code=1, token=ada).stderr
    assert "kept:1" in names(site)


def test_the_default_is_an_image_of_one_s_own(site: Site, here: Path) -> None:
    cleo = site.call(site.world.user("cleo"))
    add(site, here, "theirs:1")
    site.lading("image", "share", "theirs:1", "cleo")
    told = site.lading("run", "--detach", "--", "true", token=cleo, code=125)
    assert "no image of yours yet: name one, --image" in told.stderr
    add(site, here, "own:9", token=cleo)
    add(site, here, "newer:1")
    site.lading("image", "share", "newer:1", "cleo")
    told = site.lading("run", "--detach", "--", "true", token=cleo)
    assert "image own:9, the one that you added last" in told.stderr
    told = site.lading("run", "--detach", "--image", "localhost/newer:1", "--", "true", token=cleo)
    assert "image localhost/newer:1 is newer:1" in told.stderr
