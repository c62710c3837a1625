"""Tools of assistants, beyond what `test_server` tells them by the protocol."""

from __future__ import annotations

import json

import pytest

from lading.cli.assistants.tools import AssistantTools
from lading.core.errors import NotFound
from tests.cli.site import Site


async def test_a_request_with_another_input(site: Site) -> None:
    content = await_collection(site, {"a": b"1"})
    second = await_collection(site, {"a": b"2"})
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "collection", "portable_data_hash": content},
    }
    request = site.call(site.world.submit("again", mounts=mounts))
    async with site.connect() as session:
        tools = AssistantTools(session)
        again = json.loads(await tools.submit_again(request["uuid"], inputs={"/in": second}))
        record = await session.api.get("container_requests", again["request"])
        assert record["mounts"]["/in"]["portable_data_hash"] == second
        with pytest.raises(NotFound):
            await tools.read_log("zzzzz-xvhdp-nosuchrequest00")
        log = json.loads(await tools.read_log(request["uuid"]))
        assert log["lines"]["untrusted"] == []


def await_collection(site: Site, files: dict[str, bytes]) -> str:
    """The portable data hash of a collection."""
    return str(site.call(site.world.collection(files))["portable_data_hash"])
