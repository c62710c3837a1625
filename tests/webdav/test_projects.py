"""Directories above collections."""

from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.records.schema import Record
from lading.webdav import projects
from tests.webdav.site import Site


async def names(here: Site, path: str, token: str | None = None) -> list[str]:
    """The addresses below a directory."""
    answer = await here.call("PROPFIND", path, headers={"depth": "1"}, token=token)
    assert answer.status == 207, answer.body
    hrefs = [part.split("</D:href>")[0] for part in answer.body.decode().split("<D:href>")[1:]]
    assert hrefs[0].rstrip("/") == path.rstrip("/")
    return hrefs[1:]


async def project(here: Site, name: str, owner: str = "") -> Record:
    body = {"group_class": "project", "name": name} | ({"owner_uuid": owner} if owner else {})
    made: Record = await here.world.ok("POST", "groups", body)
    return made


async def test_the_way_from_the_root_to_a_file(here: Site) -> None:
    admin = await here.world.ok("GET", "users/current")
    name = admin["username"]
    assert await names(here, "/") == ["/by_id/", "/users/"]
    assert await names(here, "/by_id/") == []
    assert f"/users/{name}/" in await names(here, "/users/")
    outer = await project(here, "my data")
    await project(here, "inner", outer["uuid"])
    uuid = await here.collection({"d/f": b"x"}, name="ü", owner_uuid=outer["uuid"])
    home = f"/users/{name}"
    assert f"{home}/my%20data/" in await names(here, f"{home}/")
    inside = [f"{home}/my%20data/{one}/" for one in ("inner", "%C3%BC")]
    assert await names(here, f"{home}/my%20data/") == inside
    assert await names(here, f"{home}/my%20data/inner/") == []
    path = f"{home}/my%20data/%C3%BC/d/f"
    assert (await here.call("GET", path)).body == b"x"
    assert await names(here, f"{home}/my%20data/%C3%BC/d/") == [path]
    assert (await here.call("PUT", f"{home}/my%20data/%C3%BC/g", body=b"y")).status == 201
    assert (await here.call("GET", f"/c={uuid}/g")).body == b"y"
    by_id = f"/by_id/{outer['uuid']}"
    assert await names(here, f"{by_id}/") == [f"{by_id}/inner/", f"{by_id}/%C3%BC/"]
    assert (await here.call("GET", f"{by_id}/%C3%BC/g")).body == b"y"


async def test_they_are_only_read(here: Site) -> None:
    name = (await here.world.ok("GET", "users/current"))["username"]
    answer = await here.call("GET", f"/users/{name}")
    assert (answer.status, answer.headers["location"]) == (302, f"/users/{name}/")
    await here.collection({}, name="<b>")
    listing = await here.call("GET", f"/users/{name}/")
    assert b"&lt;b&gt;" in listing.body
    assert b"<b>" not in listing.body
    for method in ("PUT", "DELETE", "MKCOL", "LOCK", "PROPPATCH"):
        assert (await here.call(method, f"/users/{name}/", body=b"")).status == 405
    headers = {"depth": "infinity"}
    assert (await here.call("PROPFIND", "/users/", headers=headers)).status == 403
    for missing in (f"/users/{name}/none/", "/users/nobody/", "/by_id/zzzzz-j7d0g-" + "9" * 15):
        assert (await here.call("PROPFIND", missing, headers={"depth": "0"})).status == 404


async def test_others_see_what_is_shared_with_them(here: Site) -> None:
    admin = await here.world.ok("GET", "users/current")
    own = await project(here, "secret")
    await here.collection({"f": b"x"}, name="c", owner_uuid=own["uuid"])
    ann = await here.world.user("ann")
    home = f"/users/{admin['username']}/"
    assert sorted(await names(here, "/users/", token=ann)) == [home, "/users/ann/"]
    # All users see each other, but not what they have.
    assert await names(here, home, token=ann) == []
    for path in (
        f"/users/{admin['username']}/secret/c/f",
        f"/by_id/{own['uuid']}/",
        f"/by_id/{own['uuid']}/c/f",
    ):
        answer = await here.call("PROPFIND", path, headers={"depth": "0"}, token=ann)
        assert answer.status == 404, path
    for path in ("/", "/by_id/", "/users/"):
        answer = await here.call("PROPFIND", path, headers={"depth": "1"}, token="")
        assert answer.status == 401
        answer = await here.call("PROPFIND", path, headers={"depth": "1"}, token="v2/x/y")
        assert answer.status == 401


@pytest.mark.parametrize("raw", ["/users/..", "/users/a%2Fb", "/users/%ff", "/users/a//b"])
def test_what_is_no_path(raw: str) -> None:
    with pytest.raises(Malformed):
        projects.parse(raw)


def test_paths_of_collections_are_left() -> None:
    assert projects.parse("/c=x/f") is None
    assert projects.parse("/by_id/zzzzz-4zz18-000000000000000/f") is None
    with pytest.raises(Malformed, match="at most"):
        projects.parse("/users" + "/a" * 2000)
