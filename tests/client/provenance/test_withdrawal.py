"""Results that are withdrawn, and what was made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.client.api import ApiClient, Record
from lading.client.provenance.withdrawal import (
    change_all,
    made_from,
    results_from,
    results_of_request,
)
from lading.core.errors import NotFound
from lading.core.ids import EMPTY_PDH
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world

OUT: Record = {"/out": {"kind": "tmp", "capacity": 1000}}


async def _step(here: World, name: str, reads: str, output: bytes) -> Record:
    mount = {"/in": {"kind": "collection", "portable_data_hash": reads}}
    request = await here.submit(name, name=name, mounts={**OUT, **mount}, use_existing=False)
    made = await here.collection({"x": output})
    return await here.run(request["container_uuid"], output=made["portable_data_hash"])


async def _request(here: World, container: Record) -> Record:
    filters = [["container_uuid", "=", container["uuid"]]]
    answer = await here.ok("GET", "container_requests", params={"filters": filters})
    found: Record = answer["items"][0]
    return found


async def test_twins_and_what_was_made_from_them(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        api = ApiClient(AsgiTransport(here.app), here.admin)
        source = str((await here.collection({"s": b"s"}))["portable_data_hash"])
        one = await _step(here, "clean", source, b"1")
        twin = await _step(here, "clean", source, b"1")
        await _step(here, "clean", source, b"2")
        plot = await _step(here, "plot", one["output"], b"p")
        results = await results_of_request(api, await _request(here, one))
        assert [each.container["uuid"] for each in results] == [one["uuid"], twin["uuid"]]
        below = await made_from(api, results)
        assert [each.name for each in below] == ["plot"]
        assert below[0].container["uuid"] == plot["uuid"]
        assert len(await results_from(api, source)) == 3
        done, refused = await change_all(api, results, reason="bad")
        assert (len(done), refused) == (2, [])
        assert (await api.get("containers", twin["uuid"]))["withdrawn_reason"] == "bad"


async def test_what_has_no_result_or_says_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        api = ApiClient(AsgiTransport(here.app), here.admin)
        draft = await here.submit("x", state="Uncommitted")
        with pytest.raises(NotFound, match="no result to withdraw"):
            await results_of_request(api, draft)
        request = await here.submit("empty")
        await here.collection({})
        await here.run(request["container_uuid"], output=EMPTY_PDH)
        results = await results_of_request(
            api, await api.get("container_requests", request["uuid"])
        )
        assert await made_from(api, results) == []


async def test_what_the_caller_may_not_change(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        source = str((await here.collection({"s": b"s"}))["portable_data_hash"])
        one = await _step(here, "clean", source, b"1")
        reader = await here.user("r")
        api = ApiClient(AsgiTransport(here.app), here.admin)
        me = (await here.ok("GET", "users/current", token=reader))["uuid"]
        project = await here.ok("POST", "groups", {"name": "p", "group_class": "project"})
        request = await _request(here, one)
        await here.ok(
            "PUT", f"container_requests/{request['uuid']}", {"owner_uuid": project["uuid"]}
        )
        link = {"link_class": "permission", "name": "can_read", "tail_uuid": me}
        await here.ok("POST", "links", {**link, "head_uuid": project["uuid"]})
        results = await results_of_request(api, request)
        theirs = ApiClient(AsgiTransport(here.app), reader)
        done, refused = await change_all(theirs, results, reason="bad")
        assert (done, len(refused)) == ([], 1)
