"""The discovery document."""

from __future__ import annotations

from typing import Any

from lading.core.records.record_types import RECORDS
from lading.testing.world import World


async def test_what_clients_need(it: World) -> None:
    document = await it.ok("GET", "/discovery/v1/apis/arvados/v1/rest", token="")
    assert document["rootUrl"] == "https://127.0.0.1:9440/"
    assert document["servicePath"] == "arvados/v1/"
    assert document["revision"] == "20250402"
    assert document["websocketUrl"] == "wss://127.0.0.1:9440/websocket"
    assert document["resources"]["containers"]["methods"]["create"]["httpMethod"] == "POST"
    update = document["resources"]["collections"]["methods"]["update"]
    assert (update["path"], update["httpMethod"]) == ("collections/{uuid}", "PUT")
    assert update["parameters"]["uuid"] == {
        "type": "string",
        "description": "Its uuid.",
        "required": True,
        "location": "path",
    }


async def test_every_reference_has_its_target(it: World) -> None:
    document = await it.ok("GET", "/discovery/v1/apis/arvados/v1/rest")
    assert set(_references(document)) <= set(document["schemas"])
    assert {one.schema for one in RECORDS} <= set(document["schemas"])


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [one for item in value for one in _references(item)]
    if isinstance(value, dict):
        return [
            one
            for key, item in value.items()
            for one in ([item] if key == "$ref" else _references(item))
        ]
    return []
