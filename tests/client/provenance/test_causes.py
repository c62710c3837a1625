"""Causes of differences, through the steps that made the inputs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.provenance.causes import Causes, find_causes, side_of
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world

OUT: Record = {"/out": {"kind": "tmp", "capacity": 1000}}


class _Pipelines:
    """Pipelines of three steps in a world."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.api = ApiClient(AsgiTransport(here.app), here.admin)

    async def run(self, name: str, output: bytes, reads: str = "", **more: Any) -> Record:
        """One step that has run; the request."""
        mount = {"/in": {"kind": "collection", "portable_data_hash": reads}} if reads else {}
        request = await self.here.submit(
            name, name=name, mounts={**OUT, **mount}, use_existing=False, **more
        )
        made = await self.here.collection({"x": output})
        await self.here.run(request["container_uuid"], output=made["portable_data_hash"])
        found: Record = await self.here.ok("GET", f"container_requests/{request['uuid']}")
        return found

    async def pipeline(self, mark: bytes, **first: Any) -> Record:
        """Three steps, of which the first one has other attributes; the last request."""
        reads = ""
        for number in range(3):
            made = await self.run(f"step{number}", mark + b"%d" % number, reads, **first)
            reads, first = await self.output(made), {}
        return made

    async def output(self, request: Record) -> str:
        """The hash of the output of a request."""
        return str((await self.here.ok("GET", f"containers/{request['container_uuid']}"))["output"])

    async def causes(self, ours: Record, theirs: Record, **more: Any) -> Causes:
        """The causes of their difference."""
        sides = [await side_of(self.api, one) for one in (ours, theirs)]
        return await find_causes(self.api, *sides, **more)


@pytest.fixture
async def lines(tmp_path: Path) -> AsyncIterator[_Pipelines]:
    async with world(tmp_path) as here:
        yield _Pipelines(here)


async def test_the_cause_is_found_two_steps_above(lines: _Pipelines) -> None:
    theirs = await lines.pipeline(b"a", environment={"Q": "1"})
    ours = await lines.pipeline(b"b", environment={"Q": "2"})
    found = await lines.causes(ours, theirs)
    assert [(one.name, one.fields != (), one.explained) for one in found.steps] == [
        ("step2", False, ("/in",)),
        ("step1", False, ("/in",)),
        ("step0", True, ()),
    ]
    assert found.first is not None
    assert str(found.first.fields[0].field) == "environment.Q"
    assert not found.is_cut
    some = await lines.causes(ours, theirs, most=1)
    assert (len(some.steps), some.is_cut, some.first) == (1, True, None)


async def test_a_step_that_does_not_repeat_is_the_cause(lines: _Pipelines) -> None:
    found = await lines.causes(await lines.pipeline(b"a"), await lines.pipeline(b"b"))
    assert found.first is not None
    assert (found.first.name, found.first.repeats) == ("step0", False)


async def test_inputs_of_unknown_origin_are_causes_themselves(lines: _Pipelines) -> None:
    pdhs = [(await lines.here.collection({"x": one}))["portable_data_hash"] for one in (b"1", b"2")]
    ours, theirs = [await lines.run("x", one.encode(), one) for one in pdhs]
    found = await lines.causes(ours, theirs)
    assert found.first is not None
    assert found.first.fields[0].field.startswith("mounts./in")


async def test_equal_requests_have_no_cause(lines: _Pipelines) -> None:
    one, two = await lines.pipeline(b"a"), await lines.pipeline(b"a")
    assert (await lines.causes(one, two)).first is None
    waiting = await lines.here.submit("later")
    assert (await lines.causes(waiting, waiting)).first is None
