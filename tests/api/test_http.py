"""Parameters and attributes from every place where clients put them."""

from __future__ import annotations

import pytest

from lading.api.http import read_body, read_query
from lading.core.errors import Malformed
from lading.testing.world import World


def test_values() -> None:
    query = (
        b"a=null&b=&c=[1]&d=%7B%22x%22:1%7D&e=%22q%22&f=5&g=[broken&distinct=false&include_trash=1"
    )
    assert read_query(query) == {
        "a": None,
        "b": None,
        "c": [1],
        "d": {"x": 1},
        "e": "q",
        "f": "5",
        "g": "[broken",
        "distinct": False,
        "include_trash": True,
    }
    assert read_query(b"") == {}


def test_bodies() -> None:
    assert read_body(b"", "") == ({}, None)
    with pytest.raises(Malformed, match="'text/plain': send application/json"):
        read_body(b"x", "text/plain")
    assert read_body(b'{"a":1}', "application/json; charset=utf-8") == ({"a": 1}, {"a": 1})
    assert read_body(b"a=1", "application/x-www-form-urlencoded") == ({"a": "1"}, None)
    assert read_body(b"{}", "application/x-www-form-urlencoded") == ({"{}": None}, None)


@pytest.mark.parametrize(
    "query", [b"filters=[", b"select=%5B1", b"&".join([b"a=1"] * 2000), b"\xff=1"]
)
def test_queries_that_cannot_be_read(query: bytes) -> None:
    with pytest.raises(Malformed):
        read_query(query)


async def test_attributes_wrapped_bare_and_as_text(it: World) -> None:
    for number, body in enumerate(
        (
            {"link": {"link_class": "a"}},
            {"link_class": "a", "ensure_unique_name": True},
            {"link": '{"link_class":"a"}'},
        )
    ):
        assert (await it.request("POST", "links", body)).status == 200, number
    form = b"link=%7B%22link_class%22%3A%22a%22%7D"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await it.request("POST", "links", raw=form, headers=headers)).status == 200
    assert (await it.request("POST", "links")).status == 422


async def test_bare_bodies_keep_attributes_that_look_like_parameters(it: World) -> None:
    reply = await it.request(
        "POST", "container_requests", {**(await it.spec()), "filters": [["a", "=", "b"]]}
    )
    assert reply.status == 422
    assert "ilters" in reply.error


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "raw", [b'{"name":"n"}', b" [1]", b"%7B%22name%22%3A%22n%22%7D", b'a=1&{"b":2}', b'"x"']
)
def test_json_that_is_sent_as_a_form(raw: bytes) -> None:
    for content_type in (
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded; charset=utf-8",
    ):
        with pytest.raises(Malformed, match="Content-Type: application/json"):
            read_body(raw, content_type)
    with pytest.raises(Malformed, match="JSON was sent"):
        read_query(raw)


@pytest.mark.parametrize(
    "form",
    [
        b'scopes=["GET /"]',
        b'api_client_authorization={}&scopes=["GET /"]',
        b'token={"scopes":["GET /"]}',
        b'api_client_authorisation={"scopes":["GET /"]}',
        b"api_client_authorization[scopes][]=GET /",
        b"expires_at=2030-01-01",
    ],
)
@pytest.mark.parametrize("place", ["form", "query"])
async def test_attributes_that_would_not_be_heard(it: World, form: bytes, place: str) -> None:
    path = "api_client_authorizations"
    before = (await it.ok("GET", path))["items_available"]
    if place == "form":
        reply = await it.request("POST", path, raw=form, headers=FORM)
    else:
        reply = await it.request("POST", path, {}, params=read_query(form))
    assert (reply.status, "is not a parameter of this call; nothing was done" in reply.error) == (
        422,
        True,
    )
    assert (await it.ok("GET", path))["items_available"] == before


async def test_objects_beside_the_attributes(it: World) -> None:
    body = {"link": {"link_class": "a"}, "collection": {"name": "n"}}
    assert (await it.request("POST", "links", body)).status == 422
    made = await it.ok(
        "POST", "links", {"link": {"link_class": "a"}, "cluster_id": "zzzzz", "select": ["uuid"]}
    )
    form = (
        b"link=%7B%22name%22%3A%22n%22%7D&uuid="
        + made["uuid"].encode()
        + b"&alt=json&modified_at=&anything=5"
    )
    assert (await it.request("PUT", f"links/{made['uuid']}", raw=form, headers=FORM)).status == 200


@pytest.mark.parametrize("where", ["query", "form", "bare", "wrapped"])
async def test_scopes_of_a_system_token(it: World, where: str) -> None:
    path, scopes = "api_client_authorizations/create_system_auth", ["GET /arvados/v1/users"]
    reply = {
        "query": await it.request("POST", path, params={"scopes": scopes}),
        "form": await it.request(
            "POST", path, raw=b'scopes=["GET /arvados/v1/users"]', headers=FORM
        ),
        "bare": await it.request("POST", path, {"scopes": scopes}),
        "wrapped": await it.request("POST", path, {"api_client_authorization": {"scopes": scopes}}),
    }[where]
    assert (reply.status, reply.json["scopes"]) == (200, scopes)


def test_parameters_in_several_parts() -> None:
    media = "multipart/form-data; boundary=x"
    raw = b'--x\r\nContent-Disposition: form-data; name="limit"\r\n\r\n1\r\n--x--\r\n'
    assert read_body(raw, media) == ({"limit": "1"}, None)
