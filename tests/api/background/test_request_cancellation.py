"""Cancellation of many requests in the background."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from lading.api.background import request_cancellation
from lading.api.background.request_cancellation import CancellationWorker
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import LOGS
from lading.core.records.schema import JSON, Record
from lading.process.concurrency import together
from lading.store import cancellations, fair_shares, records
from lading.testing.world import World, world

_HASH = re.compile(r"(?<=\")[0-9a-f]{64}(?=\")")
_PROGRESS = "container_requests/cancellation"
_UUID = re.compile(r"zzzzz-[0-9a-z]{5}-[0-9a-z]{15}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")
_ETAG = re.compile(r'(?<="(?:old|new)_etag": ")[0-9a-f]{25}')


def worker(it: World, holder: str = "here") -> CancellationWorker:
    return CancellationWorker(it.app.services, holder=holder)


async def ask(it: World, *filters: JSON, token: str | None = None) -> Record:
    body = {"filters": list(filters)}
    made: Record = await it.ok("POST", "container_requests/cancel_matching", body, token=token)
    return made


async def progress(it: World, one: Record, token: str | None = None) -> Record:
    found: Record = await it.ok("GET", _PROGRESS, params={"id": one["id"]}, token=token)
    return found


async def cancel_all(it: World, *filters: JSON, token: str | None = None) -> Record:
    made = await ask(it, *filters, token=token)
    await worker(it).work()
    return await progress(it, made, token=token)


async def states(it: World) -> list[str]:
    listed = await it.ok("GET", "container_requests", params={"order": ["created_at asc"]})
    return [one["state"] for one in listed["items"]]


async def make(it: World, name: str) -> list[Record]:
    """Requests of each kind, whose names begin with `name`."""

    async def add(kind: str, **more: JSON) -> Record:
        more.setdefault("use_existing", False)
        return await it.submit(name, kind, name=f"{name}-{kind}", **more)

    first = await add("plain")
    secret = {"/secret": {"kind": "text", "content": "s"}}
    made = [
        first,
        await add("held", priority=0),
        await add("secret", secret_mounts=secret, properties={"a": 1}),
        await add("dependent", depends_on=[first["uuid"]]),
        await add("late", start_after="2030-01-01T00:00:00.000000000Z"),
        *[await add(f"turn{n}", parallel_group=name, max_parallel=1) for n in range(3)],
        await add("locked"),
        await add("running"),
    ]
    await it.lock(made[-2]["container_uuid"])
    token = await it.lock(made[-1]["container_uuid"])
    path = f"containers/{made[-1]['container_uuid']}"
    await it.ok("PATCH", path, {"container": {"state": "Running"}}, token=token)
    # Two that share a container.
    made += [await add("shared", use_existing=True, command=[name]) for _ in range(2)]
    return made


async def left_by(it: World, made: list[Record], name: str) -> str:
    """All that is stored about requests and their containers, without their uuids and times."""
    uuids: dict[str, str] = {}
    found: list[JSON] = []
    async with it.database.reading() as tx:
        for number, one in enumerate(made):
            row = await records.get(tx, REQUESTS, one["uuid"])
            assert row is not None
            held = await records.get(tx, CONTAINERS, row["container_uuid"] or one["container_uuid"])
            assert held is not None
            for place, record in (("r", row), ("c", held)):
                uuids.setdefault(record["uuid"], f"{place}{number}")
                logs = await records.matching(
                    tx, LOGS, object_uuid=record["uuid"], event_type="update"
                )
                logs.sort(key=lambda log: int(log["id"]))
                found += [record, [{**log, "id": 0, "uuid": "", "shortened": ""} for log in logs]]
    text = json.dumps(found, sort_keys=True)
    text = _UUID.sub(lambda match: uuids.get(match[0], match[0][6:11]), text)
    text = _ETAG.sub("", _TIME.sub("T", text)).replace(name, "NAME")
    # Priorities of containers contain the time.
    return re.sub(r"\b\d{12,}\b", "1", _HASH.sub("", text))


async def test_it_leaves_what_the_call_for_each_leaves(it: World) -> None:
    each, many = await make(it, "each"), await make(it, "many")
    for one in reversed(each):
        await it.ok("POST", f"container_requests/{one['uuid']}/cancel")
    done = await cancel_all(it, ["name", "like", "many%"])
    assert (done["total"], done["cancelled"], done["refused"]) == (12, 12, 0)
    assert (done["error"], done["finished_at"] is not None) == ("", True)
    expected = json.loads(await left_by(it, each, "each"))
    for one, other in zip(json.loads(await left_by(it, many, "many")), expected, strict=True):
        assert one == other


async def test_a_container_that_is_wanted_meanwhile_goes_on(it: World) -> None:
    specs = [await it.spec(str(number), command=[str(number)]) for number in range(40)]
    await it.ok("POST", "container_requests/batch", {"container_requests": specs})
    made = await ask(it)

    async def want() -> None:
        for number in range(0, 40, 2):
            await it.submit(str(number), command=[str(number)])

    small = CancellationWorker(it.app.services, holder="here", sizes=(2, 3))
    await together(small.work(), want())
    assert (await progress(it, made))["cancelled"] == 40
    listed = await it.ok(
        "GET", "container_requests", params={"filters": [["state", "=", "Committed"]]}
    )
    assert len(listed["items"]) == 20
    for one in listed["items"]:
        container = await it.ok("GET", f"containers/{one['container_uuid']}")
        assert container["state"] == "Queued"
        assert container["priority"] > 0


async def test_pages_of_all_kinds_are_cancelled_as_each_is(it: World) -> None:
    each, many = await make(it, "each"), await make(it, "many")
    for one in reversed(each):
        await it.ok("POST", f"container_requests/{one['uuid']}/cancel")
    await ask(it, ["name", "like", "many%"])
    await CancellationWorker(it.app.services, holder="here", sizes=(1, 2)).work()
    expected = json.loads(await left_by(it, each, "each"))
    for one, other in zip(json.loads(await left_by(it, many, "many")), expected, strict=True):
        assert one == other


async def test_what_does_not_match_goes_on(it: World) -> None:
    await it.submit("a", name="a")
    await it.submit("b", name="b")
    draft = await it.spec("d", name="a", state="Uncommitted")
    await it.ok("POST", "container_requests", {"container_request": draft})
    made = await ask(it, ["name", "=", "a"])
    await it.submit("c", name="a")
    await worker(it).work()
    assert (await progress(it, made))["cancelled"] == 1
    assert await states(it) == ["Final", "Committed", "Uncommitted", "Committed"]


async def test_a_page_a_transaction_and_it_goes_on_where_it_was(it: World) -> None:
    for number in range(5):
        await it.submit(str(number), use_existing=False)
    made, services = await ask(it), it.app.services
    async with it.database.writing() as tx:
        one = await cancellations.get(tx, made["id"])
        assert one is not None
        page = await request_cancellation.look(tx, services, one, size=2)
        held = replace(
            await request_cancellation.advance(tx, services, one, page),
            holder="another",
            held_until="2026-01-02T03:04:35.000000000Z",
        )
        await cancellations.put(tx, held)
    async with it.database.reading() as tx:
        stored = await records.find(tx, tx.dialect, REQUESTS, ())
    # Readers are shown all of them as Final.
    assert sorted(row["state"] for row in stored) == ["Committed"] * 3 + ["Final"] * 2
    assert await states(it) == ["Final"] * 5
    await worker(it).work()
    assert (await progress(it, made))["cancelled"] == 2
    # The server that held it is gone.
    it.clock.advance(60)
    await worker(it).work()
    done = await progress(it, made)
    assert (done["total"], done["cancelled"]) == (5, 5)


async def test_events_are_those_of_each(it: World) -> None:
    await it.submit("a")
    with it.app.services.events.bus.listen() as listener:
        await cancel_all(it)
        if not it.database.shared:
            kinds = [(await listener.get()).event.object_uuid[6:11] for _ in range(2)]
            assert kinds == ["xvhdp", "dz642"]


async def test_users_cancel_what_they_may_change(it: World) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    project = await it.ok("POST", "groups", {"group": {"group_class": "project", "name": "p"}})
    me = await it.ok("GET", "users/current", token=alice)
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": me["uuid"],
        "head_uuid": project["uuid"],
    }
    await it.ok("POST", "links", {"link": link})
    await it.submit("shown", owner_uuid=project["uuid"])
    await it.submit("hers", token=alice)
    await it.submit("his", token=bob)
    done = await cancel_all(it, token=alice)
    assert (done["total"], done["cancelled"], done["refused"]) == (2, 1, 1)
    assert await states(it) == ["Committed", "Final", "Committed"]
    theirs = await it.request("GET", _PROGRESS, params={"id": done["id"]}, token=bob)
    assert theirs.status == 404
    assert (await progress(it, done))["cancelled"] == 1


async def test_nothing_in_a_frozen_project_is_cancelled(it: World) -> None:
    project = await it.ok("POST", "groups", {"group": {"group_class": "project", "name": "p"}})
    await it.submit("a", owner_uuid=project["uuid"])
    me = await it.ok("GET", "users/current")
    frozen = {"group": {"frozen_by_uuid": me["uuid"]}}
    await it.ok("PATCH", f"groups/{project['uuid']}", frozen)
    done = await cancel_all(it)
    assert (done["cancelled"], done["refused"]) == (0, 1)


async def test_a_user_who_is_not_active_any_more(it: World) -> None:
    alice = await it.user("alice")
    await it.submit("a", token=alice)
    made = await ask(it, token=alice)
    me = await it.ok("GET", "users/current", token=alice)
    await it.ok("PATCH", f"users/{me['uuid']}", {"user": {"is_active": False}})
    await worker(it).work()
    done = await progress(it, made)
    assert (done["error"], done["cancelled"]) == (
        f"{me['uuid']}: the user is not active any more",
        0,
    )


async def test_quotas_are_followed(it: World) -> None:
    me = await it.ok("GET", "users/current")
    quota = {"subject_uuid": me["uuid"], "containers": 1}
    await it.ok("POST", "quotas", {"quota": quota})
    for number in range(3):
        await it.submit(str(number), use_existing=False)
    await cancel_all(it)
    assert await states(it) == ["Final"] * 3
    async with it.database.reading() as tx:
        for table in ("quota_charges", "quota_waits"):
            assert not await tx.fetch(f"SELECT 1 FROM {table}")


async def test_shares_are_followed(tmp_path: Path) -> None:
    async with world(tmp_path, Containers={"FairShare": {"Enabled": True}}) as it:
        for number in range(3):
            await it.submit(str(number), use_existing=False)
        await cancel_all(it)
        assert await states(it) == ["Final"] * 3
        async with it.database.reading() as tx:
            assert not await fair_shares.waiting(tx, most=1)
