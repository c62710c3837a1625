"""Ports of containers by path, by host, by name and by port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.api.container_access.port_addresses import PortAddresses, base_url, make_sites
from lading.config.site import Config, load
from lading.core.errors import Invalid
from lading.testing.world import World, world
from tests.api.container_access.test_published_ports import PORT, get, serving

WILDCARD: Any = {"ContainerWebServices": {"ExternalURL": "https://*.containers.example/"}}


def configured(**web: Any) -> Config:
    return load(None, {"Services": {"ContainerWebServices": web}, "ExternalURL": "https://h:1/"})


def found(sites: PortAddresses, host: str, path: str = "/a") -> tuple[str, str] | None:
    place = sites.find({"headers": [(b"x", b"y"), (b"host", host.encode())], "path": path})
    return (place.name, place.base) if place else None


def test_whose_request_it_is() -> None:
    uuid = "zzzzz-dz642-000000000000000"
    wildcard = make_sites(configured(ExternalURL="https://*.containers.example/"))
    dashes = make_sites(configured(ExternalURL="https://*--c.example:8443/"))
    ports = make_sites(configured(ExternalPortMin=2000, ExternalPortMax=2010))
    for sites, host, path, expected in (
        (PortAddresses(), f"{uuid}-80--x.y", "/a", (f"{uuid}-80", "")),
        (PortAddresses(), "h:1", f"/services/{uuid}-80/x", (f"{uuid}-80", f"/services/{uuid}-80")),
        (PortAddresses(), "notebook.containers.example", "/a", None),
        (wildcard, "Notebook.containers.example:443", "/a", ("notebook", "")),
        (wildcard, "a.notebook.containers.example", "/a", None),
        (wildcard, ".containers.example", "/a", None),
        (dashes, "notebook--c.example", "/a", ("notebook", "")),
        (ports, "h:2005", "/services/x/", (":2005", "")),
        (ports, "h:2011", "/a", None),
        (ports, "h:\u00b2", "/a", None),
        (ports, "h:1", "/a", None),
        (ports, "h", "/a", None),
    ):
        assert found(sites, host, path) == expected, host


def test_where_a_port_is() -> None:
    for web, external, url in (
        ({"ExternalURL": "https://*--x.y/"}, None, "https://u-80--x.y/"),
        ({}, None, "https://h:1/services/u-80/"),
        ({"ExternalPortMin": 5, "ExternalPortMax": 9}, 7, "https://h:7/"),
        (
            {"ExternalURL": "https://proxy/", "ExternalPortMin": 5, "ExternalPortMax": 9},
            7,
            "https://proxy:7/",
        ),
    ):
        assert base_url(configured(**web), "u", "80", external) == url


def test_where_a_server_listens() -> None:
    assert make_sites(configured()).addresses("h:1") == ()
    ports = {"ExternalPortMin": 5, "ExternalPortMax": 6}
    assert make_sites(configured(**ports)).addresses("h:1") == ("h:5", "h:6")
    assert make_sites(configured(**ports, ExternalURL="https://proxy/")).addresses("h:1") == ()
    for wrong in ({"ExternalPortMin": 5}, {"ExternalPortMin": 5, "ExternalPortMax": 99999}):
        with pytest.raises(Invalid, match="ExternalPortMax"):
            make_sites(configured(**wrong))


async def test_a_port_by_a_name_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path, Services=WILDCARD) as it:
        alice, bob = await it.user("alice"), await it.user("bob")
        async with serving(it, tmp_path, token=alice) as (request, uuid):
            host = "notebook.containers.example"
            assert (await get(it, "/x", token=alice, host=host)).status == 404
            link = {
                "link_class": "published_port",
                "name": "notebook",
                "head_uuid": request,
                "properties": {"port": 8000},
            }
            made = await it.ok("POST", "links", link, token=alice)
            answer = await get(it, "/x", token=alice, host=host)
            assert answer.status == 200
            assert b"GET /x" in answer.body
            assert (await get(it, "/x", host=host)).status == 401
            assert (await get(it, "/x", token=bob, host=host)).status == 404
            await refuse(it, link, alice, "already")
            for wrong, text in (
                ({"name": "Not a label"}, "host name"),
                ({"name": f"{uuid}-80"}, "host name"),
                ({"name": "other", "properties": {}}, "port"),
                ({"name": "other", "properties": {"port": True}}, "port"),
                ({"name": "other", "head_uuid": made["uuid"]}, "head_uuid"),
            ):
                await refuse(it, {**link, **wrong}, alice, text)
            await refuse(it, {**link, "name": "mine"}, bob, "not found")
            path = f"links/{made['uuid']}"
            await it.ok("PUT", path, {"name": "book"}, token=alice)
            assert (await get(it, "/x", token=alice, host="book.containers.example")).status == 200
            await it.ok("DELETE", path, token=alice)
            assert (await get(it, "/x", token=alice, host="book.containers.example")).status == 404


async def refuse(it: World, link: dict[str, Any], token: str, text: str) -> None:
    answer = await it.request("POST", "links", link, token=token)
    assert answer.status == 422
    assert text in answer.error


async def test_a_port_of_its_own(tmp_path: Path) -> None:
    web: Any = {"ContainerWebServices": {"ExternalPortMin": 2000, "ExternalPortMax": 2000}}
    async with world(tmp_path, Services=web) as it:
        assert (await get(it, "/x", token=it.admin, host="h:2000")).status == 410
        async with serving(it, tmp_path) as (_, uuid):
            shown = (await it.ok("GET", f"containers/{uuid}"))["published_ports"]["8000"]
            assert (shown["external_port"], shown["base_url"]) == (2000, "https://127.0.0.1:2000/")
            answer = await get(it, "/x", token=it.admin, host="h:2000")
            assert (answer.status, b"GET /x" in answer.body) == (200, True)
            assert (await get(it, "/x", host="h:2000")).status == 401
            other = await it.submit(use_existing=False, service=True, published_ports={"80": PORT})
            token = await it.lock(other["container_uuid"])
            path, running = f"containers/{other['container_uuid']}", {"state": "Running"}
            refused = await it.request("PUT", path, running, token=token)
            assert (refused.status, "in use" in refused.error) == (503, True)


async def test_what_a_browser_kept_of_another_container_is_forgotten(tmp_path: Path) -> None:
    web: Any = {"ContainerWebServices": {"ExternalPortMin": 2000, "ExternalPortMax": 2000}}
    async with (
        world(tmp_path, Services=web) as it,
        serving(it, tmp_path, access="public") as (_, uuid),
    ):
        first = await get(it, "/x", host="h:2000")
        assert (first.status, first.headers["set-cookie"].partition(";")[0]) == (
            200,
            f"arvados_container_uuid={uuid}",
        )
        mine, other = (
            f"a=b; arvados_container_uuid={uuid}",
            "a=b; arvados_api_token=c; arvados_container_uuid=other",
        )
        same = await get(it, "/x", host="h:2000", cookie=mine)
        assert (same.status, "set-cookie" in same.headers) == (200, False)
        assert b"cookie: a=b\n" in same.body.lower().replace(b"\r", b"")
        assert (await get(it, "/x", host="h:2000", cookie=other, method="POST")).status == 410
        # A cookie that is not ASCII, as the script of a container can set it, hides no owner.
        odd = f"b=\xe9; {other}"
        assert (await get(it, "/x", host="h:2000", cookie=odd, method="POST")).status == 410
        assert (await get(it, f"/services/{uuid}-8000/x", cookie=other)).status == 200
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/x", "raw_path": b"/x",
            "query_string": b"q=1", "headers": [(b"host", b"h:2000"), (b"cookie", other.encode())],
            "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await it.app(scope, receive, send)
        headers = [(name.decode(), value.decode()) for name, value in said[0]["headers"]]
        assert said[0]["status"] == 303
        assert ("location", "/x?q=1") in headers
        assert ("clear-site-data", '"cache", "storage"') in headers
        cookies = [value for name, value in headers if name == "set-cookie"]
        assert cookies[0] == "a=; Path=/; Max-Age=0"
        assert cookies[1].startswith(f"arvados_container_uuid={uuid}; ")
        assert len(cookies) == 2
