"""Requests that belong together."""

from __future__ import annotations

from lading.client.api import ApiClient
from lading.web.graphs.tree import find_tree, needed
from tests.web.site import PageSite

UUID = "zzzzz-xvhdp-000000000000000"
OTHER = "zzzzz-xvhdp-000000000000001"


def test_requests_that_are_needed() -> None:
    mounts = {"/in": {"container_request": OTHER}, "/x": {"kind": "tmp"}}
    assert list(needed({"depends_on": [UUID, "x"], "mounts": mounts})) == [UUID, OTHER]
    assert list(needed({"depends_on": None, "mounts": None})) == []


async def test_all_pages_of_a_step_are_found_and_a_cut_is_told(here: PageSite) -> None:
    world = here.world
    before = [(await world.submit(str(number)))["uuid"] for number in range(5)]
    last = (await world.submit("last", depends_on=before))["uuid"]
    api = ApiClient(here.files.transport, world.admin)
    whole = await find_tree(api, last, page=2)
    assert [one.request["uuid"] for one in whole.outcomes] == [last, *before]
    assert not whole.is_cut
    some = await find_tree(api, last, most=3, page=2)
    assert (len(some.outcomes), some.is_cut) == (3, True)
