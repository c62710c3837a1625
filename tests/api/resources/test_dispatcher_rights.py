"""Rights of dispatchers: they list what waits, take it, and write what they hold; nothing else.

`other` is a dispatcher of Arvados, whose token has the wider scopes; it belongs to the admin, as
all tokens of `lading admin dispatcher-token` do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from lading.core.records import access
from lading.core.records.schema import JSON, Record
from lading.testing.world import World

STATES = ("Queued", "Locked", "Running", "Complete", "Cancelled")
WRITES: tuple[Record, ...] = (
    {"priority": 0},
    {"priority": 12345},
    {"state": "Queued"},
    {"state": "Running"},
    {"state": "Complete", "exit_code": 0},
    {"state": "Cancelled"},
    {"state": "Cancelled", "runtime_status": {"error": "too large"}},
    {"runtime_status": {"error": "x"}},
    {"cost": 5.5},
    {"exit_code": 1},
    {"gateway_address": "tunnel"},
    {"interactive_session_started": True},
)


async def other_dispatcher(it: World) -> str:
    """The token of a second dispatcher."""
    scopes = list(access.ARVADOS_DISPATCHER_SCOPES)
    made = await it.ok("POST", "api_client_authorizations", {"scopes": scopes})
    return f"v2/{made['uuid']}/{made['api_token']}"


@dataclass(frozen=True)
class Dispatched:
    """A container of the first dispatcher in one state, and the second dispatcher."""

    it: World
    request: Record
    supervisor: str
    other: str

    @property
    def uuid(self) -> str:
        """Its uuid."""
        return str(self.request["container_uuid"])

    @property
    def path(self) -> str:
        """Its path."""
        return f"containers/{self.uuid}"

    async def ask(self, method: str, path: str, body: JSON = None) -> int:
        """The status of a call of the second dispatcher."""
        return (await self.it.request(method, path, body, token=self.other)).status


async def dispatched(it: World, state: str) -> Dispatched:
    """A container in `state`; from Locked on the first dispatcher had it."""
    request = await it.submit(state, token=await it.user("ann"), container_count_max=1)
    uuid, supervisor = request["container_uuid"], ""
    if state in ("Locked", "Running", "Cancelled"):
        supervisor = await it.lock(uuid)
    if state in ("Running", "Cancelled"):
        body = {"state": state}
        await it.ok("PUT", f"containers/{uuid}", body, token=supervisor)
    if state == "Complete":
        await it.run(uuid)
    return Dispatched(it, request, supervisor, await other_dispatcher(it))


@pytest.mark.parametrize("state", STATES)
async def test_a_dispatcher_writes_nothing_that_it_does_not_hold(it: World, state: str) -> None:
    one = await dispatched(it, state)
    before = await it.ok("GET", one.path)
    for body in WRITES:
        if body.get("state") != state or len(body) > 1:
            assert await one.ask("PUT", one.path, body) in (404, 409, 422), body
    assert await it.ok("GET", one.path) == before
    request = await it.ok("GET", f"container_requests/{one.request['uuid']}")
    assert request["state"] == ("Final" if state in ("Complete", "Cancelled") else "Committed")


@pytest.mark.parametrize("state", STATES)
async def test_a_dispatcher_calls_no_action_of_what_it_does_not_hold(it: World, state: str) -> None:
    one = await dispatched(it, state)
    before = await it.ok("GET", one.path)
    body: Record = {
        "reason": "x",
        "probe": True,
        "container": {"state": "Complete", "exit_code": 0},
        "collections": {},
    }
    for action in (
        "unlock", "finish", "progress", "live/stdout.txt", "withdraw", "restore",
        "update_priority", "ssh", "gateway_tunnel",
    ):  # fmt: skip
        status = await one.ask("POST", f"{one.path}/{action}", body)
        assert status in (401, 403, 404, 422), (action, status)
    for action in ("auth", "secret_mounts", "accounting", "evidence", "git_tree"):
        assert await one.ask("GET", f"{one.path}/{action}") in (403, 404), action
    assert await one.ask("POST", f"connect/{one.uuid}/ssh", body) in (403, 404)
    assert await one.ask("POST", f"connect/{one.request['uuid']}/ssh", body) in (403, 404)
    assert await one.ask("DELETE", one.path) == 403
    assert await it.ok("GET", one.path) == before


@pytest.mark.parametrize("state", STATES)
async def test_a_dispatcher_reads_what_waits_and_what_it_has_locked(it: World, state: str) -> None:
    one = await dispatched(it, state)
    expected = 1 if state == "Queued" else 0
    for filters in ([], [["uuid", "=", one.uuid]], [["state", "=", state]]):
        params = {"filters": filters, "select": ["uuid", "command"]}
        found = await it.ok("GET", "containers", token=one.other, params=params)
        assert len(found["items"]) == found["items_available"] == expected
        mine = await it.ok("GET", "containers", token=it.dispatcher, params=params)
        assert len(mine["items"]) == 1
    assert await one.ask("GET", one.path) == (200 if expected else 404)
    assert (await it.request("GET", one.path, token=it.dispatcher)).status == 200


async def test_the_token_of_a_dispatcher_belongs_to_no_container(it: World) -> None:
    reply = await it.request("GET", "containers/current", token=it.dispatcher)
    assert (reply.status, "not associated with a container" in reply.error) == (404, True)


async def test_a_dispatcher_is_too_late_for_what_another_one_has_taken(it: World) -> None:
    one = await dispatched(it, "Running")
    waiting = (await it.submit("true", "2"))["container_uuid"]
    reply = await it.request("POST", f"{one.path}/lock", token=one.other)
    assert (reply.status, "cannot lock when Running" in reply.error) == (422, True)
    assert await one.ask("PUT", one.path, {"state": "Locked"}) == 404
    body = {"alternatives": [waiting]}
    taken = await it.ok("POST", f"{one.path}/lock", body, token=one.other)
    assert taken["uuid"] == waiting
    assert [named["state"] for named in taken["passed"]] == ["Running"]
    assert taken["passed"][0].keys() == {"uuid", "state", "priority", "locked_by_uuid"}


async def test_a_dispatcher_locks_no_container_that_is_on_hold(it: World) -> None:
    one = await dispatched(it, "Queued")
    await it.ok("PUT", f"container_requests/{one.request['uuid']}", {"priority": 0})
    for body in ({"state": "Locked"}, {"state": "Locked", "priority": 5}):
        assert await one.ask("PUT", one.path, body) == 422
    assert (await it.ok("GET", one.path))["state"] == "Queued"


async def test_a_dispatcher_does_all_with_what_it_holds_but_enter_it(it: World) -> None:
    one = await dispatched(it, "Queued")
    assert await one.ask("PUT", one.path, {"state": "Locked"}) == 200
    assert await one.ask("GET", f"{one.path}/auth") == 200
    assert await one.ask("PUT", one.path, {"state": "Running"}) == 200
    for path in (f"{one.path}/ssh", f"connect/{one.uuid}/ssh"):
        reply = await it.request("POST", path, {"probe": True}, token=one.other)
        assert (reply.status, "token of a dispatcher" in reply.error) == (403, True)
    assert (await it.ok("GET", one.path))["interactive_session_started"] is False
    end = {"state": "Cancelled", "runtime_status": {"error": "x", "failure": "node"}}
    assert await one.ask("PUT", one.path, end) == 200
    # It explains the end, and withdraws nothing.
    assert (await it.ok("GET", one.path, token=one.other))["state"] == "Cancelled"
    assert await one.ask("POST", f"{one.path}/withdraw", {"reason": "x"}) == 403


async def test_a_dispatcher_does_not_withdraw_a_result_of_its_own(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await it.run(uuid)
    reply = await it.request(
        "PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=it.dispatcher
    )
    assert (reply.status, "cannot be modified by this token" in reply.error) == (422, True)
    # An admin does; Arvados' way to keep a result from being reused.
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"})


@pytest.mark.parametrize("for_arvados", [False, True])
async def test_a_dispatcher_is_no_admin(it: World, for_arvados: bool) -> None:
    one = await dispatched(it, "Queued")
    token = one.other if for_arvados else it.dispatcher
    for method, path in (
        ("GET", "container_requests"),
        ("GET", "collections"),
        ("GET", "users"),
        ("GET", "logs"),
        ("GET", "dispatch/machines"),
        ("POST", "dispatch/machines/order"),
        ("POST", "containers"),
        ("POST", "container_requests"),
        ("POST", "api_client_authorizations"),
        ("GET", "health"),
        ("GET", "/events"),
    ):
        assert (await it.request(method, path, {}, token=token)).status == 403, path
    reader = {"reader_tokens": [token]}
    bob = await it.user("bob")
    found = await it.request("GET", f"{one.path}/evidence", token=bob, params=reader)
    assert found.status == 404
    assert (await it.request("GET", one.path, token=bob, params=reader)).status == 404


def told(uuid: str, kind: str, text: str = "Forged.") -> Record:
    return {"container_uuid": uuid, "event_type": kind, "text": text, "age": 0.0}


KINDS = (
    "decided_to_run", "decided_not_to_run", "dispatched", "dispatch", "cleaned_up_crashed",
    "cleaned_up_abandoned",
)  # fmt: skip


@pytest.mark.parametrize("state", STATES)
async def test_a_dispatcher_decides_about_what_waits_and_what_it_has_locked(
    it: World, state: str
) -> None:
    one = await dispatched(it, state)
    events = [told(one.uuid, kind) for kind in KINDS]
    body = {"items": {one.uuid: {"reason": "held", "sentence": "Forged."}}, "events": events}
    answer = await it.ok("POST", "dispatch/statuses", body, token=one.other)
    assert answer["events"] == (len(KINDS) if state == "Queued" else 0)
    path = f"container_requests/{one.request['uuid']}"
    if state != "Queued":
        assert "Forged" not in str(await it.ok("GET", f"{path}/why"))
        assert "Forged" not in str(await it.ok("GET", f"{path}/container_status"))
    answer = await it.ok("POST", "dispatch/statuses", body, token=it.dispatcher)
    assert answer["events"] == len(KINDS)


async def test_a_dispatcher_says_once_that_it_was_too_late(it: World) -> None:
    one = await dispatched(it, "Running")
    late = told(one.uuid, "lock_failed")
    for expected in (1, 0):
        body = {"items": {}, "events": [late, late]}
        answer = await it.ok("POST", "dispatch/statuses", body, token=one.other)
        assert answer["events"] == expected
    why = await it.ok("GET", f"container_requests/{one.request['uuid']}/why")
    assert [row["text"] for row in why["dispatch"]] == [
        "Could not be locked: another dispatcher was first."
    ]


@pytest.mark.parametrize("state", STATES)
async def test_a_dispatcher_writes_log_rows_about_its_containers_alone(
    it: World, state: str
) -> None:
    one = await dispatched(it, state)
    row = {"event_type": "note", "summary": "Forged.", "object_uuid": one.uuid}
    decision = row | {"event_type": "dispatch"}
    assert await one.ask("POST", "logs", row) == (200 if state == "Queued" else 404)
    assert await one.ask("POST", "logs", decision) == (403 if state == "Queued" else 404)
    assert (await it.request("POST", "logs", row, token=it.dispatcher)).status == 200
    mine = await it.request("POST", "logs", decision, token=it.dispatcher)
    assert mine.status == (200 if state in ("Locked", "Running") else 403)
    for about in (None, one.request["uuid"], it.app.services.ids.system_user):
        assert await one.ask("POST", "logs", row | {"object_uuid": about}) == 403


async def test_an_admin_withdraws_and_cancels_what_nobody_holds(it: World) -> None:
    """Tokens with all scopes are those of admins, not of dispatchers, also when they have locked
    containers.
    """
    for state, expected in (("Queued", 200), ("Complete", 200), ("Locked", 422), ("Running", 422)):
        one = await dispatched(it, state)
        reply = await it.request("PUT", one.path, {"state": "Cancelled"})
        assert reply.status == expected, state
    mine = (await it.submit("mine"))["container_uuid"]
    await it.ok("POST", f"containers/{mine}/lock")
    await it.ok("PUT", f"containers/{mine}", {"state": "Cancelled"})


async def test_a_dispatcher_gives_a_user_no_content_of_others(it: World) -> None:
    """Whose hash it knows, as the log or the output of a container that it holds."""
    one = await dispatched(it, "Queued")
    secret = (await it.collection({"a": b"of the admin"}))["portable_data_hash"]
    assert await one.ask("POST", f"{one.path}/lock") == 200
    assert await one.ask("PUT", one.path, {"log": secret}) == 422
    assert await one.ask("PUT", one.path, {"state": "Running"}) == 200
    for body in ({"log": secret}, {"output": secret}, {"state": "Complete", "output": secret}):
        assert await one.ask("PUT", one.path, body) == 422, body
    mine = await it.collection({"a": b"x"}, token=await it.user("ann"))
    end = {"state": "Complete", "exit_code": 0, "output": mine["portable_data_hash"]}
    assert await one.ask("PUT", one.path, end) == 200


async def test_of_equal_writers_of_locked_one_succeeds(it: World) -> None:
    """Processes with one token, which the seed of dispatchers names as its third scenario."""
    uuid = (await it.submit())["container_uuid"]
    replies = await asyncio.gather(
        *(
            it.request("PUT", f"containers/{uuid}", {"state": "Locked"}, token=it.dispatcher)
            for _ in range(6)
        )
    )
    statuses = sorted(one.status for one in replies)
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {409, 422}
    assert (await it.ok("GET", f"containers/{uuid}"))["lock_count"] == 1
