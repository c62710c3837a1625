"""Where content came from and what it was used for, as far as the caller can read."""

from __future__ import annotations

from collections import Counter

import pytest

from lading.core.ids import is_pdh
from lading.core.records.schema import JSON
from lading.testing.world import World
from tests.lineage_graphs import fill_graph


async def test_provenance_and_use(it: World) -> None:
    source = await it.collection({"in": b"data"})
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "collection", "portable_data_hash": source["portable_data_hash"]},
    }
    request = await it.submit("work", mounts=mounts)
    await it.run(request["container_uuid"])
    done = await it.ok("GET", f"container_requests/{request['uuid']}")
    output = await it.ok("GET", f"collections/{done['output_uuid']}")
    image = await it.ensure_image()
    between = {request["uuid"], request["container_uuid"]}
    found = await it.ok("GET", f"collections/{output['uuid']}/provenance")
    assert found.keys() == {output["uuid"], *between, source["portable_data_hash"], image}
    assert found[request["uuid"]]["kind"] == "arvados#containerRequest"
    assert "manifest_text" not in found[source["portable_data_hash"]]
    log = (await it.ok("GET", f"containers/{request['container_uuid']}"))["log"]
    used = await it.ok("GET", f"collections/{source['portable_data_hash']}/used_by")
    assert used.keys() == {
        source["portable_data_hash"],
        *between,
        output["portable_data_hash"],
        log,
    }


async def test_nothing_that_the_caller_cannot_read(it: World) -> None:
    request = await it.submit("work")
    await it.run(request["container_uuid"])
    done = await it.ok("GET", f"container_requests/{request['uuid']}")
    reader = await it.user("u")
    path = f"collections/{done['output_uuid']}/provenance"
    assert (await it.request("GET", path, token=reader)).status == 404
    user = (await it.ok("GET", "users/current", token=reader))["uuid"]
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": user,
        "head_uuid": done["output_uuid"],
    }
    await it.ok("POST", "links", link)
    assert (await it.ok("GET", path, token=reader)).keys() == {done["output_uuid"]}


async def test_a_collection_that_nobody_made(it: World) -> None:
    made = await it.collection({"a": b"x"})
    for name in ("provenance", "used_by"):
        assert (await it.ok("GET", f"collections/{made['uuid']}/{name}")).keys() == {made["uuid"]}
    assert (await it.request("GET", f"collections/{'0' * 32}+5/used_by")).status == 404


async def _chain(it: World, count: int) -> list[str]:
    """The outputs of steps, each of which reads that of the one before."""
    outputs: list[str] = []
    for number in range(count):
        mounts: dict[str, JSON] = {"/out": {"kind": "tmp", "capacity": 1000}}
        if outputs:
            mounts["/in"] = {"kind": "collection", "portable_data_hash": outputs[-1]}
        request = await it.submit("step", str(number), mounts=mounts)
        made = await it.collection({"x": b"%d" % number})
        outputs.append(str(made["portable_data_hash"]))
        await it.run(request["container_uuid"], output=outputs[-1])
    return outputs


async def test_a_brief_lineage_has_all_in_one_answer(it: World) -> None:
    outputs = await _chain(it, 4)
    above = await it.ok("GET", f"collections/{outputs[3]}/provenance", params={"brief": True})
    assert above["complete"] is True
    found = above["records"]
    assert set(outputs) < found.keys()
    commands = [one["command"][1] for key, one in found.items() if key[6:11] == "dz642"]
    assert sorted(commands) == ["0", "1", "2", "3"]
    assert "environment" not in str(found)
    below = await it.ok("GET", f"collections/{outputs[1]}/used_by", params={"brief": True})
    used = [one["command"][1] for key, one in below["records"].items() if key[6:11] == "dz642"]
    assert sorted(used) == ["2", "3"]


async def test_a_brief_lineage_follows_images_that_were_made(it: World) -> None:
    made = await it.collection({f"sha256:{'5' * 64}.tar": b"made"})
    builder = await it.submit("build")
    await it.run(builder["container_uuid"], output=made["portable_data_hash"])
    request = await it.submit("use", container_image=made["portable_data_hash"])
    await it.run(request["container_uuid"])
    done = await it.ok("GET", f"container_requests/{request['uuid']}")
    path = f"collections/{done['output_uuid']}/provenance"
    found = (await it.ok("GET", path, params={"brief": True}))["records"]
    assert builder["container_uuid"] in found


async def test_a_brief_lineage_shows_nothing_that_the_caller_cannot_read(it: World) -> None:
    (output,) = await _chain(it, 1)
    reader = await it.user("u")
    shared = await it.collection({"x": b"0"})
    assert shared["portable_data_hash"] == output
    user = (await it.ok("GET", "users/current", token=reader))["uuid"]
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": user}
    await it.ok("POST", "links", {**link, "head_uuid": shared["uuid"]})
    path = f"collections/{shared['uuid']}/provenance"
    answer = await it.ok("GET", path, params={"brief": True}, token=reader)
    assert answer["records"].keys() == {shared["uuid"]}
    scoped = await it.ok("POST", "api_client_authorizations", {"scopes": ["GET /arvados/v1/"]})
    token = f"v2/{scoped['uuid']}/{scoped['api_token']}"
    assert (await it.request("GET", path, params={"brief": True}, token=token)).status == 403


@pytest.mark.long
async def test_ten_thousand_nodes_are_one_answer(it: World) -> None:
    steps = 5000
    graph = await fill_graph(it, steps)
    path = f"collections/{graph.pdh}/provenance"
    answer = await it.ok("GET", path, params={"brief": True})
    assert answer["complete"] is True
    found = answer["records"]
    kinds = Counter("content" if is_pdh(key) else key[6:11] for key in found)
    # The contents are the outputs and the image.
    assert kinds == {"dz642": steps, "xvhdp": steps, "content": steps + 1}
