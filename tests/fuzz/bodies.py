"""Real bodies of every write route with something wrong in them: values of other types, far too
large, missing, odd.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from lading.core.records.record_types import RECORDS
from lading.core.records.schema import RecordAction, RecordType, Scope
from tests.fuzz.site import Site

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 1e308, -0.0, 1 << 31, 1 << 53, (1 << 63) - 1, 1 << 63,
    1 << 70, 10**400, "", " ", "null", "0", "1", "true", "x", "\0", "\ud800", "é\u202e\U0001f600",
    "../..", "/", "//", "a/b", "." * 300, "x" * 300, "x" * 100_000, "%s%n", "'; DROP TABLE logs;--",
    "$[0]", "{", "[", '{"a": 1}', "[1]", "2026-02-30", "now", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", "zzzzz-4zz18-000000000000000", "zzzzz-tpzed-000000000000000",
    "d41d8cd98f00b204e9800998ecf8427e+0", [], [[]], [None], [1, "a"], ["all"], ["GET /"], {},
    {"": ""}, {"a": None}, {"a": {"b": [1, {"c": "d"}]}}, {"kind": "tmp"},
    {"kind": "collection", "uuid": 5}, {"vcpus": [1, 2], "ram": -1},
)  # fmt: skip


def writes() -> Iterator[tuple[RecordType, RecordAction]]:
    """Every action that changes something."""
    for kind in RECORDS:
        for action in kind.actions:
            if action.method != "GET":
                yield kind, action


def seeds(site: Site) -> dict[str, dict[str, Any]]:
    """A body that is all right, by plural."""
    collection = site.uuid("collections")
    spec = site.loop.run_until_complete(site.world.spec("true", state="Uncommitted"))
    return {
        "users": {"username": "u", "email": "u@example.org", "prefs": {"a": 1}, "is_active": True},
        "api_client_authorizations": {"scopes": ["all"], "expires_at": "2040-01-01T00:00:00Z"},
        "collections": {
            "name": "n", "description": "d", "properties": {"k": "v"}, "trash_at": None,
            "manifest_text": ". d41d8cd98f00b204e9800998ecf8427e+0 0:0:f\n",
            "is_trashed": False, "storage_classes_desired": ["default"], "replication_desired": 1,
        },
        "container_requests": {
            **spec, "name": "n", "environment": {"A": "b"},
            "scheduling_parameters": {"max_run_time": 5}, "output_ttl": 0, "container_count_max": 2,
            "secret_mounts": {"/s": {"kind": "text", "content": "c"}}, "output_glob": ["*.txt"],
            "properties": {}, "use_existing": True, "output_properties": {}, "filters": None,
            "expires_at": None,
        },
        "containers": {
            "state": "Running", "priority": 1, "runtime_status": {"activity": "a"}, "exit_code": 0,
            "progress": 0.5,
        },
        "links": {
            "link_class": "tag", "name": "t", "head_uuid": collection, "tail_uuid": None,
            "properties": {},
        },
        "logs": {
            "event_type": "note", "object_uuid": collection, "summary": "s",
            "properties": {"text": "t"},
        },
        "workflows": {
            "name": "w", "description": "d", "definition": "name: w\nclass: Workflow\n",
            "collection_uuid": None,
        },
        "credentials": {
            "name": "c", "credential_class": "k", "external_id": "e", "secret": "s", "scopes": [],
            "expires_at": "2040-01-01",
        },
        "repositories": {"name": "r", "fetch_url": "https://git.example.org/r.git"},
        "groups": {
            "name": "g", "group_class": "project", "properties": {}, "description": "d",
            "trash_at": None,
        },
    }  # fmt: skip


def try_bodies(site: Site, *, calls: int, number: int) -> list[str]:
    """Make about so many calls, spread over all write routes; those that were answered with 5xx, or
    not with JSON.
    """
    chance = random.Random(number)
    every, known = list(writes()), seeds(site)
    faults: list[str] = []
    for _ in range(max(1, calls // len(every))):
        for kind, action in every:
            body = _body(kind, known.get(kind.plural, {}), chance)
            fault = _one(site, kind, action, body)
            if fault:
                faults.append(fault)
    return faults


def _one(site: Site, kind: RecordType, action: RecordAction, body: bytes) -> str:
    path = f"/arvados/v1/{kind.plural}"
    if action.scope is Scope.MEMBER:
        path += f"/{site.uuid(kind.plural) or 'zzzzz-4zz18-000000000000000'}"
    path += f"/{action.path}" if action.path else ""
    path += "/a.txt" if action.has_subpath else ""
    headers = {"Authorization": f"Bearer {site.token()}", "content-type": "application/json"}
    reply = site.send(action.method, path, headers, body)
    if reply.status < 500 and isinstance(json.loads(reply.body), dict):
        return ""
    return f"{action.method} {path}: {reply.status} {reply.body[:300]!r}\n  {body[:1000]!r}"


def _body(kind: RecordType, seed: dict[str, Any], chance: random.Random) -> bytes:
    attributes = copy.deepcopy(seed)
    for _ in range(chance.randrange(4)):
        _spoil(attributes, chance)
    document: Any = attributes if chance.random() < 0.5 else {kind.singular: attributes}
    if chance.random() < 0.1:
        document["ensure_unique_name"] = chance.choice(ODD)
    if chance.random() < 0.1:
        document["select"] = chance.choice(ODD)
    raw = json.dumps(document).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(raw) + 1)
        raw = raw[:at] + bytes([chance.randrange(256)]) + raw[at + chance.randrange(3) :]
    return raw


def _spoil(value: Any, chance: random.Random) -> None:
    """Change one thing somewhere in an object or array."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys or chance.random() < 0.1:
        if isinstance(value, dict):
            value[chance.choice(["", "nothing", "uuid", "owner_uuid", "a.b", "x" * 1000])] = (
                copy.deepcopy(chance.choice(ODD))
            )
        else:
            value.append(copy.deepcopy(chance.choice(ODD)))
        return
    key = chance.choice(keys)
    if isinstance(value[key], dict | list) and chance.random() < 0.6:
        _spoil(value[key], chance)
    elif chance.random() < 0.1:
        del value[key]
    else:
        value[key] = copy.deepcopy(chance.choice(ODD))
