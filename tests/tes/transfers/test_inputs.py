"""Inputs of tasks by URL, from their creation to the committed request."""

from __future__ import annotations

import os

import pytest

from lading.core.data import filetree
from lading.core.records.schema import Record
from tests.tes.outside import MeanServer, digest_header
from tests.tes.site import TaskWorld


async def mount(it: TaskWorld, task: str, path: str = "/in/a") -> Record:
    found: Record = (await it.world.ok("GET", f"container_requests/{task}"))["mounts"][path]
    return found


async def content(it: TaskWorld, task: str, path: str = "/in/a") -> dict[str, bytes]:
    """The files of an input, by the path in the collection."""
    hash = (await mount(it, task, path))["portable_data_hash"]
    text = (await it.world.ok("GET", f"collections/{hash}"))["manifest_text"]
    return {
        name: b"".join(
            [
                (await it.world.blocks.get(one.locator))[one.offset : one.offset + one.length]
                for one in file.segments
            ]
        )
        for name, file in filetree.files(filetree.from_manifest(text))
    }


async def logs(it: TaskWorld, task: str) -> list[str]:
    found = await it.ok("GET", f"tasks/{task}", query="view=FULL")
    return list(found["logs"][-1]["system_logs"])


async def fetched(it: TaskWorld, url: str, **more: str) -> str:
    """A task with one input, after the worker has looked for work."""
    task = await it.create(inputs=[{"path": "/in/a", "url": url, **more}])
    await it.transfer()
    return task


async def test_a_file_by_http(it: TaskWorld, server: MeanServer) -> None:
    url = server.add("/a%20b.txt", b"hello", headers=digest_header(b"hello"))
    task = await it.create(inputs=[{"path": "/in/a", "url": url}])
    assert await it.state(task) == "QUEUED"
    await it.transfer()
    request = await it.world.ok("GET", f"container_requests/{task}")
    assert (request["state"], request["mounts"]["/in/a"]["path"]) == ("Committed", "a b.txt")
    assert await content(it, task) == {"a b.txt": b"hello"}
    assert await it.state(task) == "QUEUED"
    await it.world.run(await it.container(task))
    assert await it.state(task) == "COMPLETE"


async def test_an_equal_object_is_received_once(it: TaskWorld, server: MeanServer) -> None:
    url = server.add("/a", b"x" * 100_000)
    first = await mount(it, await fetched(it, url))
    server.pages["/a"].cuts = [10]
    assert await mount(it, await fetched(it, url)) == first
    assert len(await it.world.collections(filters=[["name", "like", "input %"]])) == 1
    server.pages["/a"].etag = '"2"'
    server.pages["/a"].body = b"y"
    assert await content(it, await fetched(it, url)) == {"a": b"y"}


async def test_another_user_reads_it_after_asking_the_server(
    it: TaskWorld, server: MeanServer
) -> None:
    url = server.add("/a", b"x")
    await fetched(it, url)
    token = await it.world.user("ann")
    image = await it.world.ensure_image(token)
    task = {
        "executors": [{"image": image, "command": ["true"]}],
        "inputs": [{"path": "/in/a", "url": url}],
    }
    made = await it.ok("POST", "tasks", task, token=token)
    await it.transfer()
    hash = (await mount(it, made["id"]))["portable_data_hash"]
    assert await it.world.ok("GET", f"collections/{hash}", token=token)
    other = await it.world.user("bob")
    assert (await it.world.request("GET", f"collections/{hash}", token=other)).status == 404
    request = await it.world.ok("GET", f"container_requests/{made['id']}", token=token)
    assert request["state"] == "Committed"
    tokens = await it.world.ok("GET", "api_client_authorizations", params={"limit": 100})
    assert len([one for one in tokens["items"] if one["owner_uuid"] == request["owner_uuid"]]) == 1


async def test_what_is_cut_goes_on_where_it_was(it: TaskWorld, server: MeanServer) -> None:
    body = os.urandom(3 << 20)
    url = server.add("/a", body, cuts=[1 << 20, 1 << 20], headers=digest_header(body))
    assert await content(it, await fetched(it, url)) == {"a": body}
    assert [headers.get("range") for _, _, headers in server.seen] == [
        None,
        f"bytes={1 << 20}-",
        f"bytes={2 << 20}-",
    ]


async def test_without_parts_it_begins_again(it: TaskWorld, server: MeanServer) -> None:
    url = server.add("/a", b"abcdef", cuts=[3], parts=False, etag="")
    assert await content(it, await fetched(it, url)) == {"a": b"abcdef"}


async def test_busy_servers_are_asked_again(it: TaskWorld, server: MeanServer) -> None:
    url = server.add("/a", b"abc", refusals=[503, 429])
    assert await content(it, await fetched(it, url)) == {"a": b"abc"}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ({"refusals": [503] * 9}, "given up after 6 attempts: 127.0.0.1: answered 503"),
        ({"cuts": [2] * 9, "parts": False}, "the answer ended before it was whole"),
        ({"headers": digest_header(b"other")}, "the sha256 checksum is"),
        ({"refusals": [403]}, "answered 403"),
        ({"refusals": [404]}, "there is no such object"),
        ({"location": "/a"}, "redirects more than 5 times"),
        ({"location": "file:///etc/passwd"}, "redirects to another protocol"),
    ],
)
async def test_what_cannot_be_fetched(
    it: TaskWorld, server: MeanServer, page: dict[str, object], text: str
) -> None:
    url = server.add("/a", b"abc", **page)
    task = await fetched(it, f"{url}?signature=SECRET")
    assert await it.state(task) == "SYSTEM_ERROR"
    said = (await logs(it, task))[0]
    assert text in said
    assert said.startswith(f"input /in/a: {url}: ")
    assert "SECRET" not in said
    assert await it.world.collections(filters=[["name", "like", "input %"]]) == []


async def test_redirects_are_followed(it: TaskWorld, server: MeanServer) -> None:
    server.add("/b", b"there")
    url = server.add("/a", b"", location="b?x=1")
    assert await content(it, await fetched(it, url)) == {"a": b"there"}


async def test_states_of_waiting_tasks_as_a_filter(it: TaskWorld, server: MeanServer) -> None:
    good = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    bad = await it.create(inputs=[{"path": "/in/a", "url": f"{server.url}/none"}])
    for state, ids in (("QUEUED", [bad, good]), ("SYSTEM_ERROR", [])):
        found = await it.ok("GET", "tasks", query=f"state={state}")
        assert [one["id"] for one in found["tasks"]] == ids
    await it.transfer()
    for state, ids in (("QUEUED", [good]), ("SYSTEM_ERROR", [bad])):
        found = await it.ok("GET", "tasks", query=f"state={state}")
        assert [one["id"] for one in found["tasks"]] == ids
