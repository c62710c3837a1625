"""The gateway as a whole: addresses, tokens, WebDAV's properties, refusals."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from lading.client.transport import Response
from tests.webdav.site import Site, site


def text(answer: Response) -> str:
    return answer.body.decode()


async def test_every_form_of_address(here: Site) -> None:
    uuid = await here.collection({"d/a b.txt": b"hello", "t=x": b"odd", "_": b"under"})
    pdh = await here.pdh(uuid)
    token = quote(here.world.admin, safe="")
    for root in (
        f"/c={uuid}",
        f"/by_id/{uuid}",
        f"/collections/{uuid}",
        f"/c={pdh.replace('+', '-')}",
        f"/c={pdh}",
    ):
        assert (await here.call("GET", f"{root}/d/a%20b.txt")).body == b"hello"
    for root in (
        f"/c={uuid}/t={token}",
        f"/c={uuid}/t={here.world.admin}",
        f"/by_id/{uuid}/t={token}/_",
    ):
        assert (await here.call("GET", f"{root}/d/a%20b.txt", token="")).body == b"hello"
    assert (await here.call("GET", f"/c={uuid}/_/t=x")).body == b"odd"
    assert (await here.call("GET", f"/c={uuid}/_/_")).body == b"under"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/c=nothing/a", 404),
        ("/c=", 404),
        ("/c=zzzzz-tpzed-000000000000000/a", 404),
        ("/c=zzzzz-4zz18-000000000000000/a", 404),
        ("/c=UUID/none", 404),
        ("/c=UUID/f/", 404),
        ("/c=UUID/f/below", 404),
        ("/c=UUID/%2e%2e/f", 400),
        ("/c=UUID/../f", 400),
        ("/c=UUID/a%2Ff", 400),
        ("/c=UUID/%00", 400),
        ("/c=UUID/%ff", 400),
        ("/c=UUID/" + "d/" * 10_000, 400),
        ("/c=UUID/" + "n" * 300, 400),
        ("/c=UUID/" + "n" * 70_000, 400),
    ],
)
async def test_wrong_addresses_are_one_line(here: Site, path: str, status: int) -> None:
    uuid = await here.collection({"f": b"x"})
    answer = await here.call("GET", path.replace("UUID", uuid))
    assert (answer.status, text(answer).count("\n"), len(answer.body) < 700) == (status, 1, True)


async def test_every_place_for_a_token(here: Site) -> None:
    path = f"/c={await here.collection({'f': b'x'})}/f"
    basic = b64encode(f"anybody:{here.world.admin}".encode()).decode()
    cookie = b64encode(here.world.admin.encode()).decode()
    for headers in (
        {"authorization": f"OAuth2 {here.world.admin}"},
        {"authorization": f"Basic {basic}"},
        {"cookie": f"other=1; arvados_api_token={cookie}"},
        {"cookie": f'other=\xe9; x="; arvados_api_token={cookie}; x=1 arvados_api_token=!'},
    ):
        assert (await here.call("GET", path, token="", headers=headers)).status == 200
    assert (await here.call("GET", f"{path}?api_token={here.world.admin}", token="")).status == 200
    for headers in (
        {},
        {"authorization": "Basic !"},
        {"authorization": "Digest x"},
        {"cookie": "arvados_api_token=!"},
    ):
        answer = await here.call("GET", path, token="", headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (
            401,
            'Basic realm="collections"',
        )
    assert (await here.call("GET", path, token="unknown")).status == 401


async def test_a_browser_is_sent_on_without_its_token(here: Site) -> None:
    path = f"/c={await here.collection({'d/f': b'x'})}/d"
    browser = {"accept": "text/html,*/*"}
    answer = await here.call(
        "GET", f"{path}?api_token={here.world.admin}&format=zip", token="", headers=browser
    )
    assert (answer.status, answer.headers["location"]) == (303, f"{path}?format=zip")
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert "HttpOnly; Secure; SameSite=Lax" in answer.headers["set-cookie"]
    assert (
        await here.call("GET", path, token="", headers={**browser, "cookie": cookie})
    ).status == 302


async def test_a_cookie_does_not_write(here: Site) -> None:
    path = f"/c={await here.collection({'f': b'x'})}/f"
    cookie = {"cookie": f"arvados_api_token={b64encode(here.world.admin.encode()).decode()}"}
    assert (await here.call("DELETE", path, token="", headers=cookie)).status == 401
    assert (await here.call("PUT", path, token="", headers=cookie, body=b"y")).status == 401


async def test_what_is_shared_with_everybody(tmp_path: Path) -> None:
    async with site(tmp_path, anonymous="n" * 50) as here:
        uuid, secret = (
            await here.collection({"f": b"x"}),
            await here.collection({"f": b"x", "g": b"y"}),
        )
        assert (await here.call("GET", f"/c={uuid}/f", token="")).status == 404
        link = {"link_class": "permission", "name": "can_read", "head_uuid": uuid}
        await here.world.ok("POST", "links", {**link, "tail_uuid": "zzzzz-j7d0g-anonymouspublic"})
        assert (await here.call("GET", f"/c={uuid}/f", token="")).body == b"x"
        assert (await here.call("GET", f"/c={uuid}/t=/f")).body == b"x"
        assert (await here.call("GET", f"/c={secret}/f", token="")).status == 404
        assert (await here.call("PUT", f"/c={uuid}/f", token="", body=b"y")).status in (401, 403)


async def test_only_what_the_token_can_read(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    other = await here.world.user("u")
    assert (await here.call("GET", f"/c={uuid}/f", token=other)).status == 404
    scopes = [f"GET /arvados/v1/collections/{uuid}", f"GET /arvados/v1/collections/{uuid}/"]
    made = await here.world.ok("POST", "api_client_authorizations", {"scopes": scopes})
    limited = f"v2/{made['uuid']}/{made['api_token']}"
    assert (await here.call("GET", f"/c={uuid}/t={limited}/f", token="")).body == b"x"
    assert (await here.call("PUT", f"/c={uuid}/f", token=limited, body=b"y")).status == 403


async def test_options_tell_what_is_offered(here: Site) -> None:
    answer = await here.call("OPTIONS", "/c=anything/", token="")
    assert (answer.status, answer.headers["dav"]) == (200, "1, 2")
    assert "LOCK" in answer.headers["allow"]
    assert answer.headers["access-control-allow-origin"] == "*"
    answer = await here.call("POST", f"/c={await here.collection({})}/")
    assert (answer.status, "MKCOL" in answer.headers["allow"]) == (405, True)


async def test_properties(here: Site) -> None:
    uuid = await here.collection({"d/a&b.txt": b"hello", "f": b"x"}, name="<n>")
    answer = await here.call("PROPFIND", f"/c={uuid}/", headers={"depth": "1"})
    assert (answer.status, answer.headers["content-type"]) == (
        207,
        "application/xml; charset=utf-8",
    )
    body = text(answer)
    assert [part.partition("<")[0] for part in body.split("<D:href>")[1:]] == [
        f"/c={uuid}/", f"/c={uuid}/d/", f"/c={uuid}/f",
    ]  # fmt: skip
    assert "<D:displayname>&lt;n&gt;</D:displayname>" in body
    asked = (
        b'<propfind xmlns="DAV:"><prop><getcontentlength/>'
        b'<x:y xmlns:x="urn:&amp;z"/></prop></propfind>'
    )
    answer = await here.call("PROPFIND", f"/c={uuid}/d/a&b.txt", headers={"depth": "0"}, body=asked)
    assert "<D:href>/c=" + uuid + "/d/a%26b.txt</D:href>" in text(answer)
    assert "<D:getcontentlength>5</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK" in text(
        answer
    )
    assert '<X:y xmlns:X="urn:&amp;z"/></D:prop><D:status>HTTP/1.1 404 Not Found' in text(answer)


@pytest.mark.parametrize("depth", [{}, {"depth": "Infinity"}])
async def test_without_a_depth_all_that_is_below_is_told(here: Site, depth: dict[str, str]) -> None:
    uuid = await here.collection({"d/e/f": b"1", "d/a": b"2", "z": b"3"})
    answer = await here.call("PROPFIND", f"/c={uuid}/", headers=depth)
    assert answer.status == 207
    assert [part.partition("<")[0] for part in text(answer).split("<D:href>")[1:]] == [
        f"/c={uuid}/{path}" for path in ("", "d/", "d/a", "d/e/", "d/e/f", "z")
    ]


async def test_properties_that_are_refused(here: Site) -> None:
    path = f"/c={await here.collection({'f': b'x'})}/"
    assert (await here.call("PROPFIND", path, headers={"depth": "2"})).status == 400
    assert (await here.call("PROPFIND", f"{path}none", headers={"depth": "1"})).status == 404
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><propfind xmlns="DAV:"><allprop/></propfind>'
    deep = b"<a>" * 100
    for body in (b"<x/>", b"<x", b"\xff", bomb, deep, b'<propfind xmlns="DAV:"/>'):
        assert (await here.call("PROPFIND", path, headers={"depth": "0"}, body=body)).status == 400
    assert (
        await here.call("PROPFIND", path, headers={"depth": "0"}, body=b" " * 70_000)
    ).status == 413


def update(*changes: str) -> bytes:
    body = "".join(changes)
    return f'<D:propertyupdate xmlns:D="DAV:" xmlns:n="urn:n">{body}</D:propertyupdate>'.encode()


SET_A = update("<D:set><D:prop><n:a>1<n:b/></n:a></D:prop></D:set>")
STORED_A = b'<V:a xmlns:V="urn:n">1<V:b xmlns:V="urn:n"/></V:a>'


async def has_a(here: Site, path: str) -> bool:
    """Whether the property is among all of a file, and is answered alone."""
    alone = b'<propfind xmlns="DAV:" xmlns:n="urn:n"><prop><n:a/></prop></propfind>'
    found = []
    for body in (b"", alone):
        answer = await here.call("PROPFIND", path, headers={"depth": "0"}, body=body)
        found.append(STORED_A in answer.body)
    assert found[0] == found[1]
    return found[0]


async def test_properties_are_stored_with_a_file(here: Site) -> None:
    uuid = await here.collection({"d/f": b"x"})
    root = f"/c={uuid}"
    answer = await here.call("PROPPATCH", f"{root}/d/f", body=SET_A)
    assert (answer.status, b"200 OK" in answer.body) == (207, True)
    assert await has_a(here, f"{root}/d/f")
    names = b'<propfind xmlns="DAV:"><propname/></propfind>'
    listed = await here.call("PROPFIND", f"{root}/d/f", headers={"depth": "0"}, body=names)
    assert b'<X:a xmlns:X="urn:n"/>' in listed.body
    # They go with the file.
    for method, target in (("COPY", "e"), ("MOVE", "g")):
        headers = {"destination": f"{root}/{target}"}
        assert (await here.call(method, f"{root}/d", headers=headers)).status == 201
    assert [await has_a(here, f"{root}/{one}/f") for one in "eg"] == [True, True]
    other = await here.collection({"x": b""})
    headers = {"destination": f"/c={other}/f"}
    assert (await here.call("MOVE", f"{root}/e/f", headers=headers)).status == 201
    assert await has_a(here, f"/c={other}/f")
    await here.call("DELETE", f"{root}/g")
    await here.call("PUT", f"{root}/g/f", body=b"new")
    assert not await has_a(here, f"{root}/g/f")
    record = await here.world.ok("GET", f"collections/{uuid}")
    assert record["properties"] == {}


async def test_properties_of_the_server_are_not_set(here: Site) -> None:
    path = f"/c={await here.collection({'f': b'x'})}/f"
    both = update("<D:set><D:prop><D:getetag>x</D:getetag><n:a/></D:prop></D:set>")
    answer = await here.call("PROPPATCH", path, body=both)
    assert answer.status == 207
    assert b"403 Forbidden" in answer.body
    assert b"424 Failed Dependency" in answer.body
    assert not await has_a(here, path)
    full = update(f"<D:set><D:prop><n:a>{'x' * 40_000}</n:a></D:prop></D:set>")
    more = full.replace(b"n:a", b"n:c")
    assert b"200 OK" in (await here.call("PROPPATCH", path, body=full)).body
    assert b"507 Insufficient" in (await here.call("PROPPATCH", path, body=more)).body
    content = (await here.world.ok("GET", "collections"))["items"][0]["portable_data_hash"]
    fixed = await here.call("PROPPATCH", f"/c={content}/f", body=SET_A)
    assert (fixed.status, b"403 Forbidden" in fixed.body) == (207, True)
    assert (await here.call("PROPPATCH", f"{path}none", body=SET_A)).status == 404


async def test_a_stranger_sets_no_property(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    stranger = await here.world.user("stranger")
    answer = await here.call("PROPPATCH", f"/c={uuid}/f", body=SET_A, token=stranger)
    assert answer.status == 404
    user = await here.world.ok("GET", "users/current", token=stranger)
    link = {"tail_uuid": user["uuid"], "head_uuid": uuid, "link_class": "permission"}
    await here.world.ok("POST", "links", {**link, "name": "can_read"})
    answer = await here.call("PROPPATCH", f"/c={uuid}/f", body=SET_A, token=stranger)
    assert answer.status == 403
    assert not await has_a(here, f"/c={uuid}/f")


async def test_addresses_are_advertised(here: Site) -> None:
    services = (await here.world.ok("GET", "config"))["Services"]
    assert (
        services["WebDAV"]
        == services["WebDAVDownload"]
        == {"ExternalURL": "https://127.0.0.1:9440/"}
    )
    document = await here.world.ok("GET", "/discovery/v1/apis/arvados/v1/rest")
    assert document["keepWebServiceUrl"] == "https://127.0.0.1:9440/"
