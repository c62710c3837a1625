"""Where content came from and what it was used for, as far as the caller can read."""

from __future__ import annotations

from lading.testing.world import World


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
