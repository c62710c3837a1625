"""Parameters and attributes from every place where clients put them."""

from __future__ import annotations

import pytest

from lading.api.exchange import read_body, read_query
from lading.core.errors import Malformed
from lading.testing.world import World


def test_values() -> None:
    query = b"a=null&b=&c=[1]&d=%7B%22x%22:1%7D&e=%22q%22&f=5&g=[broken&distinct=false&include_trash=1"
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


@pytest.mark.parametrize("query", [b"filters=[", b"select=%5B1", b"&".join([b"a=1"] * 2000), b"\xff=1"])
def test_queries_that_cannot_be_read(query: bytes) -> None:
    with pytest.raises(Malformed):
        read_query(query)


async def test_attributes_wrapped_bare_and_as_text(it: World) -> None:
    for number, body in enumerate(
        ({"link": {"link_class": "a"}}, {"link_class": "a", "ensure_unique_name": True}, {"link": '{"link_class":"a"}'})
    ):
        assert (await it.request("POST", "links", body)).status == 200, number
    form = b"link=%7B%22link_class%22%3A%22a%22%7D"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await it.request("POST", "links", raw=form, headers=headers)).status == 200
    assert (await it.request("POST", "links")).status == 422


async def test_bare_bodies_keep_attributes_that_look_like_parameters(it: World) -> None:
    reply = await it.request("POST", "container_requests", {**(await it.spec()), "filters": [["a", "=", "b"]]})
    assert reply.status == 422
    assert "ilters" in reply.error
