"""share and unshare against a real API."""

from __future__ import annotations

import json
from pathlib import Path

from lading.cli.files.sharing import describe_public
from tests.cli.site import Site


def test_sharing_and_taking_it_back(site: Site, here: Path) -> None:
    (here / "f").write_text("shared")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    user = site.call(
        site.world.ok("POST", "users", {"username": "ada", "email": "ada@example.org"})
    )["uuid"]
    assert "shared with nobody" in site.lading("share", uuid).stderr
    site.lading("share", uuid, "ada")
    shown = site.lading("share", uuid, "ada@example.org", "--can", "write").stdout.splitlines()
    assert [line.split() for line in shown] == [["WHO", "MAY", "UUID"], ["ada", "write", user]]
    site.lading("share", uuid, user, "--can", "write")
    site.lading("share", uuid, "public")
    links = json.loads(site.lading("share", "--json", uuid, "everyone").stdout)
    assert [(one["who"], one["can"]) for one in links] == [
        ("ada", "write"),
        ("public", "read"),
        ("everyone", "read"),
    ]
    assert "no longer shared with ada" in site.lading("unshare", uuid, "ada").stderr
    assert json.loads(site.lading("unshare", "--json", uuid, "public").stdout)["removed"] == 1
    assert "is not shared with ada" in site.lading("unshare", uuid, "ada", code=1).stderr


def test_roles_and_projects(site: Site) -> None:
    role = site.call(site.world.ok("POST", "groups", {"name": "readers", "group_class": "role"}))[
        "uuid"
    ]
    project = site.call(site.world.ok("POST", "groups", {"name": "p", "group_class": "project"}))[
        "uuid"
    ]
    (link,) = json.loads(site.lading("share", "--json", project, "readers").stdout)
    assert (link["tail_uuid"], link["who"]) == (role, "readers")


def test_mistakes_are_named(site: Site, here: Path) -> None:
    (here / "f").write_text("mine")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    assert "nobody9: no user and no role" in site.lading("share", uuid, "nobody9", code=1).stderr
    assert (
        "files are shared with their collection"
        in site.lading("share", f"{uuid}/f", "everyone", code=1).stderr
    )
    assert "is neither a user nor a group" in site.lading("share", uuid, uuid, code=1).stderr


def test_an_address_that_reads_one_collection(site: Site, here: Path) -> None:
    (here / "f").write_text("for whoever has the address")
    uuid, other = (
        json.loads(site.lading("put", "--json", "--name", name, "f").stdout)["uuid"]
        for name in ("shown", "not shown")
    )
    done = site.lading("share", uuid, "--link", "--for", "1h")
    assert "'lading unshare" in done.stderr
    start, _, secret = done.stdout.strip().removesuffix("/_/").partition("/t=")
    assert start.endswith(f"/c={uuid}")
    assert site.call(site.world.ok("GET", f"collections/{uuid}", token=secret))["uuid"] == uuid
    for method, path in (
        ("GET", f"collections/{other}"),
        ("GET", "collections"),
        ("DELETE", f"collections/{uuid}"),
    ):
        assert site.call(site.world.request(method, path, token=secret)).status == 403
    made = json.loads(site.lading("share", other, "--link", "--json").stdout)
    assert made["expires_at"] is None
    shown = json.loads(site.lading("share", uuid, "--json").stdout)
    assert [(one["who"], one["can"]) for one in shown] == [("by address", "read")]

    assert "no longer shared by an address" in site.lading("unshare", uuid, "--link").stderr
    assert site.call(site.world.request("GET", f"collections/{uuid}", token=secret)).status == 401
    assert made["token_uuid"] in site.lading("share", other).stdout
    assert "is not shared by an address" in site.lading("unshare", uuid, "--link", code=1).stderr


def test_the_public_is_told_where(site: Site, here: Path) -> None:
    (here / "f").write_text("public")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    assert "no Users.AnonymousUserToken" in site.lading("share", uuid, "public").stderr
    config = {
        "Users": {"AnonymousUserToken": "secret"},
        "Services": {"WebDAVDownload": {"ExternalURL": "https://files.example.org/"}},
    }
    assert (
        describe_public(config, uuid) == f"anybody reads it at https://files.example.org/c={uuid}/"
    )
    assert describe_public(config, "zzzzz-j7d0g-000000000000000") == ""


def test_addresses_are_for_reading_collections(site: Site) -> None:
    project = site.call(site.world.ok("POST", "groups", {"name": "q", "group_class": "project"}))[
        "uuid"
    ]
    assert "a project has no address" in site.lading("share", project, "--link", code=1).stderr
    assert (
        "leave WHO and --can out"
        in site.lading("share", project, "everyone", "--link", code=2).stderr
    )
    assert "--for is the time" in site.lading("share", project, "--for", "1h", code=2).stderr
    assert "either WHO or --link" in site.lading("unshare", project, code=2).stderr
