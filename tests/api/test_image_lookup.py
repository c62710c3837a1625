"""From names of images to content."""

from __future__ import annotations

from lading.testing.world import World

FILE = f"sha256:{'1' * 64}.tar"


async def image(
    it: World,
    stamp: str | None,
    name: str = "debian:12",
    file: str = FILE,
    text: str = "x",
    token: str | None = None,
    **attributes: str,
) -> str:
    made = await it.collection({file: text.encode()}, token=token, **attributes)
    links = (("docker_image_repo+tag", name), ("docker_image_hash", file.removesuffix(".tar")))
    for link_class, link_name in links:
        properties = {"image_timestamp": stamp} if stamp else {}
        body = {
            "link_class": link_class,
            "name": link_name,
            "head_uuid": made["uuid"],
            "properties": properties,
        }
        await it.ok("POST", "links", body, token=token)
    return str(made["portable_data_hash"])


async def used(it: World, name: str, token: str | None = None) -> str:
    request = await it.submit(container_image=name, use_existing=False, token=token)
    return str((await it.ok("GET", f"containers/{request['container_uuid']}"))["container_image"])


async def test_images_by_name_and_hash(it: World) -> None:
    new = await image(it, "2026-01-01T00:00:00Z", text="new")
    await image(it, "2025-01-01T00:00:00Z", text="old")
    await image(it, None, text="undated")
    names = ("debian:12", "sha256:1111", "1" * 64, "1" * 12, new, f"{new}+Zhint")
    for name in (*names, "localhost/debian:12"):
        assert await used(it, name) == new
    by_hash = {"filters": [["portable_data_hash", "=", new]]}
    assert (
        await used(it, (await it.ok("GET", "collections", params=by_hash))["items"][0]["uuid"])
        == new
    )
    for name in (
        "debian",
        "sha256_1",
        "%",
        "sha256:",
        "sha",
        "s",
        "sha256:1",
        "zzzzz-4zz18-zzzzzzzzzzzzzzz",
    ):
        reply = await it.request("POST", "container_requests", await it.spec(container_image=name))
        assert (reply.status, "not found" in reply.error) == (422, True)
    await image(it, None, name="bad:latest", file="readme.txt")
    reply = await it.request("POST", "container_requests", await it.spec(container_image="bad"))
    assert (reply.status, "incompatible" in reply.error) == (422, True)


async def share(it: World, uuid: str, user: str, *, token: str) -> None:
    link = {"link_class": "permission", "name": "can_read", "head_uuid": uuid, "tail_uuid": user}
    await it.ok("POST", "links", link, token=token)


async def uuid_of(it: World, token: str) -> str:
    return str((await it.ok("GET", "users/current", token=token))["uuid"])


async def head_of(it: World, name: str) -> str:
    found = await it.ok("GET", "links", params={"filters": [["name", "=", name]]})
    return str(found["items"][0]["head_uuid"])


async def test_who_may_read_an_image_finds_it_by_its_names(it: World) -> None:
    ada, bob = await it.user("ada"), await it.user("bob")
    pdh = await image(it, None, name="bio:2", token=ada)
    spec = await it.spec(token=bob, container_image="bio:2")
    assert (await it.request("POST", "container_requests", spec, token=bob)).status == 422
    await share(it, await head_of(it, "bio:2"), await uuid_of(it, bob), token=ada)
    for name in ("bio:2", "sha256:1111", "1" * 12):
        assert await used(it, name, bob) == pdh
    seen = await it.ok("GET", "links", token=bob, params={"filters": [["name", "=", "bio:2"]]})
    assert len(seen["items"]) == 1


async def test_who_may_read_a_project_finds_its_images(it: World) -> None:
    ada, bob = await it.user("ada"), await it.user("bob")
    group = {"name": "p", "group_class": "project"}
    project = (await it.ok("POST", "groups", group, token=ada))["uuid"]
    pdh = await image(it, None, name="bio:3", token=ada)
    await it.ok(
        "PUT", f"collections/{await head_of(it, 'bio:3')}", {"owner_uuid": project}, token=ada
    )
    await share(it, project, await uuid_of(it, bob), token=ada)
    assert await used(it, "bio:3", bob) == pdh


