"""The cases of the API: each route of its table, with parameters and bodies that name the victim's
things. A route, a parameter or a type of records without a value here fails (`Uncovered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from lading.api.routes import Routes, actions
from lading.core.records.schema import JSON, Parameter, Record, RecordAction, RecordType
from tests.security.sweep.victim import FAR, RUNNER, Victim

PREFIX: Final = "/arvados/v1/"
_JSON: Final = {"content-type": "application/json"}
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}
STREAM: Final = {"accept": "text/event-stream"}
_BODIED: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ACTIONS: Final = {f"{kind.plural}.{action.name}": (kind, action) for kind, action in actions()}


class Uncovered(AssertionError):
    """The sweep has no values for something new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call. `route` is the method and the pattern of the address."""

    route: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    in_page: bool = False

    @property
    def sent(self) -> bytes:
        """Everything that the caller has said."""
        return self.path.encode() + self.body + "".join(self.headers.values()).encode()


def api_cases(victim: Victim) -> Iterator[Case]:
    """The cases of all routes of the API."""
    for method, path, route in Routes().listed():
        name = f"{method} {path}"
        kind, action = _ACTIONS.get(route.name, (None, None))
        if kind is None or action is None:
            yield from _fixed(name, method, path, victim)
            continue
        if name.startswith("GET") and path.endswith("/log/{rest}"):
            for place in _places(path, kind, victim):
                yield Case(route=name, method=method, path=place, headers=STREAM)
        for place in _places(path, kind, victim):
            variants = list(_variants(kind, action, victim))
            # PATCH has the handler of PUT.
            for params, given in variants[:1] if method == "PATCH" else variants:
                yield _case(name, method, place, params, given)


def _case(route: str, method: str, path: str, params: Record, body: JSON = None) -> Case:
    if isinstance(body, bytes):
        return Case(route=route, method=method, path=_with(path, params), body=body)
    if method in _BODIED and (params or body is not None):
        text = msgspec.json.encode({**params, **(body or {})})
        return Case(route=route, method=method, path=path, body=text, headers=_JSON)
    return Case(route=route, method=method, path=_with(path, params))


def _with(path: str, params: Mapping[str, JSON]) -> str:
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in params.items()
    }
    return f"{path}?{urlencode(texts)}" if texts else path


def _places(path: str, kind: RecordType, victim: Victim) -> Iterator[str]:
    """The addresses of a route, for each thing of the victim that it can name."""
    if "{uuid}" not in path:
        yield path
        return
    for uuid in _named(kind, victim):
        below = path.replace("{uuid}", quote(uuid))
        if "{rest}" not in below:
            yield below
            continue
        for rest in _rests(uuid, victim):
            yield below.replace("/{rest}", f"/{rest}" if rest else "")


def _named(kind: RecordType, victim: Victim) -> list[str]:
    if kind.plural == "keep_services":
        return ["zzzzz-bi6l4-000000000000000"]
    also = victim.hashes[:2] if kind.plural == "collections" else []
    return [*victim.some(kind.plural), *also]


def _rests(uuid: str, victim: Victim) -> Iterator[str]:
    yield from ("", "stderr.txt")
    for one in victim.requests.values():
        if one["uuid"] == uuid and one["container_uuid"]:
            for name in ("/", "/stderr.txt", "/crunch-run.txt"):
                yield f"{one['container_uuid']}{name}"


def _variants(
    kind: RecordType, action: RecordAction, victim: Victim
) -> Iterator[tuple[Record, JSON]]:
    """Parameters and bodies of an action."""
    if (kind.plural, action.name) in _RAW:
        yield {"offset": 0}, _RAW[kind.plural, action.name]
        return
    bodies = list(_bodies(kind, action, victim))
    values = {one.name: _value(one, kind, victim) for one in action.parameters}
    required = {one.name: values[one.name] for one in action.parameters if one.required}
    yield required, bodies[0]
    for name, value in values.items():
        if name not in required and name not in _ALONE:
            yield {**required, name: value}, bodies[0]
    yield {name: values[name] for name in values if name not in _ALONE}, bodies[0]
    for body in bodies[1:]:
        yield required, body


# Said of all lists; they do nothing.
_ALONE: Final = frozenset({"cluster_id", "bypass_federation", "order", "where", "offset"})
_RAW: Final[Mapping[tuple[str, str], bytes]] = {("containers", "live"): b"forged"}


def _select(kind: RecordType, victim: Victim) -> JSON:
    return list(kind.visible)


def _included(kind: RecordType, victim: Victim) -> JSON:
    if kind.plural == "groups":
        return ["owner_uuid"]
    names = [one.name for one in kind.fields if one.stored and not one.hidden]
    return [name for name in names if name.endswith("_uuid")][:8]


def _uuids(kind: RecordType, victim: Victim) -> JSON:
    # Projects take requests, which become steps of a run.
    plural = "container_requests" if kind.plural == "groups" else kind.plural
    return victim.uuids.get(plural, [])


def _alternatives(kind: RecordType, victim: Victim) -> JSON:
    return victim.uuids["containers"]


def _filters(kind: RecordType, victim: Victim) -> JSON:
    if not kind.owned and not kind.stored:
        return [["user_uuid", "=", victim.user_uuid]]
    return [["uuid", "!=", ""]]


def _constant(value: JSON) -> Callable[[RecordType, Victim], JSON]:
    return lambda kind, victim: value


_VALUES: Final[Mapping[str, Callable[[RecordType, Victim], JSON]]] = {
    "after": _constant(f"{FAR} zzzzz"),
    "alternatives": _alternatives,
    "atomic": _constant(False),
    "attempt": _constant(1),
    "brief": _constant(True),
    "bypass_federation": _constant(True),
    "cluster_id": _constant("zzzzz"),
    "compared_with": lambda kind, victim: next(iter(victim.requests.values()))["uuid"],
    "container_requests": lambda kind, victim: list(_request_bodies(victim)),
    "count": _constant("exact"),
    "distinct": _constant(True),
    "ensure_unique_name": _constant(True),
    "exclude_home_project": _constant(True),
    "filters": _filters,
    "hash": lambda kind, victim: victim.hashes[0].partition("+")[0],
    "id": lambda kind, victim: victim.cancellation,
    "include": _included,
    "include_old_versions": _constant(True),
    "include_trash": _constant(True),
    "keep": _constant(1),
    "limit": _constant(1000),
    "log_ids": lambda kind, victim: list(range(100)),
    "name": _constant("forged"),
    "new_owner_uuid": lambda kind, victim: victim.user_uuid,
    "new_user_token": lambda kind, victim: victim.scoped,
    "new_user_uuid": lambda kind, victim: victim.user_uuid,
    "note": _constant("forged"),
    "offset": _constant(0),
    "old_user_uuid": lambda kind, victim: victim.user_uuid,
    "order": _constant(["modified_at desc"]),
    "outcome": _constant("failed"),
    "own": _constant(False),
    "params": _constant({"forged": True}),
    "password": _constant("x" * 50),
    "project": lambda kind, victim: victim.project,
    "reason": _constant("forged"),
    "recursive": _constant(True),
    "redirect_to_new_user": _constant(True),
    "replace_files": lambda kind, victim: {"/copied": f"{victim.hashes[0]}/{victim.file}"},
    "replace_segments": lambda kind, victim: {
        "d41d8cd98f00b204e9800998ecf8427e+0 0 0": f"{victim.block} 0 1"
    },
    "run": lambda kind, victim: {"name": "forged", "project": victim.project},
    "satisfy": _constant(True),
    "scopes": _constant(["all"]),
    "secret_digest": _constant("f" * 64),
    "select": _select,
    "session": _constant("forged"),
    "since": _constant("2020-01-01T00:00:00Z"),
    "skip": _constant(True),
    "source": _constant({"commit": "forged"}),
    "state": _constant("waiting"),
    "step": _constant("forged"),
    "user": lambda kind, victim: victim.user_uuid,
    "username": _constant("victim"),
    "uuid": lambda kind, victim: victim.project,
    "uuids": _uuids,
    "where": lambda kind, victim: {"uuid": _uuids(kind, victim)},
}


def _value(parameter: Parameter, kind: RecordType, victim: Victim) -> JSON:
    if parameter.name not in _VALUES:
        raise Uncovered(
            f"the parameter {parameter.name} of {kind.plural} has no value in the sweep"
        )
    return _VALUES[parameter.name](kind, victim)


def _bodies(kind: RecordType, action: RecordAction, victim: Victim) -> Iterator[JSON]:
    if (further := _FURTHER.get((kind.plural, action.name))) is not None:
        yield from further(victim)
        return
    if not action.body:
        yield None
        return
    sample = _SAMPLES.get(kind.plural)
    if sample is None:
        raise Uncovered(f"{kind.plural}: the sweep has no body for {action.name}")
    made = sample(victim)
    if action.name == "create":
        yield {kind.singular: made}
        yield from ({kind.singular: {**made, **one}} for one in _references(kind, victim))
        return
    # Changes one by one: a refused attribute must not hide that another one is taken.
    for name, value in made.items():
        if name != "uuid":
            yield {kind.singular: {name: value}}
    yield from ({kind.singular: one} for one in _references(kind, victim))


def _references(kind: RecordType, victim: Victim) -> Iterator[Record]:
    """Attributes that name other records, with things of the victim."""
    yield {"owner_uuid": victim.project}
    yield {"owner_uuid": victim.user_uuid}
    for one in kind.columns:
        if one.name.endswith("_uuid") and not (one.hidden or one.fixed or one.readonly):
            for plural in ("collections", "container_requests", "containers", "groups"):
                yield {one.name: victim.uuids[plural][0]}
    if kind.plural == "container_requests":
        yield from ({"state": state} for state in ("Uncommitted", "Committed", "Final"))
    if kind.plural == "containers":
        yield from ({"state": state} for state in ("Locked", "Running", "Complete", "Cancelled"))


def _request(victim: Victim) -> Record:
    return {
        "command": ["true"],
        "container_image": RUNNER,
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
        "priority": 1,
        "state": "Committed",
        "name": "forged",
        "description": "forged",
        "properties": {"forged": True},
    }


def _request_bodies(victim: Victim) -> Iterator[Record]:
    made = _request(victim)
    yield made
    yield from ({**made, "container_image": one} for one in victim.hashes)
    yield {**made, "owner_uuid": victim.project}
    for mount in (
        {"kind": "collection", "portable_data_hash": victim.hashes[0]},
        {"kind": "collection", "uuid": victim.uuids["collections"][0]},
        {"kind": "output", "container_request": victim.requests["done"]["uuid"]},
        {"kind": "git_tree", "uuid": victim.uuids["repositories"][0], "commit": "0" * 40},
    ):
        yield {**made, "mounts": {**made["mounts"], "/in": mount}}
    yield {**made, "depends_on": [victim.requests["queued"]["uuid"]]}
    yield {**made, "requesting_container_uuid": victim.container("running")}
    # Almost what the victim has run: the nearest earlier container is one of the victim's.
    yield {**made, "command": ["sh", "-c", "x"], "environment": {"DB_PASSWORD": "x"}}
    yield {**made, "filters": [["runtime_user_uuid", "=", victim.user_uuid]]}


def _group(victim: Victim) -> Record:
    return {"name": "forged", "group_class": "project", "description": "forged"}


_SAMPLES: Final[Mapping[str, Callable[[Victim], Record]]] = {
    "users": lambda victim: {
        "first_name": "forged",
        "prefs": {"forged": True},
        "is_active": False,
        "is_admin": True,
        "identity_url": "https://forged.example/",
        "username": "forged",
    },
    "api_client_authorizations": lambda victim: {"scopes": ["GET /forged"], "expires_at": FAR},
    "groups": _group,
    "collections": lambda victim: {
        "name": "forged",
        "manifest_text": f". {victim.block} 0:1:forged\n",
        "properties": {"forged": True},
        "description": "forged",
        "is_trashed": False,
    },
    "container_requests": _request,
    "containers": lambda victim: {
        "priority": 0,
        "runtime_status": {"error": "forged"},
        "exit_code": 0,
        "output": victim.hashes[0],
        "cost": 0,
        "progress": 0.5,
        "gateway_address": "127.0.0.1:2000",
        "scheduling_parameters": {"max_run_time": 1},
        "locked_by_uuid": None,
    },
    "links": lambda victim: {
        "link_class": "permission",
        "name": "can_manage",
        "tail_uuid": "zzzzz-tpzed-000000000000000",
        "head_uuid": victim.project,
        "properties": {"forged": True},
    },
    "workflows": lambda victim: {"name": "forged", "definition": "name: forged\n"},
    "credentials": lambda victim: {
        "name": "forged",
        "credential_class": "forged",
        "external_id": "forged",
        "secret": "forged",
        "expires_at": FAR,
    },
    "logs": lambda victim: {
        "event_type": "dispatch",
        "object_uuid": victim.container("queued"),
        "summary": "forged",
    },
    "repositories": lambda victim: {"name": "forged", "fetch_url": "https://git.example/f"},
    "virtual_machines": lambda victim: {"hostname": "forged"},
    "authorized_keys": lambda victim: {
        "name": "forged",
        "key_type": "SSH",
        "public_key": "ssh-ed25519 forged forged",
        "authorized_user_uuid": victim.user_uuid,
    },
    "webhooks": lambda victim: {
        "name": "forged",
        "url": "https://forged.example/",
        "event_types": ["*"],
        "project_uuid": victim.project,
    },
    "quotas": lambda victim: {
        "subject_uuid": victim.requests["queued"]["uuid"],
        "name": "forged",
        "budget": 0.0,
        "stop": True,
    },
}
_FURTHER: Final[Mapping[tuple[str, str], Callable[[Victim], Iterator[JSON]]]] = {
    ("container_requests", "preview"): lambda victim: (
        {"container_request": one} for one in _request_bodies(victim)
    ),
    ("container_requests", "create"): lambda victim: (
        {"container_request": one} for one in _request_bodies(victim)
    ),
    ("users", "batch_update"): lambda victim: iter(
        [{"updates": {victim.user_uuid: {"first_name": "forged"}}}]
    ),
    ("users", "setup"): lambda victim: iter([{"uuid": victim.user_uuid}]),
    ("containers", "progress"): lambda victim: iter([{"progress": 0.5}]),
    ("containers", "finish"): lambda victim: iter(
        [{"state": "Complete", "exit_code": 0, "output": {}, "log": {}}]
    ),
    ("users", "authenticate"): lambda victim: iter([None]),
}


def _fixed(route: str, method: str, path: str, victim: Victim) -> Iterator[Case]:
    """The cases of a route that is not an action of a type of records."""
    if "{uuid}" in path:
        uuids = [*victim.uuids["container_requests"], *victim.uuids["containers"]]
        if path == "/arvados/v1/permissions/{uuid}":
            uuids = [victim.project, *victim.uuids["collections"], *uuids]
        for uuid in uuids:
            place = path.replace("{uuid}", uuid)
            yield Case(route=route, method=method, path=place)
            if method == "POST":
                yield Case(
                    route=route, method=method, path=place, headers=_FORM, body=b"probe=true"
                )
        return
    if route in ELSEWHERE:
        return
    if route not in _FIXED:
        if method != "GET":
            raise Uncovered(f"{route}: the sweep has no body for this new route")
        yield Case(route=route, method=method, path=path)
        return
    for params in _FIXED[route](victim):
        yield _case(route, method, path, params)


def _machine_report(victim: Victim) -> Record:
    return {"report": {"machines": [], "history": [], "uuids": victim.uuids["containers"]}}


_FIXED: Final[Mapping[str, Callable[[Victim], list[Record]]]] = {
    "GET /arvados/v1/user_agreements/signatures": lambda victim: [{"uuid": victim.user_uuid}],
    "POST /arvados/v1/user_agreements/sign": lambda victim: [
        {"uuid": one} for one in victim.uuids["collections"]
    ],
    "POST /arvados/v1/dispatch/statuses": lambda victim: [
        {"items": {}},
        {"items": dict.fromkeys(victim.uuids["containers"], "forged")},
        {
            "items": {},
            "events": [
                {"container_uuid": one, "event_type": "dispatch", "text": "forged", "age": 0}
                for one in victim.uuids["containers"]
            ],
        },
        {"items": {}, "misfits": victim.uuids["containers"]},
    ],
    "POST /arvados/v1/dispatch/machines": lambda victim: [{}, _machine_report(victim)],
    "POST /arvados/v1/dispatch/machines/order": lambda victim: [
        {"dispatcher": victim.uuids["api_client_authorizations"][0], "machine": "m"}
    ],
    "POST /arvados/v1/openid_connect/begin": lambda victim: [{}],
    "POST /arvados/v1/openid_connect/finish": lambda victim: [{"code": "forged", "state": "x"}],
    "POST /sys/trash_sweep": lambda victim: [{}],
    "POST /login": lambda victim: [{}],
}
ELSEWHERE: Final[Mapping[str, str]] = {
    "GET /events": "test_streams listens to it",
    "GET /logout": "it ends the token of the caller, and names no other",
    "POST /logout": "it ends the token of the caller, and names no other",
}
"""Routes without a case, and the reasons."""
