"""Metrics of a server: what it counts, and the figures that it reads at a scrape."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from lading.api.server.blocks import STORAGE
from lading.api.server.wait_statuses import STATUSES
from lading.core.quantities import format_time
from lading.core.records.schema import Record
from lading.core.scheduling.wait_reasons import WaitReason
from lading.testing.world import World

MANAGEMENT = "m" * 50


async def scrape(it: World) -> dict[str, float]:
    """The samples by name and values of labels: `name value`."""
    reply = await it.request("GET", "/metrics", token=MANAGEMENT)
    assert reply.status == 200
    return {
        " ".join((one.name, *one.labels.values())): one.value
        for family in text_string_to_metric_families(reply.body.decode())
        for one in family.samples
    }


async def test_the_life_of_a_container_is_timed(it: World) -> None:
    uuid = (await it.submit("true"))["container_uuid"]
    # The clock of the world moves by itself a little with each look.
    it.clock.advance(40)
    supervisor = await it.lock(uuid)
    it.clock.advance(3)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    it.clock.advance(120)
    end = {"state": "Complete", "exit_code": 0, "usage": {"cpu": 90.5}, "cost": 0.25}
    await it.ok("PUT", f"containers/{uuid}", end, token=supervisor)
    found = await scrape(it)
    assert found["lading_container_wait_seconds_count"] == 1
    assert 40 <= found["lading_container_wait_seconds_sum"] < 41
    assert 3 <= found["lading_container_start_seconds_sum"] < 4
    assert 120 <= found["lading_container_run_seconds_sum"] < 121
    assert found["lading_containers_ended_total success"] == 1
    assert found["lading_container_cpu_seconds_total"] == 90.5
    assert found["lading_container_cost_dollars_total"] == 0.25


async def test_without_listeners_their_number_is_zero(it: World) -> None:
    assert (await scrape(it))["lading_event_listeners"] == 0


async def test_a_second_attempt_counts_no_second_wait(it: World) -> None:
    uuid = (await it.submit("true"))["container_uuid"]
    for _ in range(2):
        await it.lock(uuid)
        await it.ok("POST", f"containers/{uuid}/unlock", token=it.dispatcher)
    found = await scrape(it)
    assert found["lading_container_wait_seconds_count"] == 1
    assert found["lading_containers_returned_total"] == 2


async def test_ends_are_counted_by_outcome(it: World) -> None:
    ends: list[Record] = [
        {"state": "Complete", "exit_code": 3},
        {"state": "Cancelled", "runtime_status": {"error": "e", "failure": "user"}},
        {"state": "Cancelled", "runtime_status": {"error": "e"}},
    ]
    for number, end in enumerate(ends):
        uuid = (await it.submit(f"c{number}", container_count_max=1))["container_uuid"]
        token = await it.lock(uuid)
        await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=token)
        await it.ok("PUT", f"containers/{uuid}", end, token=token)
    # One that never ran.
    last = await it.submit("c9")
    await it.ok("POST", f"container_requests/{last['uuid']}/cancel")
    found = await scrape(it)
    assert found["lading_containers_ended_total exit code"] == 1
    assert found["lading_containers_ended_total user"] == 1
    assert found["lading_containers_ended_total cancelled"] == 2
    assert found["lading_container_run_seconds_count"] == 3


async def test_reuse_is_counted_by_decision(it: World) -> None:
    first = await it.submit("true")
    await it.submit("true")
    await it.run(first["container_uuid"])
    await it.submit("true")
    await it.submit("true", use_existing=False)
    found = await scrape(it)
    assert {
        decision: found[f"lading_reuse_decisions_total {decision}"]
        for decision in ("reused", "joined", "new", "not asked")
    } == {"reused": 1, "joined": 1, "new": 1, "not asked": 1}


async def test_a_refused_request_counts_nothing(it: World) -> None:
    spec = await it.spec("true", filters=[["uuid", "=", "zzzzz-dz642-000000000000000"]])
    body = {"container_request": {**spec, "state": "Committed", "priority": 1}}
    assert (await it.request("POST", "container_requests", body)).status == 422
    found = await scrape(it)
    assert found["lading_reuse_decisions_total new"] == 0


async def test_the_queue_by_state_and_reason(it: World) -> None:
    uuids = [(await it.submit(f"c{number}"))["container_uuid"] for number in range(3)]
    held = await it.submit("c3")
    await it.ok("PUT", f"container_requests/{held['uuid']}", {"priority": 0})
    await it.lock(uuids[2])
    said = {
        uuids[0]: WaitReason("quota", "The quota is 1."),
        uuids[1]: WaitReason("zucchini", "A word of another program."),
    }
    statuses = it.app.services.features[STATUSES]
    await statuses.report("d1", said, it.app.services.clock.now())
    found = await scrape(it)
    assert {
        name: found[f"lading_containers {name}"] for name in ("Queued", "On hold", "Locked")
    } == {"Queued": 2, "On hold": 1, "Locked": 1}
    assert found["lading_containers Running"] == 0
    assert found["lading_containers_waiting quota"] == 1
    assert found["lading_containers_waiting other"] == 1
    assert found["lading_containers_waiting capacity"] == 0
    assert found["lading_dispatchers"] == 1


async def test_scrapes_in_a_row_read_the_database_once(it: World) -> None:
    before = await scrape(it)
    await it.submit("true")
    assert (await scrape(it))["lading_containers Queued"] == before["lading_containers Queued"] == 0
    it.clock.advance(30)
    assert (await scrape(it))["lading_containers Queued"] == 1


async def test_statuses_that_are_withdrawn_count_no_more(it: World) -> None:
    statuses = it.app.services.features[STATUSES]
    now = format_time(it.clock())
    quota, large = WaitReason("quota", "Q."), WaitReason("too large", "T.")

    async def reasons(at: str = now) -> tuple[dict[str, int], int]:
        async with it.database.reading() as tx:
            found = await statuses.counts(tx, at)
        return {name: count for name, count in found.reasons.items() if count}, found.dispatchers

    await statuses.report("d1", {"a": quota, "b": quota}, now)
    await statuses.report("d2", {"a": large}, now)
    assert await reasons() == ({"quota": 2, "too large": 1}, 2)
    await statuses.report("d1", {"a": large, "b": quota}, now)
    assert await reasons() == ({"quota": 1, "too large": 2}, 2)
    await statuses.report("d1", {"b": None, "unknown": None}, now)
    assert await reasons() == ({"too large": 2}, 2)
    async with it.database.writing() as tx:
        await statuses.forget(tx, ["a"])
    assert await reasons() == ({}, 2)
    await statuses.report("d1", {"b": quota}, now)
    late = format_time(it.clock().replace(year=it.clock().year + 1))
    assert await reasons(late) == ({}, 0)


async def test_volumes_are_shown_with_their_space(it: World) -> None:
    async def storage() -> Record:
        one = {"uuid": "v1", "total": 100, "free": 20, "faults": 3, "damaged": 1}
        return {"volumes": [one, {**one, "uuid": "s3", "total": None, "free": None}]}

    it.app.services.features[STORAGE] = storage
    found = await scrape(it)
    assert found["lading_volume_size_bytes v1"] == 100
    assert found["lading_volume_free_bytes v1"] == 20
    assert found["lading_volume_faults s3"] == 3
    assert "lading_volume_free_bytes s3" not in found


def test_deliveries_are_counted_by_outcome() -> None:
    from lading.api.metrics import ServerMetrics

    metrics = ServerMetrics()
    metrics.note_delivery(is_good=True, is_dead=False)
    metrics.note_delivery(is_good=False, is_dead=False)
    metrics.note_delivery(is_good=False, is_dead=True)
    for outcome in ("delivered", "failed", "dead letter"):
        name, labels = "lading_webhook_deliveries_total", {"outcome": outcome}
        assert metrics.registry.get_sample_value(name, labels) == 1
