"""Machines at the API: reports of dispatchers, what readers see, and orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lading.core.records.schema import Record
from lading.testing.world import World, world

ORDER = "dispatch/machines/order"


def _vm(**more: Any) -> Record:
    return {
        "id": "i-1", "kind": "vm", "state": "running", "address": "10.0.0.1", "price": 0.5,
        "actions": ["hold", "drain", "kill"], **more,
    }  # fmt: skip


async def _report(it: World, *machines: Record, token: str = "") -> Record:
    report = {"machines": list(machines), "history": [{"at": "", "machine": "i-1", "text": "made"}]}
    found: Record = await it.ok(
        "POST", "dispatch/machines", {"report": report}, token=token or it.dispatcher
    )
    return found


async def _listed(it: World, token: str | None = None) -> list[Record]:
    found: list[Record] = (await it.ok("GET", "dispatch/machines", token=token))["items"]
    return found


async def test_a_report_is_shown_until_the_dispatcher_is_silent(it: World) -> None:
    assert await _listed(it) == []
    assert await _report(it, _vm()) == {"known": True, "orders": []}
    [shown] = await _listed(it)
    assert shown["machines"][0]["address"] == "10.0.0.1"
    assert shown["history"][0]["text"] == "made"
    it.clock.advance(120)
    same = await it.ok("POST", "dispatch/machines", {"report": None}, token=it.dispatcher)
    assert same["known"]
    it.clock.advance(120)
    assert len(await _listed(it)) == 1
    it.clock.advance(120)
    assert await _listed(it) == []


async def test_a_server_that_knows_nothing_asks_for_all(it: World) -> None:
    answer = await it.ok("POST", "dispatch/machines", {"report": None}, token=it.dispatcher)
    assert answer == {"known": False, "orders": []}


async def test_readers_see_machines_and_their_own_containers(it: World) -> None:
    jane = await it.user("jane")
    mine = (await it.submit("mine", token=jane))["container_uuid"]
    other = (await it.submit("other"))["container_uuid"]
    await _report(it, _vm(containers=[mine, other], note="secret"))
    [shown] = await _listed(it, jane)
    machine = shown["machines"][0]
    assert (machine["containers"], machine["container_count"]) == ([mine], 2)
    assert (machine["address"], machine["note"], machine["actions"]) == ("", "", [])
    assert shown["history"] == []
    assert (await it.request("GET", "dispatch/machines", token="")).status == 401


async def test_an_order_reaches_its_dispatcher_once(it: World) -> None:
    await _report(it, _vm())
    [shown] = await _listed(it)
    order = {"machine": "i-1", "action": "drain", "reason": "old"}
    await it.ok("POST", ORDER, {**order, "dispatcher": shown["dispatcher"]})
    last = {**order, "action": "kill"}
    await it.ok("POST", ORDER, {**last, "dispatcher": shown["dispatcher"]})
    assert (await _report(it, _vm()))["orders"] == [last]
    assert (await _report(it, _vm()))["orders"] == []


async def test_orders_that_are_refused(it: World) -> None:
    await _report(it, _vm(actions=["run"]))
    [shown] = await _listed(it)
    order = {"dispatcher": shown["dispatcher"], "machine": "i-1", "action": "run"}
    for token in (await it.user("jane"), it.dispatcher):
        assert (await it.request("POST", ORDER, order, token=token)).status == 403
    assert (await it.request("POST", ORDER, {**order, "action": "kill"})).status == 409
    assert (await it.request("POST", ORDER, {**order, "machine": "i-2"})).status == 404
    assert (await it.request("POST", ORDER, {**order, "dispatcher": "x"})).status == 422
    assert (await it.request("POST", ORDER, {**order, "action": "burn"})).status == 422
    assert (await _report(it, _vm()))["orders"] == []


async def test_only_dispatchers_report(it: World) -> None:
    jane = await it.user("jane")
    assert (await it.request("POST", "dispatch/machines", {}, token=jane)).status == 403
    reply = await it.request("POST", "dispatch/machines", {"report": {"machines": [1]}})
    assert reply.status == 422


async def test_the_anonymous_user_sees_neither_machines_nor_health(tmp_path: Path) -> None:
    async with world(tmp_path, Users={"AnonymousUserToken": "public"}) as it:
        for path in ("dispatch/machines", "health"):
            assert (await it.request("GET", path, token="public")).status == 403
            assert (await it.request("GET", path, token="")).status in (401, 403)
