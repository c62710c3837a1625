"""WES over HTTP: addresses, forms, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.site import Config
from lading.core.errors import Full, LadingError, Malformed
from lading.tes.exchange import ServiceIdentity
from lading.tes.wes_app import MAX_BODY, make_app, owns, read_form
from lading.testing.asgi import AsgiTransport
from lading.testing.jumping_loop import jumping
from lading.testing.world import call_asgi
from tests.tes.run_site import FORM, PARAMS, PREFIX, RunWorld, form, run_world

RUN = "zzzzz-xvhdp-000000000000000"


async def test_service_info(runs: RunWorld) -> None:
    found = await runs.ok("GET", "service-info", token="")
    assert found["type"] == {"group": "org.ga4gh", "artifact": "wes", "version": "1.1.0"}
    assert found["workflow_type_versions"]["CWL"]["workflow_type_version"] == [
        "v1.0", "v1.1", "v1.2",
    ]  # fmt: skip
    assert found["system_state_counts"] == {}
    await runs.create()
    assert (await runs.ok("GET", "service-info"))["system_state_counts"] == {"QUEUED": 1}


async def test_the_document_is_served(runs: RunWorld) -> None:
    found = await runs.ok("GET", "openapi.json", token="")
    assert (found["info"]["version"], found["servers"][0]["url"]) == ("1.1.0", PREFIX)


async def test_service_info_may_be_private(tmp_path: Path) -> None:
    async with run_world(tmp_path, TES={"PublicServiceInfo": False}) as runs:
        assert (await runs.call("GET", "service-info", token="")).status == 401
        assert (await runs.call("GET", "service-info")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404),
        ("GET", "other", 404),
        ("GET", f"runs/{RUN}/other", 404),
        ("GET", f"runs/{RUN}/tasks/a/b", 404),
        ("GET", f"runs/{RUN}", 404),
        ("POST", f"runs/{RUN}/cancel", 404),
        ("POST", f"runs/{RUN}", 405),
        ("GET", f"runs/{RUN}/cancel", 405),
        ("DELETE", "runs", 405),
        ("POST", "service-info", 405),
    ],
)
async def test_wrong_addresses(runs: RunWorld, method: str, path: str, status: int) -> None:
    reply = await runs.call(method, path)
    assert (reply.status, reply.json["status_code"]) == (status, status)
    assert set(reply.json) == {"msg", "status_code"}


async def test_callers_without_a_token(runs: RunWorld) -> None:
    reply = await runs.call("GET", "runs", token="")
    assert (reply.status, "www-authenticate" in reply.headers) == (401, True)
    assert (await runs.call("OPTIONS", "runs", token="")).status == 204
    reply = await runs.call("HEAD", "runs")
    assert (reply.status, reply.body) == (200, b"")


async def test_anonymous_callers(tmp_path: Path) -> None:
    async with run_world(tmp_path, TES={"AnonymousToken": "t" * 50}) as runs:
        # The token is none that the API knows.
        assert (await runs.call("GET", "runs", token="")).status == 401
        assert (await runs.ok("GET", "runs"))["runs"] == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"workflow_type": "WDL"}, "workflow_type"),
        ({"workflow_url": "other.cwl"}, "no workflow_attachment"),
        ({"workflow_params": "["}, "not JSON"),
    ],
)
async def test_a_refused_run_stores_nothing(
    runs: RunWorld, changes: dict[str, str], fault: str
) -> None:
    reply = await runs.call("POST", "runs", form({**PARAMS, **changes}, {"main.cwl": b""}))
    assert (reply.status, fault in reply.json["msg"]) == (400, True)
    found = await runs.world.ok("GET", "container_requests")
    assert found["items"] == []


async def test_a_large_form(runs: RunWorld) -> None:
    large = form(PARAMS, {"main.cwl": b"x" * MAX_BODY})
    reply = await runs.call("POST", "runs", large)
    assert (reply.status, reply.json["status_code"]) == (413, 413)
    reply = await runs.call("POST", "runs", form(PARAMS, {"main.cwl": b"x" * 100_000}), token="no")
    assert reply.status == 401


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"", FORM),
        (b"a=%ff&a=1", "application/x-www-form-urlencoded"),
        (b"\xff", "application/x-www-form-urlencoded"),
        (form({"a": "1"}).replace(b'"a"\r\n\r\n1', b'"a"\r\n\r\n\xff'), FORM),
        (form({}, {"../a": b""}), FORM),
        (form({}, {"/a": b""}), FORM),
        (form({}, {"": b""}), FORM),
        (form({}, {"a": b"", "./a": b""}), FORM),
        (form({}, {"a": b"", "a/b": b""}), FORM),
    ],
)
async def test_forms_that_are_refused(runs: RunWorld, body: bytes, kind: str) -> None:
    assert (await runs.call("POST", "runs", body, kind=kind)).status == 400


def test_both_kinds_of_forms() -> None:
    assert read_form(b"a=1&b=", "application/x-www-form-urlencoded") == ({"a": "1", "b": ""}, {})
    found = read_form(form({"a": "1"}, {"x/y.cwl": b"z"}), FORM)
    assert found == ({"a": "1"}, {"x/y.cwl": b"z"})
    with pytest.raises(Malformed, match="twice"):
        read_form(b"a=1&a=2", "application/x-www-form-urlencoded")


@pytest.mark.parametrize(
    ("error", "status"), [(Full("gone"), 507), (LadingError("x"), 500), (ZeroDivisionError(), 500)]
)
@jumping
async def test_errors_of_the_server(error: Exception, status: int) -> None:
    async def broken(*_: object) -> None:
        raise error

    identity = ServiceIdentity(cluster="zzzzz", url="")
    app = make_app(
        AsgiTransport(broken),
        Config(ClusterID="zzzzz").TES,
        identity,
        image="i",
        engine_version="1",
        secret=b"s",
    )
    headers = {"authorization": "Bearer t"}
    reply = await call_asgi(app, "GET", f"{PREFIX}/runs", headers=headers)  # type: ignore[arg-type]
    assert (reply.status, reply.json["status_code"]) == (status, status)
    assert ("retry-after" in reply.headers) == (status == 507)


def test_what_is_owned() -> None:
    assert owns("/ga4gh/wes/v1")
    assert owns("/ga4gh/wes/v1/runs")
    assert not owns("/ga4gh/wes/v10")
