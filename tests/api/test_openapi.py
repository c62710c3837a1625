"""The OpenAPI description."""

from __future__ import annotations

from lading.api.openapi import describe
from lading.api.routes import Routes
from lading.testing.world import World


async def test_it_is_served(it: World) -> None:
    document = await it.ok("GET", "openapi.json", token="")
    assert document["openapi"].startswith("3.")
    assert document["servers"] == [{"url": "https://127.0.0.1:9440/"}]


def test_every_path_is_routed() -> None:
    routes = Routes()
    for path, operations in describe()["paths"].items():
        for method in operations:
            assert routes.find(method.upper(), path.format(uuid="u", rest="r")) is not None, path


def test_what_the_server_sets_is_read_only() -> None:
    container = describe()["components"]["schemas"]["Container"]["properties"]
    assert container["created_at"]["readOnly"]
    assert "secret_mounts" not in container
    assert container["priority"]["format"] == "int64"
