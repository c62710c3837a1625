"""Statuses of errors: each status where it belongs, one line that says why (docs/spec/api, section
Errors).

The clients retry 408, 409, 423, 500, 502, 503 and 504, so that nothing which stays wrong may be
answered with those.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lading.api.server.vocabulary import VOCABULARY
from lading.testing.world import World, world

NOBODY = "zzzzz-4zz18-000000000000009"
RETRIED = {408, 409, 423, 500, 502, 503, 504}
USER = "zzzzz-tpzed-00000000000000a"
FOO = "acbd18db4cc2f85cedef654fccc4a4d8+3"
UNSIGNED = f". {FOO} 0:3:foo\n"


@dataclass(frozen=True)
class Case:
    """A call, and how it is refused."""

    status: int
    words: str
    method: str
    path: str
    body: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    token: str = "admin"
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


CASES = (
    # 400: bad JSON, bad parameters, bad vocabulary
    Case(400, "not JSON", "POST", "collections", raw=b'{"name": '),
    Case(400, "must be a JSON object", "POST", "collections", raw=b"[]"),
    Case(400, "not JSON", "GET", "collections", params={"filters": "[["}),
    Case(400, "Content-Type", "POST", "collections", raw=b"<a/>",
         headers={"content-type": "text/xml"}),
    Case(400, "not valid for key 'species'", "POST", "collections",
         {"properties": {"species": "cat"}}),
    Case(400, "must be provided as 'hs'", "POST", "links",
         {"link_class": "t", "properties": {"species": "Human"}}),
    Case(400, "species", "POST", "container_requests", {"properties": {"species": "cat"}}),
    Case(400, "species", "POST", "groups",
         {"group_class": "project", "properties": {"species": "cat"}}),
    # 401: no, expired or unknown token
    Case(401, "Not logged in", "GET", "users/current", token=""),
    Case(401, "Not logged in", "GET", "users/current", token="unknown"),
    Case(401, "Not logged in", "GET", "users/current",
         token="v2/zzzzz-gj3su-000000000000009/secret"),
    Case(401, "Not logged in", "GET", "users/current", token="expired"),
    # 403: authenticated but denied
    Case(403, "Forbidden", "POST", "users", {"email": "x@example.org"}, token="user"),
    Case(403, "scopes of this token", "GET", "links", token="limited"),
    Case(403, "Uuid assignment not permitted", "POST", "collections", {"uuid": NOBODY},
         token="user"),
    Case(403, "manifest_text", "POST", "collections", {"manifest_text": UNSIGNED}, token="user"),
    # 404: not found, or not readable
    Case(404, "Path not found", "GET", f"collections/{NOBODY}"),
    Case(404, "Path not found", "GET", "collections/{hidden}", token="user"),
    Case(404, "Path not found", "PUT", "collections/{hidden}", {"name": "x"}, token="user"),
    Case(404, "Path not found", "DELETE", "collections/{hidden}", token="user"),
    Case(404, "Path not found", "GET", f"collections/{FOO}"),
    Case(404, "not associated with a container", "GET", "containers/current"),
    Case(404, "API endpoint not found", "GET", "nothing"),
    Case(404, "API endpoint not found", "GET", "/arvados/v2/collections"),
    # 405, 413
    Case(405, "API endpoint not found", "PUT", "collections"),
    Case(405, "API endpoint not found", "POST", f"collections/{NOBODY}"),
    Case(413, "more than 200000 bytes", "POST", "collections", raw=b" " * 200_001),
    # 422: validation, bad parameters, bad transitions, not resolvable, name collision
    Case(422, "unknown attribute 'x' for Collection", "POST", "collections", {"x": 1}),
    Case(422, "duplicate key value violates unique constraint", "POST", "collections",
         {"name": "taken"}),
    Case(422, "Uuid type field is 'tpzed', expected '4zz18'", "POST", "collections",
         {"uuid": USER}),
    Case(422, "does not match computed hash", "POST", "collections", {"portable_data_hash": FOO}),
    Case(422, "Item is not trashed, cannot untrash", "POST", "collections/{hidden}/untrash"),
    Case(422, "Invalid attribute 'x' in filter", "GET", "collections",
         params={"filters": [["x", "=", 1]]}),
    Case(422, "Invalid operator 'x'", "GET", "collections", params={"filters": [["uuid", "x", 1]]}),
    Case(422, "no longer supported", "GET", "collections",
         params={"filters": [["any", "@@", "x"]]}),
    Case(422, "Invalid attribute 'x' of Collection in select", "GET", "collections",
         params={"select": ["x"]}),
    Case(422, "select", "PUT", "collections/{hidden}", {"name": "y"}, params={"select": ["x"]}),
    Case(422, "limit", "GET", "collections", params={"limit": -1}),
    Case(422, "offset", "GET", "collections", params={"offset": "x"}),
    Case(422, "count", "GET", "collections", params={"count": "some"}),
    Case(422, "State cannot change from", "POST", "container_requests", {"state": "Final"}),
    Case(422, "cannot lock when", "POST", "containers/{running}/lock"),
    Case(422, "cannot unlock when", "POST", "containers/{running}/unlock"),
    Case(422, "can't be blank", "POST", "links", {"link_class": ""}),
    Case(422, "not found", "POST", "links", {"link_class": "tag", "head_uuid": NOBODY}),
)  # fmt: skip


@pytest.mark.parametrize(
    "case", CASES, ids=lambda one: f"{one.status}-{one.method}-{one.words[:30]}"
)
async def test_the_table(tmp_path: Any, case: Case) -> None:
    vocabulary = tmp_path / "vocabulary.json"
    vocabulary.write_text(
        '{"tags": {"species": {"strict": true, "values": '
        '{"hs": {"labels": [{"label": "Human"}]}}}}}'
    )
    api = {"VocabularyPath": str(vocabulary), "MaxRequestSize": 200_000}
    async with world(tmp_path, API=api) as it:
        names = {"hidden": "", "running": ""}
        if "{" in case.path:
            names["hidden"] = (await it.ok("POST", "collections", {"name": "hidden"}))["uuid"]
            names["running"] = (await it.submit())["container_uuid"]
            if "running" in case.path:
                supervisor = await it.lock(names["running"])
                await it.ok(
                    "PUT", f"containers/{names['running']}", {"state": "Running"}, token=supervisor
                )
        await it.ok("POST", "collections", {"name": "taken"})
        reply = await it.request(
            case.method,
            case.path.format(**names),
            case.body,
            params=case.params,
            token=await _token(it, case.token),
            raw=case.raw,
            headers=case.headers | {"x-request-id": "req-of-the-test"},
        )
    assert reply.status == case.status, reply.body
    assert reply.status not in RETRIED
    assert case.words in reply.error, reply.error
    assert "\n" not in reply.error
    assert "(req-of-the-test)" in reply.error
    assert reply.headers["x-request-id"] == "req-of-the-test"


async def _token(it: World, name: str) -> str:
    if name == "admin":
        return it.admin
    if name == "user":
        return await it.user("u")
    attributes = {
        "limited": {"scopes": ["GET /arvados/v1/users"]},
        "expired": {"expires_at": "2020-01-01"},
    }
    if name not in attributes:
        return name
    made = await it.ok("POST", "api_client_authorizations", attributes[name])
    return f"v2/{made['uuid']}/{made['api_token']}"


async def test_internal_faults_are_500_and_say_nothing(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise RuntimeError("a secret")

    token = await it.user("u")
    monkeypatch.setattr(it.app.services.features[VOCABULARY].__class__, "check", lambda *_: fail())
    reply = await it.request("POST", "collections", {"properties": {"a": 1}}, token=token)
    assert reply.status == 500
    assert "a secret" not in reply.error


async def test_what_passes_is_retried_and_says_so(tmp_path: Path) -> None:
    """409, 502 and 507: what somebody can put right, or what is over in a moment."""
    async with world(tmp_path) as it:
        request = await it.submit()
        container = request["container_uuid"]
        supervisor = await it.lock(container)
        live = f"containers/{container}/live"
        gap = await it.request(
            "POST", f"{live}/a.txt", params={"offset": 5}, raw=b"x", token=supervisor
        )
        assert (gap.status, "offset 5 leaves a gap: 0 bytes are there" in gap.error) == (409, True)
        (tmp_path / "live" / container / "full.txt").symlink_to("/dev/full")
        full = await it.request(
            "POST", f"{live}/full.txt", params={"offset": 0}, raw=b"x" * 9000, token=supervisor
        )
        assert (full.status, "No space left on device" in full.error) == (507, True)
        await it.finish(container, supervisor)
        it.blocks.damaged = True
        log = await it.request(
            "GET", f"container_requests/{request['uuid']}/log/{container}/crunch-run.txt"
        )
        assert (log.status, "the block is damaged" in log.error) == (502, True)


async def test_a_database_that_is_held_by_another_program_is_503(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        with sqlite3.connect(tmp_path / "db.sqlite", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            reply = await it.request("POST", "collections", {"name": "x"})
            other.execute("ROLLBACK")
        other.close()
        assert (reply.status, "try again" in reply.error) == (503, True)
        assert (await it.request("POST", "collections", {"name": "x"})).status == 200
