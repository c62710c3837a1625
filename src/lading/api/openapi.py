"""The OpenAPI description, from the same table as routes and discovery document."""

from __future__ import annotations

from functools import cache
from typing import Final

from lading import __version__
from lading.api.exchange import Answer, Call
from lading.core.records import RECORDS
from lading.core.schema import Action, Field, Record, RecordType, Scope, Type

_TYPES: Final[dict[Type, Record]] = {
    Type.STRING: {"type": "string"},
    Type.TIME: {"type": "string", "format": "date-time"},
    Type.INTEGER: {"type": "integer", "format": "int64"},
    Type.FLOAT: {"type": "number"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.OBJECT: {"type": "object"},
    Type.ARRAY: {"type": "array", "items": {}},
}
_ERROR: Final[Record] = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}


async def get_document(call: Call) -> Answer:
    """The OpenAPI document of this server."""
    return Answer(body={**describe(), "servers": [{"url": call.services.config.ExternalURL or "/"}]})


@cache
def describe() -> Record:
    """Everything but the address."""
    paths: Record = {}
    schemas: Record = {"Error": _ERROR}
    for kind in RECORDS:
        schemas[kind.schema] = _schema(kind)
        schemas[f"{kind.schema}List"] = _list_schema(kind)
        for action in kind.actions:
            paths.setdefault(_path(kind, action), {})[action.method.lower()] = _operation(kind, action)
    for path, doc in (
        ("/discovery/v1/apis/arvados/v1/rest", "The discovery document."),
        ("/arvados/v1/config", "The exported configuration."),
        ("/arvados/v1/vocabulary", "The vocabulary of properties."),
    ):
        answer = {"200": {"description": doc, "content": {"application/json": {"schema": {"type": "object"}}}}}
        paths[path] = {"get": {"summary": doc, "security": [], "responses": answer}}
    statuses: Record = {
        "type": "object",
        "properties": {"items": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    paths["/arvados/v1/dispatch/statuses"] = {
        "post": {
            "summary": "Why containers wait, said by a dispatcher.",
            "requestBody": {"content": {"application/json": {"schema": statuses}}},
            "responses": _responses({"type": "object"}),
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lading", "version": __version__, "license": {"name": "Apache-2.0"}},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _path(kind: RecordType, action: Action) -> str:
    parts = [
        kind.plural,
        "{uuid}" if action.scope is Scope.MEMBER else "",
        action.path,
        "{rest}" if action.rest else "",
    ]
    return "/arvados/v1/" + "/".join(part for part in parts if part)


def _operation(kind: RecordType, action: Action) -> Record:
    parameters: list[Record] = [
        {"name": one.name, "in": "query", "description": one.doc, "schema": _TYPES[one.type]}
        for one in action.parameters
    ]
    for name, wanted in (("uuid", action.scope is Scope.MEMBER), ("rest", action.rest)):
        if wanted:
            parameters.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
    operation: Record = {
        "operationId": f"{kind.plural}.{action.name}",
        "summary": action.doc,
        "tags": [kind.plural],
        "parameters": parameters,
        "responses": _responses(_answer(kind, action)),
    }
    if action.body:
        schema = {"type": "object", "properties": {kind.singular: {"$ref": f"#/components/schemas/{kind.schema}"}}}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


def _answer(kind: RecordType, action: Action) -> Record:
    match action.answer:
        case "object" | "bytes":
            return {"type": "object"}
        case "List":
            return {"$ref": f"#/components/schemas/{kind.schema}List"}
    return {"$ref": f"#/components/schemas/{action.answer or kind.schema}"}


def _responses(schema: Record) -> Record:
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    return {
        "200": {"description": "Done.", "content": {"application/json": {"schema": schema}}},
        "4XX": {"description": "Refused; the text names the fault.", **error},
        "5XX": {"description": "Not possible now.", **error},
    }


def _schema(kind: RecordType) -> Record:
    return {
        "type": "object",
        "description": kind.doc,
        "properties": {one.name: _property(one) for one in kind.fields if not one.hidden},
    }


def _property(one: Field) -> Record:
    shown = dict(_TYPES[one.type])
    if one.doc:
        shown["description"] = one.doc
    if one.fixed or one.readonly or one.derived:
        shown["readOnly"] = True
    return shown


def _list_schema(kind: RecordType) -> Record:
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.schema}"}}
    count = {"type": "integer"}
    return {
        "type": "object",
        "properties": {"items": items, "items_available": count, "limit": count, "offset": count},
    }
