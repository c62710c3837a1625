"""Requests that belong together."""

from __future__ import annotations

from pathlib import Path

from lading.client.api import ApiClient
from lading.client.provenance.request_tree import find_tree, needed
from lading.testing.asgi import AsgiTransport
from lading.testing.world import world

UUID = "zzzzz-xvhdp-000000000000000"
OTHER = "zzzzz-xvhdp-000000000000001"


def test_requests_that_are_needed() -> None:
    mounts = {"/in": {"container_request": OTHER}, "/x": {"kind": "tmp"}}
    assert list(needed({"depends_on": [UUID, "x"], "mounts": mounts})) == [UUID, OTHER]
    assert list(needed({"depends_on": None, "mounts": None})) == []


async def test_all_pages_of_a_step_are_found_and_a_cut_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        before = [(await here.submit(str(number)))["uuid"] for number in range(5)]
        last = (await here.submit("last", depends_on=before))["uuid"]
        api = ApiClient(AsgiTransport(here.app), here.admin)
        whole = await find_tree(api, last, page=2)
        assert [one.request["uuid"] for one in whole.outcomes] == [last, *before]
        assert not whole.is_cut
        some = await find_tree(api, last, most=3, page=2)
        assert (len(some.outcomes), some.is_cut) == (3, True)


async def test_a_reader_by_content_finds_the_request_of_its_run(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        out = {"/out": {"kind": "tmp", "capacity": 1000}}
        first = await here.submit("sort", name="first", mounts=out)
        output = await here.collection({"x": b"sorted"})
        pdh = output["portable_data_hash"]
        await here.run(first["container_uuid"], output=pdh)
        here.clock.advance(60)
        # The pipeline runs again: this one has the result of the first.
        again = await here.submit("sort", name="again", mounts=out)
        reads = {**out, "/in": {"kind": "collection", "portable_data_hash": pdh}}
        report = (await here.submit("report", name="report", mounts=reads))["uuid"]
        here.clock.advance(60)
        await here.submit("sort", name="later", mounts=out)
        api = ApiClient(AsgiTransport(here.app), here.admin)
        plain = await find_tree(api, report)
        assert [one.request["uuid"] for one in plain.outcomes] == [report]
        tree = await find_tree(api, report, by_content=True)
        assert [one.request["name"] for one in tree.outcomes] == ["report", "again"]
        assert tree.needs_of(tree.outcomes[0].request) == (again["uuid"],)
