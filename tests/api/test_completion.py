"""Collections that the server makes."""

from __future__ import annotations

from pathlib import Path

from lading.api.completion import keep, keep_one
from lading.api.unit import Unit
from lading.core.containers.finalize import CollectionPlan, Keeps, Piece
from lading.testing.world import World, world


def plan(
    pdh: str, *, uuid: str | None = None, owner: str = "o", directory: str = ""
) -> CollectionPlan:
    return CollectionPlan(
        keeps=Keeps.LOG,
        uuid=uuid,
        name="n",
        owner_uuid=owner,
        properties={},
        storage_classes=[],
        trash_at=None,
        pieces=(Piece(pdh, directory),),
    )


async def test_made_renewed_and_left_alone(it: World) -> None:
    one, two = [(await it.collection({name: b"x"}))["portable_data_hash"] for name in "ab"]
    services = it.app.services
    async with it.database.writing() as tx:
        unit = Unit(tx, services, user_uuid="u")
        uuid = await keep_one(unit, plan(one))
        assert uuid is not None
        assert await keep_one(unit, plan(one, uuid=uuid)) == uuid
        assert await keep_one(unit, plan(two, uuid=uuid)) == uuid
        assert await keep_one(unit, plan(f"{'0' * 32}+5")) is None
        placed = await keep_one(unit, plan(one, directory="d"))
    assert (await it.ok("GET", f"collections/{uuid}"))["portable_data_hash"] == two
    assert (await it.ok("GET", f"collections/{placed}"))["unsigned_manifest_text"].startswith(
        "./d "
    )
    assert (await it.ok("GET", f"collections/{placed}"))["name"].startswith("n (")


async def test_names_are_made_distinct_among_those_made_together(it: World) -> None:
    pdh = (await it.collection({"a": b"x"}))["portable_data_hash"]
    services = it.app.services
    async with it.database.writing() as tx:
        unit = Unit(tx, services, user_uuid="u")
        missing = plan(f"{'0' * 32}+5")
        one, none, other = await keep(unit, [plan(pdh), missing, plan(pdh)])
    assert none is None
    assert (await it.ok("GET", f"collections/{one}"))["name"] == "n"
    assert (await it.ok("GET", f"collections/{other}"))["name"].startswith("n (")


async def test_outputs_without_a_name_live_as_long_as_configured(tmp_path: Path) -> None:
    async with world(tmp_path, Containers={"OutputRetention": 60}) as it:
        found = []
        for name in (None, "mine"):
            made = await it.submit("echo", str(name), output_name=name)
            await it.run(made["container_uuid"])
            made = await it.ok("GET", f"container_requests/{made['uuid']}")
            output = await it.ok("GET", f"collections/{made['output_uuid']}")
            found.append(output["trash_at"] is not None)
        assert found == [True, False]


async def test_what_a_retention_took_is_computed_again(tmp_path: Path) -> None:
    async with world(tmp_path, Containers={"OutputRetention": 60}) as it:
        made = await it.submit("echo")
        await it.run(made["container_uuid"])
        assert (await it.submit("echo"))["container_uuid"] == made["container_uuid"]
        it.clock.advance(61)
        assert (await it.submit("echo"))["container_uuid"] != made["container_uuid"]
