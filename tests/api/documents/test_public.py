"""What anybody may ask."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import cast

from lading.api.documents.public import websocket_url
from lading.core.errors import Corrupt
from lading.store.database import Database
from lading.testing.world import World, world


async def test_config_shows_no_secret(it: World) -> None:
    config = await it.ok("GET", "config", token="")
    assert config["ClusterID"] == "zzzzz"
    assert config["Services"]["Workbench2"]["ExternalURL"] == "https://127.0.0.1:9440/ui/"
    assert config["Containers"]["ReserveExtraRAM"] == 550 << 20
    assert config["PostgreSQL"] == {}
    text = str(config)
    for secret in ("s" * 50, "m" * 50, "k" * 50):
        assert secret not in text


async def test_vocabulary(it: World) -> None:
    assert await it.ok("GET", "vocabulary", token="") == {"strict_tags": False, "tags": {}}


async def test_a_configured_vocabulary(tmp_path: Path) -> None:
    document = {"strict_tags": True, "tags": {"species": {"strict": True, "values": {"hs": {}}}}}
    (tmp_path / "v.json").write_text(json.dumps(document))
    async with world(tmp_path, API={"VocabularyPath": str(tmp_path / "v.json")}) as it:
        assert await it.ok("GET", "vocabulary", token="") == document
        made = await it.ok(
            "POST", "collections", {"properties": {"species": "hs", "type": "output"}}
        )
        path = f"collections/{made['uuid']}"
        for body in (
            {"properties": {"species": "cat"}},
            {"collection": {"properties": {"size": "xl"}}},
        ):
            reply = await it.request("PUT", path, body)
            assert (reply.status, "properties: tag" in reply.error) == (400, True)
        assert "VocabularyPath" not in (await it.ok("GET", "config"))["API"]


async def test_status_of_the_events(it: World) -> None:
    assert (await it.ok("GET", "/status.json", token=""))["Clients"] == 0
    with it.app.services.events.bus.listen():
        await it.ok("POST", "collections", {})
        assert (await it.ok("GET", "/status.json", token=""))["Clients"] == 1
        async with asyncio.timeout(180):
            # From PostgreSQL events take a moment.
            while await it.ok("GET", "/debug.json", token="m" * 50) != {"Queues": [1]}:
                await asyncio.sleep(0)
    assert (await it.request("GET", "/debug.json")).status == 403


async def test_health(it: World) -> None:
    assert await it.ok("GET", "/_health/ping", token="m" * 50) == {"health": "OK"}
    assert (await it.request("GET", "/_health/ping", token="")).status == 401
    assert (await it.request("GET", "/_health/ping")).status == 403


async def test_metrics(it: World) -> None:
    reply = await it.request("GET", "/metrics", token="m" * 50)
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\nlading_database_writable 1.0\n" in reply.body.decode()
    assert (await it.request("GET", "/metrics")).status == 403


async def test_a_database_that_takes_no_changes_is_ill(it: World) -> None:
    class Damaged:
        fault = Corrupt("db: is damaged")

    it.app = type(it.app)(replace(it.app.services, database=cast(Database, Damaged())))
    reply = await it.request("GET", "/_health/ping", token="m" * 50)
    assert (reply.status, "takes no changes: db: is damaged" in reply.body.decode()) == (503, True)
    assert (
        b"lading_database_writable 0.0"
        in (await it.request("GET", "/metrics", token="m" * 50)).body
    )


def test_websocket_url() -> None:
    assert websocket_url("https://h:1/") == "wss://h:1/websocket"
    assert websocket_url("") == ""


async def test_config_has_what_workbench_asks_for(it: World) -> None:
    config = await it.ok("GET", "config", token="")
    assert config["Workbench"]["UserProfileFormFields"] == {}
    assert config["Services"]["WebShell"] == {"ExternalURL": ""}
    assert config["Login"]["PAM"] == {"Enable": True}


async def test_health_of_all(it: World) -> None:
    told = await it.ok("GET", "/_health/all", token="m" * 50)
    assert (told["Health"], told["Errors"]) == ("OK", [])
    assert {one["Health"] for one in told["Checks"].values()} == {"OK"}
    assert told["Services"]["arvados-controller"] == {"Health": "OK", "N": 1}
    assert (await it.request("GET", "/_health/all", token="")).status == 401
    assert (await it.request("GET", "/_health/all")).status == 403


async def test_health_of_all_says_what_is_ill(it: World) -> None:
    class Damaged:
        fault = Corrupt("db: is damaged")

    it.app = type(it.app)(replace(it.app.services, database=cast(Database, Damaged())))
    told = await it.ok("GET", "/_health/all", token="m" * 50)
    assert told["Health"] == "ERROR"
    assert "db: is damaged" in told["Errors"][0]
    assert {one["HTTPStatusCode"] for one in told["Checks"].values()} == {503}
