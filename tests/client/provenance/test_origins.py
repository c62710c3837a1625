"""All requests that led to a result."""

from __future__ import annotations

from pathlib import Path

from lading.client.api import ApiClient
from lading.client.provenance.origins import find_origins
from lading.testing.asgi import AsgiTransport
from lading.testing.world import world


async def test_what_was_read_and_what_was_needed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        out = {"/out": {"kind": "tmp", "capacity": 1000}}
        reads: dict[str, object] = {}
        made = []
        for name in ("first", "second", "third"):
            request = await here.submit(name, mounts={**out, **reads})
            output = await here.collection({"x": name.encode()})
            await here.run(request["container_uuid"], output=output["portable_data_hash"])
            pdh = output["portable_data_hash"]
            reads = {"/in": {"kind": "collection", "portable_data_hash": pdh}}
            made.append(request["uuid"])
        other = await here.submit("stranger")
        needs = [made[2], other["uuid"]]
        last = (await here.submit("last", mounts={**out, **reads}, depends_on=needs))["uuid"]
        api = ApiClient(AsgiTransport(here.app), here.admin)
        found = await find_origins(api, last)
        assert found[0] == last
        assert sorted(found) == sorted([last, other["uuid"], *made])
        assert await find_origins(api, made[0]) == [made[0]]
