"""Rows that are made in bulk are those that the product would have stored."""

from __future__ import annotations

import json

from bench.api.sample import PROJECTS, Site, name, pdh, readable
from bench.api.templates import bulks, container_uuid, request_uuid, usable
from lading.core.containers import recipe
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS, LOGS
from lading.core.records.schema import Record, RecordType
from lading.testing.world import make_seal

SITE = Site("zzzzz")


async def tables(count: int) -> dict[str, list[Record]]:
    made = await bulks(SITE, make_seal(), count)
    found = {}
    for bulk in made:
        found[bulk.kind.plural] = [
            decoded(bulk.kind, dict(zip(bulk.columns, row, strict=True))) for row in bulk.rows
        ]
        assert len(found[bulk.kind.plural]) == bulk.count
    return found


def decoded(kind: RecordType, row: Record) -> Record:
    nested = kind.by_name
    return {
        key: json.loads(value) if nested[key].nested and value else value
        for key, value in row.items()
    }


async def test_containers_are_found_by_their_keys_and_their_results_are_there() -> None:
    made = await tables(120)
    hashes = {row["portable_data_hash"] for row in made[COLLECTIONS.plural]}
    for number, row in enumerate(made[CONTAINERS.plural]):
        container = Container.from_record(row)
        assert container.state is ContainerState.COMPLETE
        assert (container.exit_code == 0) is usable(number)
        assert recipe.key(recipe.of_container(container)) == container.reuse_key
        assert recipe.broad_key(recipe.of_container(container)) == container.broad_key
        assert {
            container.log,
            container.output,
            container.container_image,
            pdh("reads", number % 100),
        } <= hashes


async def test_requests_have_a_container_an_owner_and_a_name_each() -> None:
    made = await tables(110)
    uuids = {row["uuid"] for row in made[CONTAINERS.plural]}
    for number, row in enumerate(made[REQUESTS.plural]):
        found = ContainerRequest.from_record(row)
        assert (found.uuid, found.container_uuid) == (
            request_uuid(SITE, number),
            container_uuid(SITE, number),
        )
        assert found.container_uuid in uuids
        assert found.name == f"align {name(number)}"
        assert row["owner_uuid"] == SITE.project(number % PROJECTS)
    assert made[LOGS.plural][-1]["object_uuid"] == request_uuid(SITE, 109)
    assert len({(row["owner_uuid"], row["name"]) for row in made[COLLECTIONS.plural]}) == len(
        made[COLLECTIONS.plural]
    )
    assert sum(map(readable, range(PROJECTS))) == 120
