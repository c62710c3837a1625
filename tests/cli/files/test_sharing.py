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
        "leave WHO, --can and --enter out"
        in site.lading("share", project, "everyone", "--link", code=2).stderr
    )
    assert "--for is the time" in site.lading("share", project, "--for", "1h", code=2).stderr
    assert "either WHO or --link" in site.lading("unshare", project, code=2).stderr


def test_a_request_is_shared_with_its_container_log_and_output(site: Site) -> None:
    world = site.world
    request = site.call(world.submit("x", name="aligned"))
    container, uuid = request["container_uuid"], request["uuid"]
    eve = site.call(world.user("eve"))
    person = site.call(world.ok("GET", "users/current", token=eve))["uuid"]
    assert "has no output that could be shared" in site.lading("share", uuid, "eve").stderr
    site.call(world.run(container))
    ended = site.call(world.ok("GET", f"container_requests/{uuid}"))
    records = {
        "request": f"container_requests/{uuid}", "container": f"containers/{container}",
        "log": f"collections/{ended['log_uuid']}", "output": f"collections/{ended['output_uuid']}",
    }  # fmt: skip
    for name in (uuid, "last", "aligned"):
        shown = [one.split() for one in site.lading("share", name, "eve").stdout.splitlines()]
        assert shown[0] == ["WHO", "MAY", "OF", "UUID"]
        assert [line[:3] for line in shown[1:]] == [["eve", "read", kind] for kind in records]
        assert [line[3] for line in shown[1:]] == [one.split("/")[1] for one in records.values()]
    for path in records.values():
        assert site.call(world.request("GET", path, token=eve)).status == 200
    raised = json.loads(site.lading("share", "--json", uuid, "eve", "--can", "write").stdout)
    assert [(one["of"], one["can"]) for one in raised] == [(kind, "write") for kind in records]
    assert {one["tail_uuid"] for one in raised} == {person}
    said = site.lading("unshare", uuid, "eve").stderr
    assert all(path.split("/")[1] in said for path in records.values())
    for path in records.values():
        assert site.call(world.request("GET", path, token=eve)).status == 404
    assert "is not shared with eve" in site.lading("unshare", uuid, "eve", code=1).stderr
    refused = site.lading("share", container, "eve", code=1).stderr
    assert "a container is shared with its request" in refused
    assert site.lading("share", uuid, "--link").stdout.startswith("https://")
    assert site.lading("unshare", uuid, "--link").stderr


def test_what_was_shared_by_itself_stays_shared(site: Site) -> None:
    world = site.world
    request = site.call(world.submit("itself"))
    uuid, eve = request["uuid"], site.call(world.user("eve"))
    site.call(world.run(request["container_uuid"]))
    ended = site.call(world.ok("GET", f"container_requests/{uuid}"))
    output = ended["output_uuid"]

    def reads(path: str) -> bool:
        return bool(site.call(world.request("GET", path, token=eve)).status == 200)

    for first, second in ((output, uuid), (uuid, output)):
        site.lading("share", first, "eve")
        site.lading("share", second, "eve")
        said = site.lading("unshare", uuid, "eve").stderr
        assert f"the output is shared by itself; 'lading unshare {output} eve' ends that" in said
        assert (reads(f"container_requests/{uuid}"), reads(f"collections/{output}")) == (
            False,
            True,
        )
        assert not reads(f"collections/{ended['log_uuid']}")
        assert "by itself" not in site.lading("unshare", output, "eve").stderr
        assert not reads(f"collections/{output}")


def test_a_user_is_let_into_the_containers_of_a_request(site: Site, here: Path) -> None:
    world = site.world
    request = site.call(world.submit("entered"))
    uuid, fay = request["uuid"], site.call(world.user("fay"))
    site.call(world.ok("POST", "groups", {"name": "reviewers", "group_class": "role"}))
    filters = {"filters": [["link_class", "=", "container_access"]]}

    def entering() -> list[str]:
        found = site.call(world.ok("GET", "links", params=filters, token=fay))
        return [one["head_uuid"] for one in found["items"]]

    shown = site.lading("share", uuid, "fay", "--enter").stdout.splitlines()
    assert ["fay", "enter", "container", request["container_uuid"]] == shown[-1].split()
    assert entering() == [uuid]
    assert "roles are not" in site.lading("share", uuid, "reviewers", "--enter", code=1).stderr
    (here / "f").write_text("shared")
    stored = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    assert "is no request" in site.lading("share", stored, "fay", "--enter", code=1).stderr
    assert "name WHO" in site.lading("share", uuid, "--enter", code=2).stderr
    ended = json.loads(site.lading("unshare", "--json", uuid, "fay").stdout)
    assert list(ended["records"]) == ["request", "container"]
    assert entering() == []
    # A refusal shares nothing: the container runs as another user.
    bobs = site.call(world.submit("y", token=site.call(world.user("gus"))))["uuid"]
    refused = site.lading("share", bobs, "fay", "--enter", code=1).stderr
    assert "only the user whom a container runs as" in refused
    assert site.call(world.request("GET", f"container_requests/{bobs}", token=fay)).status == 404
