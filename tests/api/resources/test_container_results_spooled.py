"""The log of a container whose supervisor is lost."""

from __future__ import annotations

from lading.core.containers.container import TUNNEL
from lading.core.records.schema import Record
from lading.testing.world import World

LOST = {"state": "Cancelled", "runtime_status": {"error": "gone", "failure": "node"}}


async def started(it: World) -> tuple[Record, str, str]:
    """A request, its container, and the token of the supervisor, which has written a line."""
    request = await it.submit()
    uuid = str(request["container_uuid"])
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    it.app.services.access.spool.append(uuid, "stdout.txt", b"so far\n", offset=0)
    return request, uuid, supervisor


async def test_what_a_lost_supervisor_had_logged_is_saved_by_the_end_of_the_record(
    it: World,
) -> None:
    request, uuid, _ = await started(it)
    ended = await it.ok("PUT", f"containers/{uuid}", LOST, token=it.dispatcher)
    assert ended["log"] is not None
    saved = await it.ok("GET", f"container_requests/{request['uuid']}")
    assert saved["log_uuid"] is not None
    kept = await it.ok("GET", f"collections/{saved['log_uuid']}")
    assert kept["manifest_text"].endswith(" 0:7:stdout.txt\n")
    assert f"log\\040for\\040container\\040{uuid}" in kept["manifest_text"]


async def test_a_supervisor_that_lives_saves_its_own_log(it: World) -> None:
    _, uuid, supervisor = await started(it)
    ended = await it.ok("PUT", f"containers/{uuid}", LOST, token=supervisor)
    assert ended["log"] is None


async def test_a_live_log_that_cannot_be_saved_does_not_keep_the_container(it: World) -> None:
    _, uuid, _ = await started(it)
    it.blocks.full = True
    ended = await it.ok("PUT", f"containers/{uuid}", LOST, token=it.dispatcher)
    assert (ended["state"], ended["log"]) == ("Cancelled", None)


async def test_the_last_words_of_a_lost_supervisor_are_noted(it: World) -> None:
    _, uuid, supervisor = await started(it)
    await it.ok("PUT", f"containers/{uuid}", LOST, token=supervisor)
    query = {"filters": [["object_uuid", "=", uuid], ["event_type", "=", "cleaned_up_crashed"]]}
    (row,) = (await it.ok("GET", "logs", params=query))["items"]
    assert row["properties"]["text"] == "Cancelled: gone"


async def test_a_server_that_had_the_log_and_is_gone_does_not_keep_the_container(
    it: World,
) -> None:
    request = await it.submit()
    uuid = str(request["container_uuid"])
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    async with it.database.writing() as tx:
        gone = f"{TUNNEL} https://127.0.0.1:1/"
        await tx.execute("UPDATE containers SET gateway_address = ? WHERE uuid = ?", (gone, uuid))
    ended = await it.ok("PUT", f"containers/{uuid}", LOST, token=it.dispatcher)
    assert (ended["state"], ended["log"]) == ("Cancelled", None)
