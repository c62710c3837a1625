"""From names to content, from content to a container."""

from __future__ import annotations

import pytest

from lading.testing.world import World

FILE = f"sha256:{'1' * 64}.tar"


async def image(it: World, stamp: str | None, name: str = "debian:12", file: str = FILE, text: str = "x") -> str:
    made = await it.collection({file: text.encode()})
    links = (("docker_image_repo+tag", name), ("docker_image_hash", file.removesuffix(".tar")))
    for link_class, link_name in links:
        properties = {"image_timestamp": stamp} if stamp else {}
        body = {"link_class": link_class, "name": link_name, "head_uuid": made["uuid"], "properties": properties}
        await it.ok("POST", "links", body)
    return str(made["portable_data_hash"])


async def used(it: World, name: str, token: str | None = None) -> str:
    request = await it.submit(container_image=name, use_existing=False, token=token)
    return str((await it.ok("GET", f"containers/{request['container_uuid']}"))["container_image"])


async def test_images_by_name_and_hash(it: World) -> None:
    new = await image(it, "2026-01-01T00:00:00Z", text="new")
    await image(it, "2025-01-01T00:00:00Z", text="old")
    await image(it, None, text="undated")
    for name in ("debian:12", "sha256:1111", new, f"{new}+Zhint"):
        assert await used(it, name) == new
    for name in ("debian", "sha256_1", "%"):
        reply = await it.request("POST", "container_requests", await it.spec(container_image=name))
        assert (reply.status, "not found" in reply.error) == (422, True)
    await image(it, None, name="bad:latest", file="readme.txt")
    reply = await it.request("POST", "container_requests", await it.spec(container_image="bad"))
    assert (reply.status, "incompatible" in reply.error) == (422, True)


async def test_images_in_the_trash_or_of_others_are_not_found(it: World) -> None:
    pdh = await image(it, None)
    token = await it.user("u")
    spec = await it.spec(token=token, container_image="debian:12")
    assert (await it.request("POST", "container_requests", spec, token=token)).status == 422
    found = await it.ok("GET", "collections", params={"filters": [["portable_data_hash", "=", pdh]]})
    await it.ok("DELETE", f"collections/{found['items'][0]['uuid']}")
    assert (await it.request("POST", "container_requests", await it.spec(container_image="debian:12"))).status == 422


async def test_inputs_by_uuid_are_the_same_work(it: World) -> None:
    made = await it.collection({"a": b"x"})
    pdh, uuid = made["portable_data_hash"], made["uuid"]
    out = {"/out": {"kind": "tmp", "capacity": 1000}}
    spellings = (
        {"portable_data_hash": pdh},
        {"uuid": uuid},
        {"uuid": uuid, "portable_data_hash": pdh},
        {"uuid": "zzzzz-4zz18-000000000000009", "portable_data_hash": pdh},
    )
    found = [await it.submit(mounts={**out, "/in": {"kind": "collection", **one}}) for one in spellings]
    assert len({one["container_uuid"] for one in found}) == 1


@pytest.mark.parametrize("mount", [{"uuid": "zzzzz-4zz18-000000000000009"}, {"portable_data_hash": f"{'0' * 32}+5"}])
async def test_inputs_must_be_readable(it: World, mount: dict[str, str]) -> None:
    mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": {"kind": "collection", **mount}}
    reply = await it.request("POST", "container_requests", await it.spec(mounts=mounts))
    assert (reply.status, "not found" in reply.error) == (422, True)


async def test_inputs_of_others(it: World) -> None:
    secret = await it.collection({"a": b"x"})
    token = await it.user("u")
    for mount in ({"uuid": secret["uuid"]}, {"portable_data_hash": secret["portable_data_hash"]}):
        mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": {"kind": "collection", **mount}}
        spec = await it.spec(token=token, mounts=mounts)
        assert (await it.request("POST", "container_requests", spec, token=token)).status == 422


async def test_a_container_chosen_by_hand(it: World) -> None:
    done = await it.submit("same")
    await it.run(done["container_uuid"], exit_code=1)
    chosen = await it.submit("same", container_uuid=done["container_uuid"])
    assert (chosen["state"], chosen["container_uuid"]) == ("Final", done["container_uuid"])
    waiting = await it.submit("waiting")
    assert (await it.submit("waiting", container_uuid=waiting["container_uuid"]))["state"] == "Committed"
    reply = await it.request(
        "POST", "container_requests", await it.spec("other", container_uuid=done["container_uuid"])
    )
    assert (reply.status, "command differs" in reply.error) == (422, True)
    token = await it.user("u")
    spec = await it.spec("same", token=token, container_uuid=done["container_uuid"])
    assert (await it.request("POST", "container_requests", spec, token=token)).status == 422


async def test_results_that_are_gone_are_not_used(it: World) -> None:
    first = await it.submit()
    await it.run(first["container_uuid"])
    outputs = await it.ok("GET", "collections", params={"filters": [["name", "like", "Container output%"]]})
    await it.ok("DELETE", f"collections/{outputs['items'][0]['uuid']}")
    assert (await it.submit())["container_uuid"] != first["container_uuid"]


async def test_nothing_waits_for_itself(it: World) -> None:
    top = await it.submit("same")
    uuid = top["container_uuid"]
    supervisor = await it.lock(uuid)
    own = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    child = await it.submit("same", token=own)
    assert child["container_uuid"] != uuid
