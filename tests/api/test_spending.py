"""Money of quotas: what is spent, warned of, held and stopped."""

from __future__ import annotations

from lading.api.events import timers
from lading.core.policy.quotas import ALL_SPENT, SHARE_SPENT
from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.test_quotas import quota, runnable, submit, uuid_of, wait_of


async def begin(it: World, request: Record) -> str:
    """Lock the container of a request and let it run; the supervisor's token."""
    supervisor = await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    return supervisor


async def pay(it: World, request: Record, supervisor: str, cost: float) -> None:
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"cost": cost}, token=supervisor)


async def events(it: World, quota_uuid: str, token: str | None = None) -> list[str]:
    filters = [["object_uuid", "=", quota_uuid], ["event_type", "like", "budget%"]]
    found = await it.ok("GET", "logs", params={"filters": filters, "order": ["id"]}, token=token)
    return [one["event_type"] for one in found["items"]]


async def test_money_of_a_period_warns_holds_and_is_there_again(it: World) -> None:
    ada = await it.user("ada")
    found = await quota(it, await uuid_of(it, ada), money=10.0, period="day")
    made = await submit(it, ada, 2)
    supervisor = await begin(it, made[0])
    await pay(it, made[0], supervisor, 7.0)
    assert await events(it, found["uuid"]) == []
    await pay(it, made[0], supervisor, 8.5)
    assert await events(it, found["uuid"]) == ["budget_warning"]

    async def warning() -> str:
        record = await it.ok("GET", f"containers/{made[0]['container_uuid']}")
        return str(record["runtime_status"]["warning"])

    # Readers of the container are told neither whose limit it is, nor what was spent.
    assert await warning() == SHARE_SPENT
    assert await runnable(it, *made) == [0, 1]
    await pay(it, made[0], supervisor, 10.0)
    assert await events(it, found["uuid"]) == ["budget_warning", "budget_end"]
    assert await warning() == ALL_SPENT
    # Its subject gets them, too, and nobody else.
    assert await events(it, found["uuid"], ada) == ["budget_warning", "budget_end"]
    assert await events(it, found["uuid"], await it.user("ben")) == []
    # What runs goes on.
    assert await runnable(it, *made) == [0]
    wait = await wait_of(it, made[1])
    assert wait["reason"] == "budget"
    assert "$10.00 of $10.00 a day are spent; it runs in the next day" in wait["sentence"]
    it.clock.advance(86400)
    await timers.act(it.app.services)
    assert await runnable(it, *made) == [0, 1]


async def test_a_budget_of_a_tree_counts_what_was_spent_and_stops(it: World) -> None:
    ada = await it.user("ada")
    (root,) = await submit(
        it, ada, 1, runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True}
    )
    supervisor = await begin(it, root)
    await pay(it, root, supervisor, 1.0)
    found = await quota(it, root["uuid"], budget=3.0, stop=True)
    own = await it.container_token(root["container_uuid"])
    child, second = await submit(it, own, 2)
    (other,) = await submit(it, ada, 1)
    of_child = await begin(it, child)
    await pay(it, child, of_child, 1.5)
    use = await it.ok("GET", "quotas/uses", params={"uuids": [found["uuid"]]})
    assert use["items"][0]["use"]["budget"] == 2.5
    assert await events(it, found["uuid"]) == ["budget_warning"]
    assert await runnable(it, root, child, second, other) == [0, 1, 2, 3]
    await pay(it, child, of_child, 2.0)
    assert await runnable(it, root, child, second, other) == [3]
    stopped = await it.ok("GET", f"container_requests/{child['uuid']}")
    assert stopped["priority"] == 0
    await it.ok("PUT", f"quotas/{found['uuid']}", {"budget": 9.0})
    assert await runnable(it, other) == [0]


async def test_a_budget_goes_with_its_request(it: World) -> None:
    ada = await it.user("ada")
    api = {"runtime_constraints": {"vcpus": 1, "ram": 1 << 28, "API": True}}
    (root,) = await submit(it, ada, 1, **api)
    supervisor = await begin(it, root)
    await quota(it, root["uuid"], budget=1.0)
    await pay(it, root, supervisor, 1.0)
    own = await it.container_token(root["container_uuid"])
    children = await submit(it, own, 2)
    # Another request keeps the container of the root.
    image = {"container_image": root["container_image"]}
    same = await it.submit(*root["command"], token=ada, **image, **api)
    assert same["container_uuid"] == root["container_uuid"]
    assert await runnable(it, *children) == []
    await it.ok("DELETE", f"container_requests/{root['uuid']}", token=ada)
    assert (await it.ok("GET", "quotas"))["items"] == []
    assert await runnable(it, *children) == [0, 1]
