"""What dispatchers decided, as log rows and as part of why."""

from __future__ import annotations

from typing import Any

import pytest

from lading.testing.world import World


def told(uuid: str, kind: str = "decided_to_run", text: str = "Decided.", age: float = 0.0) -> dict[str, Any]:
    return {"container_uuid": uuid, "event_type": kind, "text": text, "age": age}


async def report(it: World, *events: object) -> dict[str, Any]:
    answer: dict[str, Any] = await it.ok("POST", "dispatch/statuses", {"items": {}, "events": list(events)})
    return answer


async def test_decisions_are_rows_that_readers_of_the_request_can_read(it: World) -> None:
    user, other = await it.user("reader"), await it.user("other")
    made = await it.submit(token=user)
    uuid = made["container_uuid"]
    assert (await report(it, told(uuid, "dispatched", "Sent."), told(uuid, age=60.0)))["events"] == 2
    filters = [["object_uuid", "=", uuid], ["event_type", "in", ["decided_to_run", "dispatched"]]]
    rows = (await it.ok("GET", "logs", params={"filters": filters}, token=user))["items"]
    assert {row["summary"] for row in rows} == {"Sent.", "Decided."}
    assert rows[0]["properties"]["dispatcher"]
    assert (await it.ok("GET", "logs", params={"filters": filters}, token=other))["items"] == []


async def test_why_has_them_in_order_of_time(it: World) -> None:
    made = await it.submit()
    uuid = made["container_uuid"]
    await report(it, told(uuid, "dispatched", "Sent."), told(uuid, age=60.0))
    why = await it.ok("GET", f"container_requests/{made['uuid']}/why")
    assert [(one["event_type"], one["text"]) for one in why["dispatch"]] == [
        ("decided_to_run", "Decided."),
        ("dispatched", "Sent."),
    ]
    assert why["dispatch"][0]["at"] < why["dispatch"][1]["at"]
    assert why["dispatch"][0]["container_uuid"] == uuid


async def test_what_is_unknown_is_left_out(it: World) -> None:
    assert (await report(it, told("zzzzz-dz642-000000000000009")))["events"] == 0
    assert (await report(it))["events"] == 0


@pytest.mark.parametrize(
    "events",
    [
        "x", [1], [told("nonsense")], [told("zzzzz-dz642-000000000000009", "create")],
        [told("zzzzz-dz642-000000000000009") | {"age": "1"}], [told("zzzzz-dz642-000000000000009")] * 1001,
    ],
)  # fmt: skip
async def test_bad_reports_are_refused(it: World, events: object) -> None:
    answer = await it.request("POST", "dispatch/statuses", {"items": {}, "events": events})
    assert answer.status == 422


async def test_only_dispatchers_write_such_rows(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    row = {"object_uuid": uuid, "event_type": "cleaned_up_crashed", "summary": "x"}
    assert (await it.request("POST", "logs", {"log": row})).status == 422
