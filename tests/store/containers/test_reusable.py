"""Containers whose results may be reused."""

from __future__ import annotations

from typing import Any

from lading.core.containers.recipe import ReuseKey
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Column, Compare, Expression
from lading.core.records.permissions import Requested
from lading.core.records.record_types import COLLECTIONS, LINKS
from lading.core.records.schema import Type
from lading.store import permissions, records
from lading.store.containers import reusable
from lading.store.database import Database, Transaction
from tests.records import make_container


async def test_candidates_come_in_a_useful_order(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, state, code, finished in (
            ("bad", "Complete", 1, "1"),
            ("queued", "Queued", None, None),
            ("late", "Complete", 0, "3"),
            ("early", "Complete", 0, "2"),
        ):
            row = {
                "uuid": uuid,
                "state": state,
                "exit_code": code,
                "finished_at": finished,
                "log": uuid,
                "output": uuid,
            }
            await records.insert(tx, CONTAINERS, {**row, "broad_key": "b", "reuse_key": "k"})
        for uuid, trash_at in (("early", None), ("late", "9"), ("bad", "5")):
            row = {
                "uuid": uuid,
                "portable_data_hash": uuid,
                "trash_at": trash_at,
                "owner_uuid": "u",
            }
            await records.insert(tx, COLLECTIONS, row)
        await records.insert(
            tx, CONTAINERS, {"uuid": "other size", "broad_key": "b", "reuse_key": "l"}
        )
        found = await reusable.candidates(
            tx, database.dialect, [ReuseKey("b", "k"), ReuseKey("b", "other")], reader=None, now="5"
        )
        any_size = await reusable.candidates(
            tx, database.dialect, [ReuseKey("b", None)], reader=None, now="5"
        )
    assert [one.record["uuid"] for one in found] == ["early", "late", "queued", "bad"]
    assert (
        [one.log_present for one in found]
        == [one.output_present for one in found]
        == [True, True, False, False]
    )
    assert {one.record["uuid"] for one in any_size} == {
        "early",
        "late",
        "queued",
        "bad",
        "other size",
    }


async def _results_of(tx: Transaction, owner: str, *uuids: str) -> None:
    """Containers that a user ran, each with its request, its log and its output."""
    for uuid in uuids:
        row = {
            "uuid": uuid,
            "state": "Complete",
            "exit_code": 0,
            "finished_at": uuid,
            "log": f"log {uuid}",
            "output": f"output {uuid}",
            "broad_key": "b",
            "runtime_user_uuid": owner,
        }
        await records.insert(tx, CONTAINERS, row)
        request = {"uuid": f"request {uuid}", "container_uuid": uuid, "owner_uuid": owner}
        await records.insert(tx, REQUESTS, request)
        for content in (row["log"], row["output"]):
            held = {"uuid": f"of {content}", "portable_data_hash": content, "owner_uuid": owner}
            await records.insert(tx, COLLECTIONS, held)


async def _share(tx: Transaction, reader: str, head: str) -> None:
    link = {
        "uuid": f"link {head}",
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": reader,
        "head_uuid": head,
    }
    await records.insert(tx, LINKS, link)
    await permissions.change_link(tx, reader, head)


async def test_candidates_that_concern_a_reader(database: Database) -> None:
    async def found(tx: Transaction, reader: str | None, *filters: Expression) -> dict[str, Any]:
        rows = await reusable.candidates(
            tx, database.dialect, [ReuseKey("b", None)], filters, reader=reader, now="5"
        )
        return {
            one.record["uuid"]: (one.log_present, one.output_present, one.shown) for one in rows
        }

    whole = (True, True, True)
    async with database.writing() as tx:
        for user in ("me", "you"):
            await permissions.add_user(tx, user)
        await _results_of(tx, "you", "1", "2", "3")
        await _results_of(tx, "me", "4")
        waiting = {"uuid": "5", "state": "Queued", "broad_key": "b", "runtime_user_uuid": "you"}
        await records.insert(tx, CONTAINERS, waiting)
        mine, live = {"4": whole}, {"5": (False, False, False)}
        assert await found(tx, "me") == mine | live
        assert await found(tx, "you") == dict.fromkeys("123", whole) | {"5": (False, False, True)}
        assert await found(tx, None) == dict.fromkeys("1234", whole) | {"5": (False, False, True)}
        # The log without the output is not enough.
        await _share(tx, "me", "of log 1")
        assert await found(tx, "me") == mine | live
        await _share(tx, "me", "of output 1")
        assert await found(tx, "me") == mine | live | {"1": (True, True, False)}
        # A request shows its container, whose results are not readable for that.
        await _share(tx, "me", "request 2")
        shown = mine | {"2": (False, False, True)}
        assert await found(tx, "me") == shown | live | {"1": (True, True, False)}
        # Filters are compared with containers alone that the reader can read.
        anything = Compare(Column("runtime_user_uuid", Type.STRING), "!=", "nobody")
        assert await found(tx, "me", anything) == shown
        yours = Compare(Column("runtime_user_uuid", Type.STRING), "=", "you")
        assert await found(tx, "me", yours) == {"2": (False, False, True)}
        one = await reusable.candidate(tx, database.dialect, "1", reader="me", now="5")
        assert one is not None
        assert (one.record["uuid"], one.log_present, one.shown) == ("1", True, False)
        assert await reusable.candidate(tx, database.dialect, "9", reader="me", now="5") is None


async def test_the_readers_own_candidates_come_first(database: Database) -> None:
    async with database.writing() as tx:
        for user in ("me", "you"):
            await permissions.add_user(tx, user)
        for number in range(reusable.CANDIDATES + 1):
            row = {"uuid": str(number), "state": "Queued", "broad_key": "b"}
            await records.insert(tx, CONTAINERS, {**row, "runtime_user_uuid": "you"})
        mine = {"uuid": "mine", "state": "Queued", "broad_key": "b", "runtime_user_uuid": "me"}
        await records.insert(tx, CONTAINERS, mine)
        found = await reusable.candidates(
            tx, database.dialect, [ReuseKey("b", None)], reader="me", now="5"
        )
    assert (found[0].record["uuid"], len(found)) == ("mine", reusable.CANDIDATES)


async def test_earlier(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, image in (("1", "i"), ("2", "i"), ("3", "i"), ("0", "other"), ("4", "other")):
            await records.insert(
                tx, CONTAINERS, {"uuid": uuid, "created_at": uuid, "container_image": image}
            )
        found = await reusable.earlier(tx, database.dialect, "3", "i", ())
    assert {row["uuid"] for row in found} == {"1", "2"}


async def test_earlier_containers_that_the_reader_can_read(database: Database) -> None:
    async with database.writing() as tx:
        await permissions.add_user(tx, "me")
        for uuid, owner in (("1", "me"), ("2", "somebody else"), ("3", "me")):
            row = {"uuid": uuid, "created_at": uuid, "container_image": "i"}
            await records.insert(tx, CONTAINERS, row)
            request = {"uuid": f"r{uuid}", "container_uuid": uuid, "owner_uuid": owner}
            await records.insert(tx, REQUESTS, request)
        readable = [Requested("me", "9")]
        found = await reusable.earlier(tx, database.dialect, "9", "i", readable)
    assert {row["uuid"] for row in found} == {"1", "3"}


async def test_the_readers_of_the_latest_containers_alone_are_examined(database: Database) -> None:
    async with database.writing() as tx:
        await permissions.add_user(tx, "me")
        for number in range(reusable.WINDOW + 1):
            row = {"uuid": str(number), "created_at": f"{number:03d}", "container_image": "i"}
            await records.insert(tx, CONTAINERS, row)
        for uuid in ("0", "1"):
            request = {"uuid": f"r{uuid}", "container_uuid": uuid, "owner_uuid": "me"}
            await records.insert(tx, REQUESTS, request)
        readable = [Requested("me", "9")]
        found = await reusable.earlier(tx, database.dialect, "9", "i", readable)
    assert [row["uuid"] for row in found] == ["1"]


async def test_older_containers_get_their_broad_keys(database: Database) -> None:
    made = make_container().to_record()
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {**made, "broad_key": None})
        await records.insert(tx, CONTAINERS, {"uuid": "bare"})
        await reusable.fill_broad_keys(tx)
        found = await records.get(tx, CONTAINERS, str(made["uuid"]))
    assert found is not None
    assert found["broad_key"] == made["broad_key"]