async def test_nobody_names_an_image_of_others_for_others(it: World) -> None:
    ada, bob, eve = await it.user("ada"), await it.user("bob"), await it.user("eve")
    await image(it, None, name="bio:4", token=ada)
    head = await head_of(it, "bio:4")
    for token in (bob, eve):
        await share(it, head, await uuid_of(it, token), token=ada)
    body = {"link_class": "docker_image_repo+tag", "name": "safe:1", "head_uuid": head}
    await it.ok("POST", "links", body, token=eve)
    spec = await it.spec(token=bob, container_image="safe:1")
    assert (await it.request("POST", "container_requests", spec, token=bob)).status == 422
    # Those of an admin count.
    await it.ok("POST", "links", {**body, "name": "site:1"})
    assert await used(it, "site:1", bob)


async def test_an_own_image_is_not_hidden_by_a_newer_one_of_others(it: World) -> None:
    ada, bob = await it.user("ada"), await it.user("bob")
    own = await image(it, "2020-01-01T00:00:00Z", name="bio:5", text="own", token=bob)
    await image(it, "2026-01-01T00:00:00Z", name="theirs:5", text="new", token=ada)
    head = await head_of(it, "theirs:5")
    body = {"link_class": "docker_image_repo+tag", "name": "bio:5", "head_uuid": head}
    await it.ok("POST", "links", body, token=ada)
    await share(it, head, await uuid_of(it, bob), token=ada)
    assert await used(it, "bio:5", bob) == own


async def test_no_user_takes_over_an_image_name(it: World) -> None:
    ada, bob, eve = await it.user("ada"), await it.user("bob"), await it.user("eve")
    reader = await uuid_of(it, bob)
    theirs = await image(it, "2030-01-01T00:00:00Z", name="eve:6", text="evil", token=eve)
    other = await image(it, None, name="ada:6", text="good", token=ada)
    for name, token in (("eve:6", eve), ("ada:6", ada)):
        head = await head_of(it, name)
        await share(it, head, reader, token=token)
        body = {"link_class": "docker_image_repo+tag", "name": "bio:6", "head_uuid": head}
        await it.ok("POST", "links", body, token=token)
    spec = await it.spec(token=bob, container_image="bio:6")
    reply = await it.request("POST", "container_requests", spec, token=bob)
    assert (reply.status, "a name that 2 users share" in reply.error) == (422, True)
    assert await used(it, "eve:6", bob) == theirs
    assert await used(it, "ada:6", bob) == other
    # The name of an admin counts for everybody else.
    await it.ok("POST", "links", {**body, "name": "bio:6"})
    assert await used(it, "bio:6", bob) == other
    assert await used(it, "bio:6", eve) == theirs


async def test_images_in_the_trash_or_of_others_are_not_found(it: World) -> None:
    pdh = await image(it, None)
    token = await it.user("u")
    spec = await it.spec(token=token, container_image="debian:12")
    assert (await it.request("POST", "container_requests", spec, token=token)).status == 422
    found = await it.ok(
        "GET", "collections", params={"filters": [["portable_data_hash", "=", pdh]]}
    )
    await it.ok("DELETE", f"collections/{found['items'][0]['uuid']}")
    assert (
        await it.request("POST", "container_requests", await it.spec(container_image="debian:12"))
    ).status == 422


async def test_an_image_by_uuid_must_be_readable(it: World) -> None:
    await image(it, None)
    uuid = (await it.ok("GET", "collections"))["items"][0]["uuid"]
    token = await it.user("u")
    spec = await it.spec(token=token, container_image=uuid)
    reply = await it.request("POST", "container_requests", spec, token=token)
    assert (reply.status, "not found" in reply.error) == (422, True)
    await it.ok("DELETE", f"collections/{uuid}")
    assert (
        await it.request("POST", "container_requests", await it.spec(container_image=uuid))
    ).status == 422


async def test_an_admin_runs_no_image_by_the_name_that_a_user_gave_it(it: World) -> None:
    ada, owner = await it.user("ada"), (await it.ok("GET", "users/current"))["uuid"]
    pdh = await image(it, None, name="bio:7", token=ada)
    head = await head_of(it, "bio:7")
    for name in ("bio:7", "1" * 12):
        spec = await it.spec(container_image=name)
        reply = await it.request("POST", "container_requests", spec)
        assert (reply.status, f"name its collection {head}" in reply.error) == (422, True)
    # The collection means nothing else.
    assert await used(it, head, it.admin) == pdh
    await share(it, head, owner, token=ada)
    assert await used(it, "bio:7", it.admin) == pdh
