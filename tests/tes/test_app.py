"""TES over HTTP: addresses, credentials, refusals."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from lading.core.tes.backend_parameters import BACKEND
from lading.core.tes.mapping import TaskSite
from lading.tes.app import make_app, owns
from lading.tes.exchange import ServiceIdentity
from lading.tes.tasks import Tasks
from lading.testing.asgi import AsgiTransport
from lading.testing.world import call_asgi
from tests.tes.site import TaskWorld, task_world


async def test_service_info_in_both_forms(it: TaskWorld) -> None:
    for path in ("/ga4gh/tes/v1/service-info", "/v1/service-info/"):
        found = await it.ok("GET", path, token="")
        assert found["type"] == {"group": "org.ga4gh", "artifact": "tes", "version": "1.1.0"}
        assert found["tesResources_backend_parameters"] == [*BACKEND]
    old = await it.ok("GET", "/v1/tasks/service-info", token="")
    assert set(old) == {"name", "doc", "storage"}
    refused = await it.call("POST", "service-info")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_the_document_is_served(it: TaskWorld) -> None:
    for prefix in ("/ga4gh/tes/v1", "/v1"):
        found = await it.ok("GET", f"{prefix}/openapi.json", token="")
        assert found["servers"] == [{"url": prefix}]


async def test_service_info_may_be_private(tmp_path: Path) -> None:
    async with task_world(tmp_path, TES={"PublicServiceInfo": False}) as it:
        assert (await it.call("GET", "service-info", token="")).status == 401
        assert (await it.call("GET", "service-info", token="wrong")).status == 401
        assert (await it.call("GET", "service-info")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ga4gh/tes/v1", 404),
        ("GET", "/ga4gh/tes/v1/other", 404),
        ("GET", "/v1/tasks/a/b", 404),
        ("GET", "/v1/tasks/nothing", 404),
        ("GET", "/v1/tasks/zzzzz-xvhdp-000000000000000", 404),
        ("POST", "/v1/tasks/zzzzz-xvhdp-000000000000000:cancel", 404),
        ("POST", "/v1/tasks/zzzzz-xvhdp-000000000000000:stop", 404),
        ("POST", "/v1/tasks/zzzzz-xvhdp-000000000000000", 405),
        ("GET", "/v1/tasks/zzzzz-xvhdp-000000000000000:cancel", 405),
        ("DELETE", "/v1/tasks", 405),
    ],
)
async def test_wrong_addresses_are_json(it: TaskWorld, method: str, path: str, status: int) -> None:
    reply = await it.call(method, path)
    assert (reply.status, reply.json["status"], reply.headers["content-type"]) == (
        status,
        status,
        "application/json",
    )
    assert reply.json["msg"] == reply.json["detail"]


def test_what_is_owned() -> None:
    assert owns("/v1/tasks")
    assert owns("/ga4gh/tes/v1")
    assert not owns("/v1x")
    assert not owns("/ga4gh/wes/v1/runs")


async def test_credentials(it: TaskWorld) -> None:
    basic = b64encode(f"anybody:{it.world.admin}".encode()).decode()
    for header, status in (
        (f"Basic {basic}", 200),
        (f"bearer {it.world.admin}", 200),
        (f"Basic {b64encode(b'None:None').decode()}", 401),
        ("Bearer wrong", 401),
        ("", 401),
    ):
        reply = await it.call("GET", "tasks", token="", headers={"authorization": header})
        assert reply.status == status
        assert ("www-authenticate" in reply.headers) == (status == 401)


async def test_anonymous_callers_and_api_keys(tmp_path: Path) -> None:
    secret = "t" * 50
    async with task_world(tmp_path, TES={"AnonymousToken": secret, "APIKeyName": "X-Key"}) as it:
        admin = it.world.admin
        assert (await it.call("GET", "tasks", token="", headers={"x-key": admin})).status == 200
        assert (await it.call("GET", "tasks", token="", query=f"X-Key={admin}")).status == 200
        # The token is none that the API knows.
        assert (await it.call("GET", "tasks", token="")).status == 401


async def test_options_and_head(it: TaskWorld) -> None:
    reply = await it.call("OPTIONS", "tasks", token="")
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (204, "*")
    reply = await it.call("HEAD", "service-info")
    assert reply.body == b""
    assert int(reply.headers["content-length"]) > 100


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff", b"[" * 100_000, b"[" * 101 + b"]" * 101, b"[]", b"null"]
)
async def test_bodies_that_are_no_task(it: TaskWorld, raw: bytes) -> None:
    assert (await it.call("POST", "tasks", raw=raw)).status == 400


async def test_large_bodies(it: TaskWorld) -> None:
    size = {"content-length": str(17 << 20)}
    assert (await it.call("POST", "tasks", raw=b"{}", headers=size)).status == 413
    # Without a length the token is checked first.
    big = b" " * (17 << 20)
    assert (await it.call("POST", "tasks", raw=big)).status == 413
    assert (await it.call("POST", "tasks", raw=big, token="wrong")).status == 401


async def test_every_fault_has_a_pointer(it: TaskWorld) -> None:
    task = await it.task(name=1, volumes=["a"], executors=[{"image": "", "command": []}])
    reply = await it.call("POST", "tasks", task)
    assert reply.status == 400
    assert [one["pointer"] for one in reply.json["errors"]] == [
        "/name",
        "/executors/0/command",
        "/executors/0/image",
    ]
    assert (await it.ok("GET", "tasks"))["tasks"] == []


async def test_a_fault_of_ours_is_a_500(it: TaskWorld) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("fault")

    tasks = Tasks(
        AsgiTransport(broken),
        it.journal,
        it.worker,
        site=TaskSite(),
        secret=b"",
        clock=it.world.clock,
    )
    app = make_app(tasks, it.world.config.TES, ServiceIdentity(cluster="zzzzz", url=""))
    headers = {"authorization": "Bearer x"}
    reply = await call_asgi(app, "GET", "/v1/tasks", headers=headers)  # type: ignore[arg-type]
    assert reply.status == 500
