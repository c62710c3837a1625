"""Documents, credentials and servers of tasks and runs that an attacker wrote, in process."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.core.data.filetree import File, Segment, from_files
from lading.core.errors import Forbidden, Invalid, Malformed, TooLarge
from lading.core.records.schema import JSON
from lading.core.tes import mapping
from lading.core.tes.credentials import find_credential, parse_scope
from lading.core.tes.document import InvalidTask, read_task
from lading.core.tes.drs_objects import read_access
from lading.core.tes.file_roots import find_root, make_roots
from lading.core.tes.locations import parse_location
from lading.core.tes.outputs import find_outputs
from lading.core.wes.document import InvalidRun, attachment_path, read_run
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.outside_http import OutsideHttp
from lading.testing.world import ApiReply
from tests.tes.outside import MeanServer, mean_server
from tests.tes.run_site import RunWorld, run_world
from tests.tes.site import TaskWorld, task_world
from tests.tes.transfers.test_credential_book import BODY, secret, share

EXECUTORS: list[JSON] = [{"image": "i", "command": ["x"]}]
# Seconds of processor time that a document of a few MB may take; it was minutes.
MOST_TIME = 6.0


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[TaskWorld]:
    settings: JSON = {"AllowedNetworks": ["127.0.0.0/8"]}
    async with task_world(tmp_path, TES=settings) as made:
        yield made


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[RunWorld]:
    async with run_world(tmp_path) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[MeanServer]:
    async with mean_server() as made:
        yield made


def _many(count: int) -> dict[str, Any]:
    """Large documents by name, each quadratic for somebody who compares all with all."""
    return {
        "volumes": {"volumes": [f"/v{n}" for n in range(count)]},
        "equal volumes": {"volumes": ["/v"] * count},
        "inputs": {"inputs": [{"path": f"/i/{n}", "content": ""} for n in range(count)]},
        "equal inputs": {"inputs": [{"path": "/i", "content": ""}] * count},
        "inputs that are none": {"inputs": [0] * count},
        "outputs": {"outputs": [{"path": f"/o/{n}", "url": "keep:"} for n in range(count)]},
        "volumes and outputs": {
            "volumes": [f"/v{n}" for n in range(count)],
            "outputs": [{"path": f"/o/{n}", "url": "keep:"} for n in range(count)],
        },
        "wildcards": {
            "outputs": [
                {"path": f"/o/*{n}", "path_prefix": "/o", "url": "s3://b/x"} for n in range(count)
            ]
        },
        "executors": {"executors": [*EXECUTORS] * count},
        "tags": {"tags": {f"t{n}": 1 for n in range(count)}},
        "parameters": {"resources": {"backend_parameters": {f"p{n}": "x" for n in range(count)}}},
    }


@pytest.mark.attack("keeps the server busy for minutes by one document of a few megabytes")
@pytest.mark.parametrize("count", [9_999, 60_000])
@pytest.mark.parametrize("name", _many(0))
def test_huge_document(name: str, count: int) -> None:
    document: Any = {"executors": EXECUTORS, **_many(count)[name]}
    began, refused = time.process_time(), InvalidTask([])
    try:
        mapping.make_request(read_task(document, mapping.rules), site=mapping.ANY_SITE)
    except InvalidTask as error:
        refused = error
    assert time.process_time() - began < MOST_TIME
    assert (len(refused.faults) <= 100, len(refused.message) < 20_000) == (True, True)


@pytest.mark.attack("names wildcards and makes files, whose product no server can compare")
@pytest.mark.parametrize(
    ("outputs", "files"),
    [
        ([{"path": f"/o/d/d/d/*{n}*", "path_prefix": "/o"} for n in range(10_000)], 20_000),
        ([{"path": "/o/d", "type": "DIRECTORY"}] * 10_000, 20_000),
        ([{"path": "/o/*/*/*/*", "path_prefix": "/o"}] * 10_000, 20_000),
    ],
)
def test_outputs_times_files(outputs: list[Any], files: int) -> None:
    segment = Segment("0" * 32 + "+9", 0, 1)
    tree = from_files({f"d/d/d/{n}": File((segment,)) for n in range(files)})
    task: dict[str, Any] = {
        "executors": EXECUTORS,
        "outputs": [{"url": "keep:", **one} for one in outputs],
    }
    began = time.process_time()
    with pytest.raises(TooLarge, match="outputs: "):
        find_outputs(read_task(task), tree)
    assert time.process_time() - began < 30


PATHS = (
    "a", "./a", "../a", "/../a", "/a/../b", "/a/./b", "/a//b", "//a", "/", "", " ", "/a/..", "/..",
    "/a\0b", "\\a", "C:\\a", "~/a", "/a/../../etc/passwd", "/.", "/a/.", "file:///a",
)  # fmt: skip


@pytest.mark.attack("names a path in the container that leads elsewhere than it says")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("field", ["input", "output", "volume", "workdir", "stdout", "prefix"])
def test_odd_path(path: str, field: str) -> None:
    if (path, field) in (("/", "workdir"), ("", "workdir"), ("", "stdout"), ("", "prefix")):
        # The root, or none.
        return
    executor: dict[str, Any] = {"image": "i", "command": ["x"]}
    task: dict[str, Any] = {"executors": [executor]}
    match field:
        case "input":
            task["inputs"] = [{"path": path, "content": ""}]
        case "output":
            task["outputs"] = [{"path": path, "url": "keep:"}]
        case "volume":
            task["volumes"] = [path]
        case "prefix":
            task["outputs"] = [{"path": "/o/*", "path_prefix": path, "url": "keep:"}]
        case _:
            executor[field] = path
    with pytest.raises(InvalidTask):
        read_task(task, mapping.rules)


FILES = (
    "/shared/../secret", "/shared/%2e%2e/secret", "/shared/a/..", "/shared/./a", "/shared//a",
    "/shared/..", "/sharedx/a", "/share", "/etc/passwd", "/", "/shared/%00", "/shared/%2e%2e%2fx",
    "/SHARED/a", "/shared\\..\\secret/..", "/.shared/a", "/shared/%2E./x", "/shared/.%2e/x",
)  # fmt: skip


@pytest.mark.attack("reads a file of the machine that no root offers")
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_file_url(path: str, form: str) -> None:
    if "%" in path and form == "{}":
        # A plain path has no escapes: these are names of files.
        return
    roots = make_roots({"/shared": {"Path": "/srv/shared"}})
    with pytest.raises((Malformed, Forbidden)):
        location = parse_location(form.format(path))
        find_root(roots, location.path.rstrip("/"), ())


SCOPES = (
    ("https://host/public", "https://host/public/{}private/x"),
    ("ftp://host/public", "ftp://host/public/{}private/x"),
    ("s3://bucket/public", "s3://bucket/public/{}private/x"),
)
CLIMBS = (
    "../", "%2e%2e/", "%2E%2E/", "..%2f", "%2e%2e%2f", ".%2e/", "%252e%252e/", "%25252e%25252e/",
    "..;/", "..;a=b/", "..%3b/", "..\\", "..%5c", "%2e%2e%5c", "a/../../", "./../", "a/b/../../../",
    "..%255c", ".. /", "%2e%2e%20/", "%2525252525252e%2525252525252e/", "a\\..\\..\\",
)  # fmt: skip


@pytest.mark.attack("uses a credential of an admin beyond the directory that it is for")
@pytest.mark.parametrize("climb", CLIMBS)
@pytest.mark.parametrize(("scope", "url"), SCOPES)
def test_credential_beyond_its_scope(scope: str, url: str, climb: str) -> None:
    kind = "s3" if scope.startswith("s3") else "basic"
    record = {"uuid": "c", "credential_class": kind, "scopes": [scope], "expires_at": "9"}
    for wanted in (url.format(climb), url.format(f"a/{climb}{climb}")):
        assert find_credential([record], parse_location(wanted), now="2026") is None
    # What only looks like it keeps the credential.
    for wanted in (url.format(""), url.format("..a/"), url.format("a../"), url.format(".a/")):
        assert find_credential([record], parse_location(wanted), now="2026") is not None


@pytest.mark.attack("puts a host or a header into the region of a bucket")
@pytest.mark.parametrize(
    "region",
    ["x@evil.example/", "evil.example#", "a/b", "a?b", "a b", "", "a\r\nX-Evil: 1", "a" * 64, "é"],
)
@pytest.mark.parametrize("endpoint", ["", "&endpoint=https%3A%2F%2Fminio.example"])
def test_region(region: str, endpoint: str) -> None:
    if not region or "#" in region:
        region += "."
    with pytest.raises(Invalid):
        parse_scope(f"s3://bucket?region={region}{endpoint}", "s3")


@pytest.mark.attack("changes the request for a DRS object by headers that its server names")
@pytest.mark.parametrize(
    "header",
    [
        "Host: evil", "Transfer-Encoding: chunked", "Content-Length: 5", "Connection: upgrade",
        "Upgrade: h2c", "Expect: 100-continue", "Trailer: x", "TE: trailers", "Range: bytes=0-",
        "If-Range: x", "Keep-Alive: 1", "Proxy-Authorization: x", "Accept-Encoding: gzip",
        "X: a\r\nHost: evil", "X\r\n: a", ": a", "X", "X Y: a", "X: é", "X:\0", "", "HOST:evil",
        "X: " + "a" * 9000, "Proxy-Connection: x",
    ],
)  # fmt: skip
def test_drs_header(header: str) -> None:
    with pytest.raises(Malformed):
        read_access({"url": "https://host/x", "headers": [header]})


@pytest.mark.attack("redirects a request to another server, which reads its secret headers")
@pytest.mark.parametrize(
    "name",
    ["authorization", "cookie", "x-amz-security-token", "x-api-key", "private-token", "auth"],
)
async def test_headers_at_another_server(server: MeanServer, name: str) -> None:
    server.add("/b", b"there")
    other = server.url.replace("127.0.0.1", "localhost") + "/b"
    url = server.add("/a", b"", location=other)
    network = OutsideNetwork(allowed=("127.0.0.0/8", "::1/128"))
    async with (
        OutsideHttp(network, timeout=5) as http,
        http.exchange("GET", parse_location(url), {name: "s3cret"}) as answer,
    ):
        assert answer.status == 200
    assert [name in headers for _, _, headers in server.seen] == [True, False]


@pytest.mark.attack("hides a user's credentials behind thousands that it shares with that user")
async def test_many_shared_credentials(it: TaskWorld) -> None:
    await it.world.ok("POST", "credentials", BODY, token=await it.world.user("ann"))
    token = await it.world.user("mallory")
    group = {"name": "p", "group_class": "project"}
    project = await it.world.ok("POST", "groups", group, token=token)
    await share(it, project["uuid"], "ann", token)
    for number in range(1001):
        body = {**BODY, "name": str(number), "owner_uuid": project["uuid"], "secret": "theirs"}
        await it.world.ok("POST", "credentials", body, token=token)
    assert await secret(it, "ann") == "s3cret"


@pytest.mark.attack("gets what another user fetched with that user's credential from one URL")
async def test_objects_of_two_users(it: TaskWorld, server: MeanServer) -> None:
    # A server with an own view for each user, in which two files have one time and size.
    url = server.add("/home/data", b"of-ann", etag="", headers={"last-modified": "yesterday"})
    found = []
    for name, data in (("ann", b"of-ann"), ("bob", b"of-bob")):
        server.add("/home/data", data, etag="", headers={"last-modified": "yesterday"})
        token = await it.world.user(name)
        body = {**BODY, "name": name, "scopes": [f"{server.url}/home"], "secret": name}
        await it.world.ok("POST", "credentials", body, token=token)
        image = await it.world.ensure_image(token=token)
        task = {
            "executors": [{"image": image, "command": ["true"]}],
            "inputs": [{"path": "/in/a", "url": url}],
        }
        made: Any = await it.ok("POST", "tasks", task, token=token)
        await it.transfer()
        request = await it.world.ok("GET", f"container_requests/{made['id']}", token=token)
        found.append(request["mounts"]["/in/a"]["portable_data_hash"])
    assert len(set(found)) == 2


@pytest.mark.attack("answers another user's create by a request of its own, with its key")
async def test_key_of_another(it: TaskWorld) -> None:
    ann, mallory = await it.world.user("ann"), await it.world.user("mallory")
    image = await it.world.ensure_image(token=ann)
    task: JSON = {"executors": [{"image": image, "command": ["true"]}]}
    key = {"Idempotency-Key": "run-1"}
    first: Any = await it.ok("POST", "tasks", task, token=ann, headers=key)
    [stored] = (await it.world.ok("GET", "container_requests", token=ann))["items"]
    digest = stored["properties"]["tes.key"]
    # The note of the server is lost, and mallory shares a request with the digest of ann's key.
    await it.world.ok("DELETE", f"container_requests/{first['id']}", token=ann)
    async with it.world.database.writing() as tx:
        await tx.execute("DELETE FROM task_keys")
    group = {"name": "p", "group_class": "project"}
    project = await it.world.ok("POST", "groups", group, token=mallory)
    await share(it, project["uuid"], "ann", mallory)
    forged = await it.world.submit(
        "evil",
        token=mallory,
        owner_uuid=project["uuid"],
        properties={"tes.key": digest, "tes": {"task": task, "warnings": []}},
    )
    again: Any = await it.ok("POST", "tasks", task, token=ann, headers=key)
    assert again["id"] != forged["uuid"]


STORED: tuple[JSON, ...] = (
    None, 1, "x", [], {}, {"task": 1}, {"task": []}, {"task": {}}, {"task": {"executors": 7}},
    {"task": {"executors": []}}, {"task": {"executors": [1]}}, {"task": {"executors": [{}]}},
    {"task": {"executors": EXECUTORS, "outputs": [1]}},
    {"task": {"executors": EXECUTORS, "outputs": [{"path": 5, "url": "keep:"}]}},
    {"task": {"executors": EXECUTORS, "outputs": [
        {"path": "a", "url": "keep:"}, {"path": "/b/c", "url": "keep:"}]}},
    {"task": {"executors": EXECUTORS, "outputs": [{"path": "/a/b", "url": "zz://"}]}},
    {"task": {"executors": EXECUTORS, "inputs": 5, "volumes": {}, "tags": [], "resources": "x"}},
    {"task": {"executors": EXECUTORS, "inputs": [{"path": 5, "url": 6, "content": 7}]}},
    {"task": {"executors": EXECUTORS, "resources": {"backend_parameters": [1]}}},
    {"task": {"executors": [{"image": "i", "command": ["x"], "stdout": 5, "env": [1]}]}},
    {"task": {"executors": EXECUTORS, "name": 5, "description": []}, "warnings": 5},
    {"task": {"executors": EXECUTORS}, "warnings": [1, {}], "transfers": "x", "live": 7},
    {"task": {"executors": EXECUTORS}, "warnings": [], "live": [1], "transfers": True},
)  # fmt: skip


@pytest.mark.attack("breaks the lists of others by a request whose document it has overwritten")
async def test_overwritten_document(it: TaskWorld) -> None:
    for number, stored in enumerate(STORED):
        made = await it.world.submit(f"{number}", properties={"tes": stored})
        if number % 2:
            await it.world.run(made["container_uuid"])
    for view in ("MINIMAL", "BASIC", "FULL"):
        found: Any = await it.ok("GET", "tasks", query=f"view={view}&page_size=100")
        assert len(found["tasks"]) == len(STORED)
        for task in found["tasks"]:
            await it.ok("GET", f"tasks/{task['id']}", query=f"view={view}")


@pytest.mark.attack("breaks what readers of its task see by a status that its container writes")
@pytest.mark.parametrize(
    "steps",
    [[1], [{}], [None], {}, "x", [{"started_at": 1, "finished_at": 2, "exit_code": "x"}],
     [{"started_at": None, "finished_at": None, "exit_code": 0, "stdout": "0-5"}],
     [{"started_at": None, "finished_at": None, "exit_code": 0, "stdout": [-1, 5]}],
     [{"started_at": None, "finished_at": None, "exit_code": 0, "stdout": [0, 1, 2]}]],
)  # fmt: skip
async def test_status_of_a_container(it: TaskWorld, steps: JSON) -> None:
    task = await it.create()
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    path = f"containers/{container}"
    await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    status: JSON = {"runtime_status": {"steps": steps}}
    await it.world.ok("PUT", path, status, token=supervisor)
    found: Any = await it.ok("GET", f"tasks/{task}", query="view=FULL")
    assert found["logs"][0]["logs"] == []


RUN = {
    "workflow_params": "{}",
    "workflow_type": "CWL",
    "workflow_type_version": "v1.2",
    "workflow_url": "a.cwl",
}


@pytest.mark.attack("names an attachment of a run that is stored elsewhere")
@pytest.mark.parametrize(
    "name",
    ["../a", "/a", "a/../b", "a//b", "a/", ".", "..", "", "./../a", "a\\b", "a\0b", "a\nb", "a/./b",
     "x" * 300, "/".join("x" * 600), "a/" * 600 + "b", "\x7f", "./", "././a", "a/..", "a\r\nb"],
)  # fmt: skip
def test_attachment(name: str) -> None:
    with pytest.raises(InvalidRun) as caught:
        attachment_path(name)
    assert len(caught.value.message) <= 300


@pytest.mark.attack("has a run read a URL of the server's own protocols or files")
@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "/etc/passwd", "../a.cwl", "ftp://h/a", "gopher://h/", "s3://b/a",
     "data:,x", "FILE:///etc/passwd", "fi%6ce:///x", "b.cwl", "a.cwl/../b", "-x", "--help",
     "a.cwl#x y", "a.cwl\\x", "unix:x", "javascript:x", "jar:http://h/!/a", "ssh://h/x"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["url", "location", "path", "nested"])
def test_url_of_a_run(url: str, place: str) -> None:
    fields = dict(RUN)
    if place == "url":
        fields["workflow_url"] = url
    else:
        name = "path" if place == "path" else "location"
        one: Any = {"class": "File", name: url}
        fields["workflow_params"] = json.dumps(
            {"a": [{"b": one}]} if place == "nested" else {"a": one}
        )
        if "#" in url or "\\" in url:
            # Names of files, which an attachment may have.
            url += "x"
    with pytest.raises(InvalidRun):
        read_run(fields, ["a.cwl"], engine_version="1")


@pytest.mark.attack("keeps the server busy by the parameters of a run")
@pytest.mark.parametrize("kind", ["inside", "absent", "deep", "faults"])
def test_huge_parameters(kind: str) -> None:
    attachments = [f"d{n}/a" for n in range(2000)]
    texts = {
        "inside": json.dumps(
            {"x": [{"class": "File", "path": f"d{n % 2000}"} for n in range(25_000)]}
        ),
        "absent": json.dumps({"x": [{"class": "File", "path": f"e{n}"} for n in range(25_000)]}),
        "deep": '{"x":' + "[" * 100_000 + "]" * 100_000 + "}",
        "faults": json.dumps({"x": [{"class": "File", "path": f"s{n}://"} for n in range(25_000)]}),
    }
    began, refused = time.process_time(), InvalidRun([])
    fields = {**RUN, "workflow_url": "d0/a", "workflow_params": texts[kind]}
    try:
        read_run(fields, attachments, engine_version="1")
    except InvalidRun as error:
        refused = error
    assert time.process_time() - began < MOST_TIME
    assert len(refused.message) < 20_000


@pytest.mark.attack("breaks what readers of its run see by properties and commands of its own")
@pytest.mark.parametrize("stored", [None, 1, "x", [1], {"run_id": "other", "state": 7}])
async def test_overwritten_run(runs: RunWorld, stored: JSON) -> None:
    it = runs.world
    run = await it.submit("a", properties={"wes": stored, "wes.tag.x": 5})
    supervisor = await it.lock(run["container_uuid"])
    path = f"containers/{run['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    await it.submit(requesting_container_uuid=run["container_uuid"], command=None, name=None)
    for path in ("runs", f"runs/{run['uuid']}", f"runs/{run['uuid']}/tasks"):
        reply: ApiReply = await runs.call("GET", path)
        assert reply.status == 200, reply.body
    shown: Any = (await runs.call("GET", f"runs/{run['uuid']}")).json
    assert shown["run_id"] == run["uuid"]
