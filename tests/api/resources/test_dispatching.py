"""What dispatchers decided, as log rows and as part of why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lading.core.records import access
from lading.core.records.schema import Record
from lading.testing.world import World


def told(
    uuid: str, kind: str = "decided_to_run", text: str = "Decided.", age: float = 0.0
) -> dict[str, Any]:
    return {"container_uuid": uuid, "event_type": kind, "text": text, "age": age}


async def report(it: World, *events: object) -> dict[str, Any]:
    answer: dict[str, Any] = await it.ok(
        "POST", "dispatch/statuses", {"items": {}, "events": list(events)}
    )
    return answer


async def test_decisions_are_rows_that_readers_of_the_request_can_read(it: World) -> None:
    user, other = await it.user("reader"), await it.user("other")
    made = await it.submit(token=user)
    uuid = made["container_uuid"]
    assert (await report(it, told(uuid, "dispatched", "Sent."), told(uuid, age=60.0)))[
        "events"
    ] == 2
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
        [told("zzzzz-dz642-000000000000009") | {"age": "1"}],
        [told("zzzzz-dz642-000000000000009")] * 1001,
    ],
)  # fmt: skip
async def test_bad_reports_are_refused(it: World, events: object) -> None:
    answer = await it.request("POST", "dispatch/statuses", {"items": {}, "events": events})
    assert answer.status == 422


async def test_only_dispatchers_write_such_rows(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    row = {"object_uuid": uuid, "event_type": "cleaned_up_crashed", "summary": "x"}
    assert (await it.request("POST", "logs", {"log": row})).status == 422


async def lease(it: World, holder: object, **more: object) -> int:
    body = {"items": {}, "holder": holder, **more}
    return (await it.request("POST", "dispatch/statuses", body, token=it.dispatcher)).status


async def test_one_dispatcher_works_with_a_token_at_a_time(it: World) -> None:
    assert await lease(it, "a:/x") == 200
    assert await lease(it, "b:/y") == 409
    assert await lease(it, "a:/x") == 200
    assert await lease(it, "b:/y", release=True) == 200
    assert await lease(it, "b:/y") == 409
    it.clock.moment += timedelta(seconds=181)
    assert await lease(it, "b:/y") == 200
    assert await lease(it, "b:/y", release=True) == 200
    assert await lease(it, "a:/x") == 200
    assert await lease(it, "x" * 5000) == 422
    # Those that name none, as Arvados' dispatchers, are let in as ever.
    assert (await report(it))["items"] == 0


async def test_two_dispatchers_of_one_name_do_not_take_turns(it: World) -> None:
    """As of two machines that are called localhost."""
    assert await lease(it, "a:/x", lease="process-1") == 200
    assert await lease(it, "a:/x", lease="process-2") == 200
    body = {"items": {}, "holder": "a:/x", "lease": "process-1"}
    own = {"x-lading-lease": "process-1"}
    reply = await it.request("POST", "dispatch/statuses", body, token=it.dispatcher, headers=own)
    assert (reply.status, "another dispatcher works with this token" in reply.error) == (409, True)
    assert await lease(it, "a:/x", lease="process-2") == 200


async def test_a_lease_of_a_process_ends_after_thirty_seconds(it: World) -> None:
    assert await lease(it, "a:/x", lease="process-1") == 200
    assert await lease(it, "b:/y", lease="process-2") == 409
    it.clock.advance(29)
    assert await lease(it, "a:/x", lease="process-1") == 200
    it.clock.advance(29)
    assert await lease(it, "b:/y", lease="process-2") == 409
    it.clock.advance(2)
    assert await lease(it, "b:/y", lease="process-2") == 200
    # The one that wakes up neither gets it back nor ends it.
    assert await lease(it, "a:/x", lease="process-1") == 409
    assert await lease(it, "a:/x", lease="process-1", release=True) == 200
    assert await lease(it, "a:/x", lease="process-1") == 409
    # A data directory is locked by one process at a time.
    assert await lease(it, "b:/y", lease="process-3") == 200
    for bad in ("short", "x" * 65, 5):
        assert await lease(it, "b:/y", lease=bad) == 422


async def test_a_process_that_was_replaced_changes_nothing(it: World) -> None:
    held, waits = await it.submit("a"), await it.submit("b")
    await it.lock(held["container_uuid"])
    await lease(it, "a:/x", lease="process-1")
    it.clock.advance(31)
    await lease(it, "b:/y", lease="process-2")
    path = f"containers/{held['container_uuid']}"
    calls: list[tuple[str, str, Record]] = [
        ("POST", f"containers/{waits['container_uuid']}/lock", {}),
        ("POST", f"{path}/unlock", {}),
        ("PUT", path, {"state": "Cancelled"}),
        ("POST", "dispatch/statuses", {"items": {}}),
        ("POST", "dispatch/machines", {"report": None}),
    ]
    for method, where, body in calls:
        old = {"x-lading-lease": "process-1"}
        reply = await it.request(method, where, body, token=it.dispatcher, headers=old)
        assert (reply.status, where) == (409, where)
        assert "another dispatcher works with this token: b:/y" in reply.error
    assert (await it.ok("GET", path))["state"] == "Locked"
    new = {"x-lading-lease": "process-2"}
    reply = await it.request("POST", f"{path}/unlock", token=it.dispatcher, headers=new)
    assert reply.json["state"] == "Queued"
    # Dispatchers of Arvados send none.
    await it.lock(waits["container_uuid"])


async def test_the_refusal_names_the_other_dispatcher(it: World) -> None:
    await lease(it, "here:/data")
    reply = await it.request(
        "POST", "dispatch/statuses", {"items": {}, "holder": "b:/y"}, token=it.dispatcher
    )
    assert (
        "another dispatcher works with this token: here:/data, heard of at 20"
        in reply.body.decode()
    )


async def test_a_dispatcher_cannot_write_what_another_one_has_locked(it: World) -> None:
    made = await it.submit()
    uuid = made["container_uuid"]
    scopes = list(access.DISPATCHER_SCOPES)
    other = await it.ok("POST", "api_client_authorizations", {"scopes": scopes})
    token = f"v2/{other['uuid']}/{other['api_token']}"
    supervisor = await it.lock(uuid)
    for state in ("Running", "Complete"):
        for changes in (
            {"state": "Cancelled"},
            {"state": "Complete"},
            {"priority": 5},
            {"progress": 0.5},
        ):
            reply = await it.request("PUT", f"containers/{uuid}", changes, token=token)
            assert (reply.status, changes) == (404, changes)
        if state == "Running":
            await it.ok("PUT", f"containers/{uuid}", {"state": state}, token=supervisor)
    assert (await it.ok("GET", f"containers/{uuid}"))["state"] == "Running"


async def arvados_dispatcher(it: World) -> str:
    """The token of a dispatcher of Arvados."""
    scopes = list(access.ARVADOS_DISPATCHER_SCOPES)
    made = await it.ok("POST", "api_client_authorizations", {"scopes": scopes})
    return f"v2/{made['uuid']}/{made['api_token']}"


async def test_a_dispatcher_of_arvados_stores_logs_of_its_containers_and_nothing_else(
    it: World,
) -> None:
    """crunch-run makes, renews and ends the collection of its log with the token of its
    dispatcher.
    """
    token, other = await arvados_dispatcher(it), await arvados_dispatcher(it)
    uuid = (await it.submit())["container_uuid"]
    name = f"logs for {uuid}"
    assert (await it.request("POST", "collections", {"name": name}, token=token)).status == 403, (
        "not locked yet"
    )
    await it.ok("POST", f"containers/{uuid}/lock", token=token)
    for wrong in (
        {"name": "data"},
        {"name": f"{name} x"},
        {},
        {"name": name, "owner_uuid": it.app.services.ids.system_user},
    ):
        reply = await it.request("POST", "collections", wrong, token=token)
        if "owner_uuid" in wrong:
            assert (reply.status, "not found" in reply.error) == (422, True)
        else:
            assert (reply.status, "and nothing else" in reply.error) == (403, True)
    assert (await it.request("POST", "collections", {"name": name}, token=other)).status == 403
    block = it.blocks.put(b"x")
    unsigned = {"name": name, "manifest_text": f". {block} 0:1:a\n"}
    assert (await it.request("POST", "collections", unsigned, token=token)).status == 403, (
        "it could not read the block"
    )
    text = f". {it.signed(block, token)} 0:1:crunch-run.txt\n"
    body = {"collection": {"name": name, "manifest_text": text}, "ensure_unique_name": True}
    for _ in range(2):
        made = await it.ok("POST", "collections", body, token=token)
    assert made["name"].startswith(f"{name} (")
    log, path = made["portable_data_hash"], f"collections/{made['uuid']}"
    running = {"state": "Running", "log": log}
    await it.ok("PUT", f"containers/{uuid}", running, token=token)
    assert (await it.request("PUT", path, {"name": "mine"}, token=token)).status == 403
    assert (await it.request("PUT", path, {"is_trashed": True}, token=other)).status == 403
    assert (await it.request("GET", path, token=token)).status == 403
    await it.ok("PUT", path, {"is_trashed": True}, token=token)
    await it.ok(
        "PUT", f"containers/{uuid}", {"state": "Complete", "exit_code": 0, "log": log}, token=token
    )
    assert (await it.request("POST", "collections", {"name": name}, token=token)).status == 403, (
        "it has ended"
    )


async def test_what_a_container_waited_for_is_kept_with_the_decision(it: World) -> None:
    made = await it.submit()
    uuid = made["container_uuid"]
    await report(it, told(uuid) | {"waited": "waited 41 s for 2 VCPUs"})
    why = await it.ok("GET", f"container_requests/{made['uuid']}/why")
    assert why["waited"] == [{"container_uuid": uuid, "text": "waited 41 s for 2 VCPUs"}]
    assert why["dispatch"][0]["waited"] == "waited 41 s for 2 VCPUs"


async def test_a_long_trail_is_shown_from_its_latest_decisions(it: World) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    for texts in (map(str, range(1000)), ["last"]):
        events = [
            {"container_uuid": uuid, "event_type": "decided_not_to_run", "text": one, "age": 0}
            for one in texts
        ]
        report = {"items": {}, "events": events}
        await it.ok("POST", "dispatch/statuses", report, token=it.dispatcher)
    shown = (await it.ok("GET", f"container_requests/{request['uuid']}/why"))["dispatch"]
    assert (len(shown), shown[0]["text"], shown[-1]["text"]) == (1000, "1", "last")
