"""The OpenAPI document of the API, from the table of record types.

It has each path, and each status that a path can answer with; `make fuzz` tests the server against
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from lading import __version__
from lading.api.http import ApiCall, ApiResponse
from lading.core.ids import Infix
from lading.core.records.record_types import COLLECTIONS, RECORDS
from lading.core.records.schema import (
    Field,
    Parameter,
    Record,
    RecordAction,
    RecordType,
    Scope,
    Type,
)

_TYPES: Final[dict[Type, Record]] = {
    Type.STRING: {"type": "string"},
    Type.TIME: {"type": "string", "format": "date-time"},
    Type.INTEGER: {"type": "integer", "format": "int64"},
    Type.FLOAT: {"type": "number"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.OBJECT: {"type": "object"},
    Type.ARRAY: {"type": "array", "items": {}},
}
_OBJECT: Final[Record] = {"type": "object"}
_STRINGS: Final[Record] = {"type": "array", "items": {"type": "string"}}
_FILTERS: Final[Record] = {
    "type": "array",
    "items": {
        "anyOf": [{"type": "array", "items": {}, "minItems": 3, "maxItems": 3}, {"type": "string"}]
    },
}
_PARAMETERS: Final[dict[str, Record]] = {
    "filters": _FILTERS,
    "order": _STRINGS,
    "select": {**_STRINGS, "minItems": 1},
    "include": _STRINGS,
    "limit": {"type": "integer", "minimum": 0, "default": 100},
    "offset": {"type": "integer", "minimum": 0, "default": 0},
    "count": {"type": "string", "enum": ["exact", "none"], "default": "exact"},
}
_ERROR: Final[Record] = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": _STRINGS},
}
_REASONS: Final = {
    400: "It could not be read, or does not keep to the vocabulary.",
    401: "No token, an unknown one, or one that has expired.",
    403: "This token or user may not do this.",
    404: "There is no such record, or it cannot be read with this token.",
    405: "The path does not take this method.",
    409: "It was changed at the same time: read it again.",
    413: "The body is too large.",
    416: "The file has no such range of bytes.",
    422: "Understood and refused; the text names the fault.",
    502: "The stored data is damaged.",
    503: "Not possible now; try again later.",
    507: "No room is left.",
}
# Error statuses of all calls, and of writes.
_ALWAYS: Final = (400, 405, 422, 503)
# Conflicts with the present record, bodies beyond the limit, and a full disk concern writes alone.
_WRITES: Final = (409, 413, 507)
# Further statuses of some actions, beside those of all actions of their kind.
_ACTIONS: Final[dict[str, tuple[int, ...]]] = {"container_requests.log": (416, 502)}
_ANSWERS: Final[dict[str, Record]] = {
    "container_requests.container_status": {
        "type": "object",
        "required": ["uuid", "container_state", "scheduling_status"],
        "properties": {
            name: {"type": "string"} for name in ("uuid", "container_state", "scheduling_status")
        },
    },
    "containers.secret_mounts": {
        "type": "object",
        "required": ["secret_mounts"],
        "properties": {"secret_mounts": _OBJECT},
    },
    "credentials.secret": {
        "type": "object",
        "required": ["external_id", "secret"],
        "properties": {name: {"type": "string"} for name in ("external_id", "secret")},
    },
}
_STATUSES: Final[Record] = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {"type": "object", "additionalProperties": {"type": ["string", "object", "null"]}}
    },
}
_SIMPLE: Final = (
    ("/discovery/v1/apis/arvados/v1/rest", "The discovery document.", (405, 503)),
    ("/arvados/v1/openapi.json", "This document.", (405, 503)),
    ("/arvados/v1/config", "The exported configuration.", (405, 503)),
    ("/arvados/v1/vocabulary", "The vocabulary of properties.", (405, 503)),
    ("/status.json", "Number of listeners for events.", (405, 503)),
    (
        "/debug.json",
        "Events that listeners have not received yet; with the management token.",
        (401, 403, 405, 503),
    ),
    (
        "/metrics",
        "Figures in the text format of Prometheus; with the management token.",
        (401, 403, 405, 503),
    ),
    ("/_health/live", "Whether the server answers.", (405, 503)),
    ("/_health/ready", "Whether database and block store answer, too.", (405, 503)),
    (
        "/_health/ping",
        "Whether the server and its database answer; with the management token.",
        (401, 403, 405, 503),
    ),
)


_LOGINS: Final = (
    (
        "/arvados/v1/openid_connect/begin",
        "The address of the provider of OpenID Connect, for a login there.",
        (404, 422),
    ),
    (
        "/arvados/v1/openid_connect/finish",
        "A token, by the code with which the provider has answered.",
        (404, 422),
    ),
)
_WRITE_ONLY: Final = {
    (Infix.CREDENTIAL, "secret"),
    (Infix.REQUEST, "secret_mounts"),
    (Infix.REQUEST, "runtime_token"),
}


async def get_openapi(call: ApiCall) -> ApiResponse:
    """The OpenAPI document of this server."""
    return ApiResponse(
        body={**describe(), "servers": [{"url": call.services.config.ExternalURL or "/"}]}
    )


@cache
def describe() -> Record:
    """The document without the address of the server."""
    paths: Record = {}
    schemas: Record = {"Error": _ERROR}
    for kind in RECORDS:
        schemas[kind.schema] = _schema(kind)
        schemas[f"{kind.schema}List"] = _list_schema(kind)
        schemas[f"{kind.schema}Write"] = _write_schema(kind)
        for action in kind.actions:
            for method in _methods(action):
                paths.setdefault(_path(kind, action), {})[method] = _operation(kind, action, method)
    for path, doc, statuses in _SIMPLE:
        secure: Record = {} if 401 in statuses else {"security": []}
        paths[path] = {
            "get": {"summary": doc, **secure, "responses": _responses(_OBJECT, (400, *statuses))}
        }
    paths["/arvados/v1/dispatch/statuses"] = {
        "post": {
            "summary": "Reasons for which containers wait, from a dispatcher.",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _STATUSES}},
            },
            "responses": _responses(_OBJECT, (401, 403, *_ALWAYS, 413)),
        }
    }
    paths["/arvados/v1/health"] = {
        "get": {
            "summary": "The health of the parts of this site; for admins its storage too.",
            "responses": _responses(_OBJECT, (401, 403, *_ALWAYS)),
        }
    }
    paths["/arvados/v1/dispatch/machines"] = {
        "get": {
            "summary": "The machines of all dispatchers, as far as the caller may see them.",
            "responses": _responses(_OBJECT, (401, 403, *_ALWAYS)),
        },
        "post": {
            "summary": "The machines of a dispatcher; answers the orders of admins.",
            "responses": _responses(_OBJECT, (401, 403, *_ALWAYS, 413)),
        },
    }
    paths["/arvados/v1/dispatch/machines/order"] = {
        "post": {
            "summary": "Order an action for a machine (admin only).",
            "responses": _responses(_OBJECT, (401, 403, 404, 409, *_ALWAYS, 413)),
        }
    }
    for path, summary, statuses in _LOGINS:
        paths[path] = {
            "post": {
                "summary": summary,
                "security": [],
                "responses": _responses(_OBJECT, (401, 403, *statuses, *_ALWAYS, 413)),
            }
        }
    swept = {"204": {"description": "Swept."}, **_responses(_OBJECT, (401, 403, *_ALWAYS, 413))}
    del swept["200"]
    paths["/sys/trash_sweep"] = {
        "post": {"summary": "Sweep the trash now (admin only).", "responses": swept}
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lading", "version": __version__, "license": {"name": "Apache-2.0"}},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _methods(action: RecordAction) -> tuple[str, ...]:
    return ("put", "patch") if action.method == "PUT" else (action.method.lower(),)


def _path(kind: RecordType, action: RecordAction) -> str:
    parts = [
        kind.plural,
        "{uuid}" if action.scope is Scope.MEMBER else "",
        action.path,
        "{rest}" if action.has_subpath else "",
    ]
    return "/arvados/v1/" + "/".join(segment for segment in parts if segment)


def _operation(kind: RecordType, action: RecordAction, method: str) -> Record:
    parameters = [_parameter(parameter) for parameter in action.parameters]
    if action.scope is Scope.MEMBER:
        parameters.append({"name": "uuid", "in": "path", "required": True, "schema": _uuid(kind)})
    if action.has_subpath:
        parameters.append(
            {"name": "rest", "in": "path", "required": True, "schema": {"type": "string"}}
        )
    name = f"{kind.plural}.{action.name}"
    operation: Record = {
        "operationId": name if method != "patch" else f"{kind.plural}.patch",
        "summary": action.doc,
        "tags": [kind.plural],
        "parameters": parameters,
        "responses": _answers(kind, action, name),
    }
    if name == "keep_services.accessible":
        operation["security"] = []
    if action.body:
        operation["requestBody"] = {"content": {"application/json": {"schema": _body(kind)}}}
    elif action.has_subpath and action.method == "POST":
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"content": content}
    return operation


def _parameter(parameter: Parameter) -> Record:
    shown: Record = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.doc,
    }
    schema = _PARAMETERS.get(parameter.name, _TYPES[parameter.type])
    if parameter.type in (Type.ARRAY, Type.OBJECT):
        return {**shown, "content": {"application/json": {"schema": schema}}}
    return {**shown, "schema": schema}


def _uuid(kind: RecordType) -> Record:
    pattern = f"[0-9a-z]{{5}}-{kind.infix}-[0-9a-z]{{15}}"
    if kind is COLLECTIONS:
        pattern += r"|[0-9a-f]{32}\+[0-9]+"
    return {"type": "string", "pattern": f"^({pattern})$"}


def _body(kind: RecordType) -> Record:
    """The body of a write: attributes below the name of the type, or bare."""
    attributes = {"$ref": f"#/components/schemas/{kind.schema}Write"}
    wrapped = {
        "type": "object",
        "required": [kind.singular],
        "properties": {kind.singular: attributes},
    }
    return {"anyOf": [wrapped, attributes]}


def _answers(kind: RecordType, action: RecordAction, name: str) -> Record:
    statuses = {*_ALWAYS, 401, 403, *_ACTIONS.get(name, ())}
    named = any(parameter.name in ("uuid", "id") for parameter in action.parameters)
    if action.scope is Scope.MEMBER or named or action.method == "POST" or action.answer == "":
        statuses.add(404)
    if action.method != "GET":
        statuses |= set(_WRITES)
    if action.answer == "bytes":
        return _log_answers(sorted(statuses))
    answers = _responses(_ANSWERS.get(name, _answer(kind, action)), sorted(statuses))
    if action.name == "satisfy" or any(
        parameter.name == "satisfy" for parameter in action.parameters
    ):
        answers["202"] = {
            **answers["200"],
            "description": "Its container is still sought; ask again in a moment.",
        }
    return answers


def _answer(kind: RecordType, action: RecordAction) -> Record:
    match action.answer:
        case "object":
            return _OBJECT
        case "List":
            return {"$ref": f"#/components/schemas/{kind.schema}List"}
    return {"$ref": f"#/components/schemas/{action.answer or kind.schema}"}


def _log_answers(statuses: Iterable[int]) -> Record:
    plain_text = {"text/plain": {"schema": {"type": "string"}}}
    listing = {"application/json": {"schema": _OBJECT}}
    answers = _responses(_OBJECT, statuses)
    answers["200"] = {
        "description": "The file, or the list of the directory.",
        "content": {**plain_text, **listing},
    }
    answers["206"] = {
        "description": "The range of bytes that was asked for.",
        "content": plain_text,
    }
    return answers


def _responses(schema: Record, statuses: Iterable[int]) -> Record:
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    return {
        "200": {"description": "Done.", "content": {"application/json": {"schema": schema}}},
        **{str(status): {"description": _REASONS[status], **error} for status in statuses},
    }


def _schema(kind: RecordType) -> Record:
    return {
        "type": "object",
        "description": kind.doc,
        "properties": {field.name: _property(field) for field in kind.fields if not field.hidden},
    }


def _write_schema(kind: RecordType) -> Record:
    """The schema of attributes that can be written; others are ignored or refused."""
    writable = (
        field
        for field in kind.fields
        if not (field.fixed or field.readonly or field.derived or field.name == "uuid")
    )
    shown = (
        field for field in writable if not field.hidden or (kind.infix, field.name) in _WRITE_ONLY
    )
    return {"type": "object", "properties": {field.name: _property(field) for field in shown}}


def _property(field: Field) -> Record:
    shown = dict(_TYPES[field.type])
    if field.null and (not field.nested or field.default is None):
        shown["type"] = [shown["type"], "null"]
    if field.doc:
        shown["description"] = field.doc
    if field.fixed or field.readonly or field.derived:
        shown["readOnly"] = True
    return shown


def _list_schema(kind: RecordType) -> Record:
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.schema}"}}
    count = {"type": "integer", "minimum": 0}
    return {
        "type": "object",
        "required": ["kind", "items", "limit", "offset"],
        "properties": {
            "kind": {"const": f"{kind.kind}List"},
            "items": items,
            "items_available": count,
            "limit": count,
            "offset": count,
            "included": {"type": "array", "items": _OBJECT},
        },
    }
