"""What crates are made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from lading.client.api import ApiClient
from lading.client.provenance.crate_sources import (
    ended_in_order,
    read_steps,
    read_tree,
    rows_by_field,
)
from lading.core.data import filetree
from lading.core.errors import Conflict
from lading.testing.world import World
from tests.cli.site import Site

_Answer = TypeVar("_Answer")


def ask(stage: Site, action: Callable[[ApiClient], Awaitable[_Answer]]) -> _Answer:
    """The answer of an action with a client of the stage."""

    async def session() -> _Answer:
        async with stage.connect() as held:
            return await action(held.api)

    return stage.call(session())


async def _ran(it: World, *command: str) -> str:
    request = await it.submit(*command, use_existing=False)
    await it.run(request["container_uuid"])
    return str(request["uuid"])


def test_steps_come_in_the_order_in_which_they_were_made(stage: Site) -> None:
    first, second = (stage.call(_ran(stage.world, name)) for name in "ab")

    async def steps(api: ApiClient) -> list[tuple[str, str]]:
        order = await ended_in_order(api, [second, first])
        pages = [page async for page in read_steps(api, order)]
        return [(one.request["uuid"], one.agent) for page in pages for one in page]

    found = ask(stage, steps)
    assert [uuid for uuid, _ in found] == [first, second]
    assert all(agent for _, agent in found)


def test_a_request_that_has_not_ended_is_named(stage: Site) -> None:
    uuid = stage.call(stage.world.submit("waits"))["uuid"]
    with pytest.raises(Conflict, match=f"{uuid}: has not run"):
        ask(stage, lambda api: ended_in_order(api, [uuid]))


def test_files_of_a_content(stage: Site) -> None:
    stored = stage.call(stage.world.collection({"a/b": b"1"}))
    tree = ask(stage, lambda api: read_tree(api, stored["portable_data_hash"]))
    assert [name for name, _ in filetree.files(tree)] == ["a/b"]
    # By its uuid, too.
    assert ask(stage, lambda api: read_tree(api, stored["uuid"])) is not None
    with pytest.raises(Conflict, match="cannot be exported"):
        ask(stage, lambda api: read_tree(api, f"{'0' * 32}+9"))


def test_rows_of_many_values(stage: Site) -> None:
    uuids = [stage.call(stage.world.collection({"x": b"1"}))["uuid"] for _ in range(3)]
    rows = ask(stage, lambda api: rows_by_field(api, "collections", "uuid", uuids * 60, ("uuid",)))
    assert {one["uuid"] for one in rows} == set(uuids)
