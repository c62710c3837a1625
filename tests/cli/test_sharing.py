"""share and unshare against a real API."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Site


def test_sharing_and_taking_it_back(site: Site, here: Path) -> None:
    (here / "f").write_text("shared")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    user = site.call(site.world.ok("POST", "users", {"username": "ada", "email": "ada@example.org"}))["uuid"]
    assert "shared with nobody" in site.lading("share", uuid).stderr
    site.lading("share", uuid, "ada")
    shown = site.lading("share", uuid, "ada@example.org", "--can", "write").stdout.splitlines()
    assert [line.split() for line in shown] == [["WHO", "MAY", "UUID"], ["ada", "write", user]]
    site.lading("share", uuid, user, "--can", "write")
    site.lading("share", uuid, "public")
    links = json.loads(site.lading("share", "--json", uuid, "everyone").stdout)
    assert [(one["who"], one["can"]) for one in links] == [("ada", "write"), ("public", "read"), ("everyone", "read")]
    assert "no longer shared with ada" in site.lading("unshare", uuid, "ada").stderr
    assert json.loads(site.lading("unshare", "--json", uuid, "public").stdout)["removed"] == 1
    assert "is not shared with ada" in site.lading("unshare", uuid, "ada", code=1).stderr


def test_roles_and_projects(site: Site) -> None:
    role = site.call(site.world.ok("POST", "groups", {"name": "readers", "group_class": "role"}))["uuid"]
    project = site.call(site.world.ok("POST", "groups", {"name": "p", "group_class": "project"}))["uuid"]
    (link,) = json.loads(site.lading("share", "--json", project, "readers").stdout)
    assert (link["tail_uuid"], link["who"]) == (role, "readers")


def test_mistakes_are_named(site: Site, here: Path) -> None:
    (here / "f").write_text("mine")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    assert "nobody9: no user and no role" in site.lading("share", uuid, "nobody9", code=1).stderr
    assert "files are shared with their collection" in site.lading("share", f"{uuid}/f", "everyone", code=1).stderr
    assert "is neither a user nor a group" in site.lading("share", uuid, uuid, code=1).stderr
