"""The trail of changes."""

from __future__ import annotations

from lading.testing.world import World


async def test_create_update_delete(it: World) -> None:
    uuid = (await it.ok("POST", "links", {"link_class": "tag", "name": "a"}))["uuid"]
    await it.ok("PUT", f"links/{uuid}", {"name": "b"})
    await it.ok("PUT", f"links/{uuid}", {"name": "b"})
    await it.ok("DELETE", f"links/{uuid}")
    params = {"filters": [["object_uuid", "=", uuid]], "order": "id"}
    made, changed, gone = (await it.ok("GET", "logs", params=params))["items"]
    assert [row["event_type"] for row in (made, changed, gone)] == ["create", "update", "delete"]
    assert made["summary"] == f"create of {uuid}"
    assert made["properties"]["new_attributes"]["link_class"] == "tag"
    assert changed["properties"]["old_attributes"]["name"] == "a"
    assert changed["properties"]["new_attributes"]["name"] == "b"
    assert "link_class" not in changed["properties"]["new_attributes"]
    assert made["properties"]["new_etag"] == changed["properties"]["old_etag"]
    assert gone["properties"]["old_attributes"]["name"] == "b"


async def test_a_refused_change_leaves_no_trail(it: World) -> None:
    before = (await it.ok("GET", "logs"))["items_available"]
    assert (await it.request("POST", "links", {"link_class": "permission"})).status == 422
    assert (await it.ok("GET", "logs"))["items_available"] == before
