"""Changes over HTTP and WebDAV: what they do, what is refused, writers at once, locks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message

from lading.client.transport import Response
from lading.core.data import filetree
from tests.webdav.site import Site, site

LOCK = (
    b'<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope>'
    b"<locktype><write/></locktype>"
    b"<owner><href>me &amp; you</href></owner></lockinfo>"
)


async def test_put(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    new = await here.call("PUT", f"/c={uuid}/d/e/n%20w", body=b"hello")
    assert new.status == 201
    got = await here.call("GET", f"/c={uuid}/d/e/n%20w")
    assert (got.body, got.headers["etag"]) == (b"hello", new.headers["etag"])
    assert (await here.call("PUT", f"/c={uuid}/f", body=b"")).status == 204
    assert (await here.call("GET", f"/c={uuid}/f")).body == b""
    assert await here.tree(uuid) == ["d/", "d/e/", "d/e/n w", "f"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", "/c=UUID/d", {}, 405),
        ("PUT", "/c=UUID/d/", {}, 405),
        ("PUT", "/c=UUID/", {}, 405),
        ("PUT", "/c=UUID/f/below", {}, 409),
        ("PUT", "/c=UUID/f", {"content-range": "bytes 0-1/2"}, 400),
        ("PUT", "/c=UUID/f", {"if-none-match": "*"}, 412),
        ("PUT", "/c=UUID/n", {"if-match": "*"}, 412),
        ("PUT", "/c=UUID/f", {"if": "(<urn:uuid:none>)"}, 412),
        ("PUT", "/c=UUID/f", {"if": "nonsense"}, 400),
        ("PUT", "/c=PDH/f", {}, 403),
        ("DELETE", "/c=UUID/", {}, 403),
        ("DELETE", "/c=UUID/none", {}, 404),
        ("MKCOL", "/c=UUID/d", {}, 405),
        ("MKCOL", "/c=UUID/f/x", {}, 409),
        ("MKCOL", "/c=UUID/x/y", {}, 409),
        ("COPY", "/c=UUID/f", {}, 400),
        ("COPY", "/c=UUID/f", {"destination": "https://elsewhere/c=UUID/g"}, 400),
        ("COPY", "/c=UUID/f", {"destination": "/nowhere"}, 400),
        ("COPY", "/c=UUID/f", {"destination": "http://[/"}, 400),
        ("COPY", "/c=UUID/none", {"destination": "/c=UUID/g"}, 404),
        ("COPY", "/c=UUID/f", {"destination": "/c=UUID/f"}, 403),
        ("COPY", "/c=UUID/f", {"destination": "/c=UUID/"}, 403),
        ("COPY", "/c=UUID/d", {"destination": "/c=UUID/d/x"}, 403),
        ("COPY", "/c=UUID/f", {"destination": "/c=UUID/x/y"}, 409),
        ("COPY", "/c=UUID/f", {"destination": "/c=UUID/d/g", "overwrite": "F"}, 412),
        ("COPY", "/c=UUID/f", {"destination": "/c=PDH/g"}, 403),
        ("COPY", "/c=PDH/f", {"destination": "/c=UUID/"}, 403),
        ("MOVE", "/c=PDH/f", {"destination": "/c=UUID/g"}, 403),
        ("UNLOCK", "/c=UUID/f", {}, 400),
        ("UNLOCK", "/c=UUID/f", {"lock-token": "<urn:uuid:none>"}, 409),
        ("LOCK", "/c=UUID/f", {}, 412),
    ],
)
async def test_what_is_refused_changes_nothing(
    here: Site, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    uuid = await here.collection({"f": b"x", "d/g": b"y"})
    pdh = await here.pdh(uuid)

    def filled(text: str) -> str:
        return text.replace("UUID", uuid).replace("PDH", pdh)

    body = b"new" if method == "PUT" else b""
    sent = {name: filled(value) for name, value in headers.items()}
    answer = await here.call(method, filled(path), headers=sent, body=body)
    assert (answer.status, answer.body.count(b"\n")) == (status, 1)
    assert await here.pdh(uuid) == pdh


async def test_delete_and_make_directories(here: Site) -> None:
    uuid = await here.collection({"d/f": b"x", "d/g": b"y"})
    assert (await here.call("DELETE", f"/c={uuid}/d/f")).status == 204
    assert (await here.call("MKCOL", f"/c={uuid}/e/")).status == 201
    assert (await here.call("MKCOL", f"/c={uuid}/e/h")).status == 201
    assert (await here.call("MKCOL", f"/c={uuid}/i", body=b"<x/>")).status == 415
    assert await here.tree(uuid) == ["d/", "d/g", "e/", "e/h/"]
    assert (await here.call("DELETE", f"/c={uuid}/d/")).status == 204
    assert await here.tree(uuid) == ["e/", "e/h/"]


async def move(here: Site, method: str, source: str, target: str, **headers: str) -> Response:
    return await here.call(method, source, headers={"destination": target, **headers})


async def test_copy_and_move(here: Site) -> None:
    uuid = await here.collection({"d/f": b"x", "d/g": b"y", "h": b"z"})
    root = f"/c={uuid}"
    made = await move(here, "COPY", f"{root}/d", f"http://localhost{root}/e/")
    assert (made.status, made.headers["location"]) == (201, f"{root}/e")
    assert (await move(here, "MOVE", f"{root}/d/f", f"{root}/k%20l", overwrite="F")).status == 201
    assert await here.tree(uuid) == ["d/", "d/g", "e/", "e/f", "e/g", "h", "k l"]
    assert (await move(here, "MOVE", f"{root}/h", f"{root}/e/f")).status == 204
    assert (await here.call("GET", f"{root}/e/f")).body == b"z"
    assert (await move(here, "COPY", f"{root}/e", f"{root}/shallow", depth="0")).status == 201
    assert (await move(here, "MOVE", f"{root}/e/f", f"{root}/e")).status == 204
    assert await here.tree(uuid) == ["d/", "d/g", "e", "k l", "shallow/"]


async def test_from_one_collection_to_another(here: Site) -> None:
    one, two = await here.collection({"d/f": b"x", "g": b"y"}), await here.collection({"a": b"z"})
    assert (await move(here, "COPY", f"/c={one}/", f"/c={two}/all")).status == 201
    assert (await move(here, "COPY", f"/c={await here.pdh(one)}/g", f"/c={two}/a")).status == 204
    assert (await move(here, "MOVE", f"/c={one}/d/f", f"/c={two}/f")).status == 201
    assert await here.tree(one) == ["d/", "g"]
    assert await here.tree(two) == ["a", "all/", "all/d/", "all/d/f", "all/g", "f"]
    empty = await here.collection({})
    assert (await move(here, "COPY", f"/c={empty}/", f"/c={two}/none")).status == 201
    assert (await move(here, "MOVE", f"/c={one}/", f"/c={two}/x")).status == 403


async def test_past_versions_do_not_change(here: Site) -> None:
    uuid = await here.collection({"f": b"x"}, preserve_version=True)
    await here.call("PUT", f"/c={uuid}/f", body=b"y")
    filters = [["current_version_uuid", "=", uuid], ["version", "=", 1]]
    past = (await here.world.collections(filters=filters, include_old_versions=True))[0]["uuid"]
    assert (await here.call("GET", f"/c={past}/f")).body == b"x"
    answer = await here.call("PUT", f"/c={past}/f", body=b"z")
    assert (answer.status, b"past version" in answer.body) == (403, True)


async def test_writers_at_once_do_not_lose_files(here: Site, tmp_path: Path) -> None:
    uuid = await here.collection({"start": b"x"})
    calls = [
        here.call("PUT", f"/c={uuid}/d/f{number}", body=b"%d" % number) for number in range(10)
    ]
    calls += [here.call("MKCOL", f"/c={uuid}/m{number}") for number in range(5)]
    outside = {"replace_files": {"/outside": "current/start"}}
    answers, _ = await asyncio.gather(
        asyncio.gather(*calls), here.world.ok("PUT", f"collections/{uuid}", outside)
    )
    assert {one.status for one in answers} == {201}
    assert len(await here.tree(uuid)) == 1 + 1 + 10 + 5 + 1


async def test_a_body_that_breaks_off_changes_nothing(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    coming: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"begin", "more_body": True}, {"type": "http.disconnect"}]
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return next(coming)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {here.world.admin}".encode())]
    path = f"/c={uuid}/f".encode()
    scope = {
        "type": "http",
        "method": "PUT",
        "raw_path": path,
        "query_string": b"",
        "headers": headers,
    }
    await here.gateway(scope, receive, send)
    assert sent == []
    assert (await here.call("GET", f"/c={uuid}/f")).body == b"x"


async def test_a_full_store_is_said(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        uuid = await here.collection({"f": b"x"})
        here.volume.capacity = 2
        answer = await here.call("PUT", f"/c={uuid}/g", body=b"much more")
        assert (answer.status, await here.tree(uuid)) == (507, ["f"])


PATCH = b'<propertyupdate xmlns="DAV:"><set><prop><z xmlns="urn:q"/></prop></set></propertyupdate>'


async def lock(here: Site, path: str, *, token: str | None = None, **headers: str) -> Response:
    return await here.call("LOCK", path, headers=headers, body=LOCK, token=token)


async def test_locks(here: Site) -> None:
    uuid = await here.collection({"d/f": b"x"})
    path = f"/c={uuid}/d/f"
    taken = await lock(here, path, timeout="Second-100")
    assert (taken.status, b"<D:timeout>Second-100</D:timeout>" in taken.body) == (200, True)
    assert b"me &amp; you" in taken.body
    name = taken.headers["lock-token"]
    assert (await lock(here, path)).status == 423
    assert (await lock(here, path, depth="1")).status == 400
    assert (await here.call("PROPPATCH", path, body=PATCH)).status == 423
    for method, where in (
        ("PUT", path),
        ("DELETE", path),
        ("DELETE", f"/c={uuid}/d"),
        ("LOCK", f"/c={uuid}/"),
    ):
        answer = await here.call(
            method, where, body=LOCK if method == "LOCK" else b"y" if method == "PUT" else b""
        )
        assert (answer.status, b"is locked" in answer.body) == (423, True)
    assert (await move(here, "MOVE", f"/c={uuid}/d", f"/c={uuid}/e")).status == 423
    held = {"if": f"({name})"}
    assert (await here.call("PUT", path, headers=held, body=b"y")).status == 204
    found = await here.call("PROPFIND", path, headers={"depth": "0"})
    assert re.search(rb"<D:lockdiscovery><D:activelock>.*me &amp; you", found.body)
    assert (await here.call("LOCK", path, headers={**held, "timeout": "Infinite"})).status == 200
    assert (await here.call("UNLOCK", path, headers={"lock-token": name})).status == 204
    assert (await here.call("PUT", path, headers=held, body=b"z")).status == 412
    assert (await here.call("DELETE", path)).status == 204


async def test_a_lock_on_what_is_not_there_keeps_the_name(here: Site) -> None:
    uuid = await here.collection({})
    taken = await lock(here, f"/c={uuid}/new", depth="0")
    assert (taken.status, await here.tree(uuid)) == (201, ["new"])
    assert (await lock(here, f"/c={uuid}/no/../way")).status == 400
    assert (await here.call("LOCK", f"/c={uuid}/f", body=b"<x/>")).status == 400
    condition = {"if": f"</c={uuid}/new> ({taken.headers['lock-token']}) (Not <urn:uuid:other>)"}
    assert (await here.call("PUT", f"/c={uuid}/new", headers=condition, body=b"x")).status == 204


async def test_a_lock_that_cannot_be_is_not_kept(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    assert (await lock(here, f"/c={uuid}/f/below")).status == 409
    assert (await here.call("PUT", f"/c={uuid}/f", body=b"y")).status == 204


async def test_nobody_unlocks_for_others(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    name = (await lock(here, f"/c={uuid}/f")).headers["lock-token"]
    made = await here.world.ok("POST", "api_client_authorizations", {})
    other = f"v2/{made['uuid']}/{made['api_token']}"
    answer = await here.call("UNLOCK", f"/c={uuid}/f", headers={"lock-token": name}, token=other)
    assert answer.status == 403
    assert (
        await here.call("PUT", f"/c={uuid}/f", headers={"if": f"({name})"}, token=other, body=b"y")
    ).status == 423


async def test_writes_into_a_large_collection_read_it_once(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = await here.collection({f"{'f' * 90}{number}": b"x" for number in range(3000)})
    read: list[str] = []
    original = filetree.from_manifest

    def reading(text: str) -> filetree.FileTree:
        read.append(text)
        return original(text)

    monkeypatch.setattr(filetree, "from_manifest", reading)
    for number in range(3):
        assert (await here.call("PUT", f"/c={uuid}/d/g{number}", body=b"y")).status == 201
        assert (await here.call("GET", f"/c={uuid}/d/g{number}")).body == b"y"
    assert (await move(here, "MOVE", f"/c={uuid}/d", f"/c={uuid}/e")).status == 201
    assert [path for path in await here.tree(uuid) if "g" in path] == ["e/g0", "e/g1", "e/g2"]
    # Signed texts are those that the gateway got; uploads have a name of their own.
    assert len([text for text in read if "+A" in text and not text.endswith(":file\n")]) == 1
