"""Workflows: definitions, and the name and description that follow them."""

from __future__ import annotations

import pytest

from lading.api.resources import workflows
from lading.core.records.schema import JSON
from lading.testing.world import World

FIRST = "name: sorts\ndescription: sorts lines\nclass: Workflow\nsteps: [{name: inner}]\n"
SECOND = '{"name": "merges", "description": 5, "$graph": [{"name": "inner"}]}'


async def test_name_and_description_follow_the_definition(it: World) -> None:
    made = await it.ok("POST", "workflows", {"workflow": {"definition": FIRST}})
    assert (made["name"], made["description"]) == ("sorts", "sorts lines")
    path = f"workflows/{made['uuid']}"
    changed = await it.ok("PUT", path, {"definition": SECOND})
    assert (changed["name"], changed["description"]) == ("merges", None)
    named = await it.ok("PUT", path, {"name": "mine"})
    assert named["definition"] == SECOND
    assert (await it.ok("PUT", path, {"definition": FIRST}))["name"] == "mine"
    both = await it.ok("PUT", path, {"definition": SECOND, "name": "set"})
    assert both["name"] == "set"
    assert (await it.ok("PUT", path, {"definition": ""}))["name"] == "set"


async def test_given_names_stay(it: World) -> None:
    made = await it.ok("POST", "workflows", {"name": "given", "definition": FIRST})
    assert (made["name"], made["description"]) == ("given", "sorts lines")
    assert (await it.ok("POST", "workflows", {"name": "given"}))["definition"] is None
    assert (await it.ok("GET", "workflows"))["items_available"] == 2


async def test_large_definitions(it: World) -> None:
    made = await it.ok(
        "POST", "workflows", {"definition": f"name: large\ntext: {'x' * workflows.LARGE}\n"}
    )
    assert made["name"] == "large"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"definition": "- a\n- b\n"}, "with a mapping at its top"),
        ({"definition": "text"}, "with a mapping at its top"),
        ({"definition": "a: b\n---\nc: d\n"}, "must be one YAML or JSON document"),
        ({"definition": "# nothing"}, "must be one YAML or JSON document"),
        ({"definition": "{"}, "not YAML"),
        ({"definition": "a: \x07"}, "not YAML"),
        ({"definition": "[" * 1_000_000}, "with a mapping at its top"),
        ({"definition": "a: " + "[" * 1_000_000}, "more than 100 mappings and lists"),
        (
            {"definition": "a: b", "collection_uuid": "zzzzz-4zz18-000000000000000"},
            "Collection uuid must be null",
        ),
        ({"definition": 5}, "must be a string"),
    ],
)
async def test_faults(it: World, body: JSON, words: str) -> None:
    reply = await it.request("POST", "workflows", body)
    assert (reply.status, words in reply.error) == (422, True), reply.error


async def test_aliases_do_not_grow(it: World) -> None:
    lines = [
        "a0: &a0 [x, x]",
        *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)),
        "name: small",
    ]
    assert (await it.ok("POST", "workflows", {"definition": "\n".join(lines)}))["name"] == "small"


async def test_of_others(it: World) -> None:
    made = await it.ok("POST", "workflows", {"definition": FIRST})
    user = await it.user("u")
    assert (await it.request("GET", f"workflows/{made['uuid']}", token=user)).status == 404
    mine = await it.ok("POST", "workflows", {"definition": FIRST}, token=user)
    owner = {"owner_uuid": made["owner_uuid"]}
    assert (await it.request("PUT", f"workflows/{mine['uuid']}", owner, token=user)).status in (
        403,
        422,
    )
    assert (await it.ok("DELETE", f"workflows/{mine['uuid']}", token=user))["uuid"] == mine["uuid"]
    filters = [["collection.name", "=", "x"]]
    assert (await it.ok("GET", "workflows", params={"filters": filters}))["items"] == []
    moved = await it.ok("PUT", f"workflows/{made['uuid']}", {"owner_uuid": mine["owner_uuid"]})
    assert moved["owner_uuid"] == mine["owner_uuid"]
