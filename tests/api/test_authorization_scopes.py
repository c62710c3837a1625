"""Tokens of limited scopes: what they read through calls that name other records."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World

GETS = "GET /arvados/v1/"


async def limited(it: World, *scopes: str, token: str | None = None) -> str:
    made = await it.ok("POST", "api_client_authorizations", {"scopes": list(scopes)}, token=token)
    return f"v2/{made['uuid']}/{made['api_token']}"


@pytest.mark.parametrize("name", ["uuid", "portable_data_hash"])
async def test_sources_of_files_need_a_scope(it: World, name: str) -> None:
    source = await it.collection({"a": b"secret"})
    other = await it.collection({"b": b"also"})
    body = {"replace_files": {"/x": f"{source['portable_data_hash']}/a"}}
    post = "POST /arvados/v1/collections"
    for scopes in (
        (post,),
        (post, f"{GETS}collections/{other['uuid']}"),
        (post, f"{GETS}collections"),
    ):
        reply = await it.request("POST", "collections", body, token=await limited(it, *scopes))
        assert (reply.status, "GET /arvados/v1/collections/" in reply.error) == (403, True)
    for scope in (f"{GETS}collections/{source[name]}", f"{GETS}collections/"):
        made = await it.ok("POST", "collections", body, token=await limited(it, post, scope))
        assert "secret" not in made["manifest_text"]
        assert ":x" in made["manifest_text"]


async def test_a_content_that_is_not_there_is_not_told_from_one_out_of_scope(it: World) -> None:
    token = await limited(it, "POST /arvados/v1/collections")
    body = {"replace_files": {"/x": f"{'0' * 32}+44/a"}}
    assert (await it.request("POST", "collections", body, token=token)).status == 403


async def test_what_a_collection_holds_may_be_moved_in_it(it: World) -> None:
    made = await it.collection({"a": b"x"})
    path = f"collections/{made['uuid']}"
    token = await limited(it, f"PUT /arvados/v1/{path}")
    await it.ok("PUT", path, {"replace_files": {"/b": "current/a", "/a": ""}}, token=token)


async def test_an_admin_of_limited_scopes_proves_what_it_read(it: World) -> None:
    source = await it.collection({"a": b"secret"})
    text = source["unsigned_manifest_text"]
    narrow = await limited(it, "POST /arvados/v1/collections")
    reply = await it.request("POST", "collections", {"manifest_text": text}, token=narrow)
    assert (reply.status, "manifest_text" in reply.error) == (403, True)
    segments = {"replace_segments": {f"{'0' * 32}+6 0 6": f"{text.split()[1]} 0 6"}}
    assert (await it.request("POST", "collections", segments, token=narrow)).status == 403
    wide = await limited(it, "POST /arvados/v1/collections", f"{GETS}collections/")
    await it.ok("POST", "collections", {"manifest_text": text}, token=wide)


async def _spec(it: World, source: Record, by: str) -> Record:
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "collection", by: source[by]},
    }
    return await it.spec("true", mounts=mounts)


@pytest.mark.parametrize("by", ["uuid", "portable_data_hash"])
async def test_inputs_and_image_need_a_scope(it: World, by: str) -> None:
    source = await it.collection({"a": b"secret"})
    spec, post = await _spec(it, source, by), "POST /arvados/v1/container_requests"
    image, mounted = (
        f"{GETS}collections/{spec['container_image']}",
        f"{GETS}collections/{source['uuid']}",
    )
    for scopes, where in (((post, image), "mounts [/in]"), ((post, mounted), "container_image")):
        reply = await it.request(
            "POST", "container_requests", spec, token=await limited(it, *scopes)
        )
        assert (reply.status, where in reply.error) == (403, True), reply.error
    token = await limited(it, post, image, mounted)
    made = await it.ok("POST", "container_requests", spec, token=token)
    container = await it.ok("GET", f"containers/{made['container_uuid']}")
    assert container["runtime_auth_scopes"] == [post, image, mounted]


async def test_a_draft_may_be_written_without_them(it: World) -> None:
    source = await it.collection({"a": b"secret"})
    spec = {**await _spec(it, source, "uuid"), "state": "Uncommitted"}
    token = await limited(
        it, "POST /arvados/v1/container_requests", "PUT /arvados/v1/container_requests/"
    )
    made = await it.ok("POST", "container_requests", spec, token=token)
    path = f"container_requests/{made['uuid']}"
    assert (await it.request("PUT", path, {"state": "Committed"}, token=token)).status == 403
    assert (await it.ok("PUT", path, {"state": "Committed"}))["state"] == "Committed"


async def test_a_runtime_token_counts_with_its_own_scopes(it: World) -> None:
    source = await it.collection({"a": b"secret"})
    spec = {
        **await _spec(it, source, "uuid"),
        "runtime_token": await limited(it, f"{GETS}users/current"),
    }
    assert (await it.request("POST", "container_requests", spec)).status == 403


async def test_a_container_that_may_call_the_api_gets_the_scopes_of_whoever_committed(
    it: World,
) -> None:
    scopes = ["POST /arvados/v1/container_requests", f"{GETS}collections/"]
    spec = await it.spec("true", runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True})
    made = await it.ok("POST", "container_requests", spec, token=await limited(it, *scopes))
    await it.lock(made["container_uuid"])
    own = await it.container_token(made["container_uuid"])
    assert (await it.request("GET", "users", token=own)).status == 403
    assert (await it.request("GET", "container_requests", token=own)).status == 403
    spec["command"] = ["false"]
    await it.ok("POST", "container_requests", spec, token=own)


async def test_what_a_request_saved_is_not_swapped_for_another_collection(it: World) -> None:
    secret = await it.collection({"a": b"secret"})
    made = await it.submit("true")
    path = f"container_requests/{made['uuid']}"
    token = await limited(it, f"PUT /arvados/v1/{path}", f"{GETS}container_requests/")
    assert (await it.request("PUT", path, {"log_uuid": secret["uuid"]}, token=token)).status == 403


@pytest.mark.parametrize("scope", ["", f"{GETS}containers", f"{GETS}containers/"])
async def test_included_records_need_a_scope(it: World, scope: str) -> None:
    made = await it.submit("true")
    token = await limited(it, f"{GETS}container_requests", *([scope] if scope else []))
    page = await it.ok(
        "GET", "container_requests", params={"include": ["container_uuid"]}, token=token
    )
    assert [one["uuid"] for one in page["included"]] == ([made["container_uuid"]] if scope else [])


async def test_a_reader_token_includes_within_its_own_scopes(it: World) -> None:
    reader = await it.user("u")
    await it.submit("true")
    narrow = await limited(it, f"{GETS}container_requests")
    params: dict[str, JSON] = {"include": ["container_uuid"], "reader_tokens": [narrow]}
    page = await it.ok("GET", "container_requests", params=params, token=reader)
    assert (len(page["items"]), page["included"]) == (1, [])


@pytest.mark.parametrize("path", ["container_requests", "groups/contents"])
async def test_filters_on_containers_need_a_scope(it: World, path: str) -> None:
    await it.submit("true")
    name = (
        "container.state" if path == "container_requests" else "container_requests.container.state"
    )
    params = {"filters": [["uuid", "is_a", "arvados#containerRequest"], [name, "=", "Queued"]]}
    token = await limited(it, f"{GETS}{path}")
    assert (await it.request("GET", path, params=params, token=token)).status == 403
    token = await limited(it, f"{GETS}{path}", f"{GETS}containers")
    assert len((await it.ok("GET", path, params=params, token=token))["items"]) == 1


async def test_provenance_stays_within_the_scopes(it: World) -> None:
    made = await it.submit("true")
    await it.run(made["container_uuid"])
    done = await it.ok("GET", f"container_requests/{made['uuid']}")
    path = f"collections/{done['output_uuid']}"
    shared = await limited(it, f"{GETS}{path}", f"{GETS}{path}/")
    for name in ("provenance", "used_by"):
        assert (await it.ok("GET", f"{path}/{name}", token=shared)).keys() == {done["output_uuid"]}
    wider = await limited(it, f"{GETS}{path}/", f"{GETS}containers/", f"{GETS}collections/")
    found = await it.ok("GET", f"{path}/provenance", token=wider)
    assert found.keys() == {done["output_uuid"], made["container_uuid"], await it.ensure_image()}
