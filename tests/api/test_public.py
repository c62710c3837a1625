"""What anybody may ask."""

from __future__ import annotations

from lading.api.public import websocket_url
from lading.testing.world import World


async def test_config_shows_no_secret(it: World) -> None:
    config = await it.ok("GET", "config", token="")
    assert config["ClusterID"] == "zzzzz"
    assert config["Services"]["Workbench2"]["ExternalURL"] == ""
    assert config["Containers"]["ReserveExtraRAM"] == 550 << 20
    text = str(config)
    for secret in ("s" * 50, "m" * 50, "k" * 50):
        assert secret not in text


async def test_vocabulary(it: World) -> None:
    assert await it.ok("GET", "vocabulary", token="") == {"strict_tags": False, "tags": {}}


async def test_health(it: World) -> None:
    assert await it.ok("GET", "/_health/ping", token="m" * 50) == {"health": "OK"}
    assert (await it.request("GET", "/_health/ping", token="")).status == 401
    assert (await it.request("GET", "/_health/ping")).status == 403


def test_websocket_url() -> None:
    assert websocket_url("https://h:1/") == "wss://h:1/websocket"
    assert websocket_url("") == ""
