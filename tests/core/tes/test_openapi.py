"""The document of TES."""

from __future__ import annotations

from typing import Any

from lading.core.tes.document import read_task
from lading.core.tes.openapi import describe_tes
from lading.core.values import JsonObject


def test_operations() -> None:
    found: Any = describe_tes("/prefix")
    assert found["servers"] == [{"url": "/prefix"}]
    methods = {(method, path) for path, one in found["paths"].items() for method in one}
    assert methods == {
        ("get", "/service-info"),
        ("get", "/tasks"),
        ("post", "/tasks"),
        ("get", "/tasks/{id}"),
        ("post", "/tasks/{id}:cancel"),
    }
    names = [one["operationId"] for path in found["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


def test_properties_are_those_that_a_create_keeps() -> None:
    found: Any = describe_tes("")
    body = found["paths"]["/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    example: JsonObject = {
        "name": "n", "description": "d", "volumes": ["/v"], "tags": {"a": "b"},
        "inputs": [{"path": "/i", "content": "c", "streamable": True}],
        "outputs": [{"path": "/o/x", "url": "keep:", "path_prefix": "/o"}],
        "executors": [{"image": "i", "command": ["c"], "ignore_error": True, "env": {}}],
        "resources": {"cpu_cores": 1, "zones": ["z"]},
    }  # fmt: skip
    kept: Any = read_task(example)
    assert set(kept) == set(body["properties"])
    for name in ("inputs", "outputs", "executors"):
        assert set(kept[name][0]) <= set(body["properties"][name]["items"]["properties"])
    assert set(kept["resources"]) <= set(body["properties"]["resources"]["properties"])
