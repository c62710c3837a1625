"""The OpenAPI description."""

from __future__ import annotations

import json
import re

from lading.api.documents.descriptions import describe
from lading.api.routes import Routes, actions
from lading.core.records.schema import Scope
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


def test_every_route_is_described() -> None:
    described = {path.replace("/{rest}", "") for path in describe()["paths"]}
    for kind, action in actions():
        parts = [kind.plural, "{uuid}" if action.scope is Scope.MEMBER else "", action.path]
        assert "/arvados/v1/" + "/".join(part for part in parts if part) in described
    assert {
        "/discovery/v1/apis/arvados/v1/rest",
        "/arvados/v1/openapi.json",
        "/_health/ping",
    } <= described


def test_every_schema_is_there() -> None:
    document = describe()
    text = json.dumps(document)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in document["components"]["schemas"]


def test_statuses_are_listed_one_by_one() -> None:
    create = describe()["paths"]["/arvados/v1/collections"]["post"]["responses"]
    assert {"200", "400", "401", "403", "404", "409", "413", "422", "503", "507"} <= set(create)
    assert "500" not in create


def test_what_the_server_sets_is_read_only() -> None:
    container = describe()["components"]["schemas"]["Container"]["properties"]
    assert container["created_at"]["readOnly"]
    assert "secret_mounts" not in container
    assert container["priority"]["format"] == "int64"
