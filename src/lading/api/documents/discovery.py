"""The discovery document, from the table of record types: Arvados' clients build their methods from
it (docs/spec/api, section Discovery document).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from lading.api.documents.public import websocket_url
from lading.api.http import ApiCall, ApiResponse
from lading.core.records.record_types import RECORDS
from lading.core.records.schema import Parameter, Record, RecordAction, RecordType, Scope, Type

REVISION: Final = "20250402"
_DISCOVERY_TYPES: Final = {
    Type.STRING: "string",
    Type.TIME: "string",
    Type.INTEGER: "integer",
    Type.FLOAT: "number",
    Type.BOOLEAN: "boolean",
    Type.OBJECT: "object",
    Type.ARRAY: "array",
}
_SCOPES: Final = {
    "oauth2": {"scopes": {"https://api.arvados.org/auth/arvados": {"description": "Everything"}}}
}
_SCHEMA_TYPES: Final = {
    Type.TIME: "datetime",
    Type.FLOAT: "float",
    Type.OBJECT: "Hash",
    Type.ARRAY: "Array",
}


async def get_discovery(call: ApiCall) -> ApiResponse:
    """The discovery document of this server."""
    config = call.services.config
    url = config.ExternalURL
    return ApiResponse(
        body={
            "kind": "discovery#restDescription",
            "discoveryVersion": "v1",
            "id": "arvados:v1",
            "name": "arvados",
            "version": "v1",
            "revision": REVISION,
            "source_version": "lading",
            "title": "Lading",
            "description": "Runs containers as records; implements the Arvados v1 API.",
            "documentationLink": f"{url}arvados/v1/openapi.json",
            "generatedAt": call.services.clock.now(),
            "protocol": "rest",
            "baseUrl": f"{url}arvados/v1/",
            "basePath": "/arvados/v1/",
            "rootUrl": url,
            "servicePath": "arvados/v1/",
            "batchPath": "batch",
            "uuidPrefix": config.ClusterID,
            "websocketUrl": websocket_url(url) or None,
            "keepWebServiceUrl": url,
            "workbenchUrl": "",
            "workbench2Url": "",
            "defaultTrashLifetime": int(config.Collections.DefaultTrashLifetime),
            "defaultCollectionReplication": config.Collections.DefaultReplication,
            "blobSignatureTtl": int(config.Collections.BlobSigningTTL),
            "maxRequestSize": config.API.MaxRequestSize,
            "maxItemsPerResponse": config.API.MaxItemsPerResponse,
            "dockerImageFormats": config.Containers.SupportedDockerImageFormats,
            "crunchLogUpdatePeriod": config.Containers.LogUpdatePeriod,
            "crunchLogUpdateSize": config.Containers.LogUpdateSize,
            "crunchLimitLogBytesPerJob": 0,
            "crunchLogBytesPerEvent": 0,
            "crunchLogPartialLineThrottlePeriod": 0,
            "crunchLogSecondsBetweenEvents": 0,
            "crunchLogThrottleBytes": 0,
            "crunchLogThrottleLines": 0,
            "crunchLogThrottlePeriod": 0,
            "remoteHosts": {},
            "remoteHostsViaDNS": False,
            "parameters": {
                "alt": {
                    "type": "string",
                    "description": "Data format.",
                    "default": "json",
                    "location": "query",
                },
                "oauth_token": {"type": "string", "description": "The token.", "location": "query"},
            },
            "auth": _SCOPES,
            **_tables(),
        }
    )


@cache
def _tables() -> Record:
    schemas: Record = {}
    resources: Record = {
        "configs": _single("configs", "config", "The exported configuration."),
        "vocabularies": _single("vocabularies", "vocabulary", "The vocabulary of properties."),
    }
    for kind in RECORDS:
        schemas[kind.schema] = _discovery_schema(kind)
        schemas[f"{kind.schema}List"] = _discovery_list_schema(kind)
        resources[kind.plural] = {
            "methods": {
                action.name: _method(kind, action)
                for action in kind.actions
                if not action.has_subpath
            }
        }
    return {"schemas": schemas, "resources": resources}


def _single(plural: str, path: str, doc: str) -> Record:
    method = {
        "id": f"arvados.{plural}.get",
        "path": path,
        "httpMethod": "GET",
        "description": doc,
        "parameters": {},
        "parameterOrder": [],
        "response": {},
        "scopes": list(_SCOPES["oauth2"]["scopes"]),
    }
    return {"methods": {"get": method}}


def _discovery_schema(kind: RecordType) -> Record:
    properties = {
        field.name: {
            "type": _SCHEMA_TYPES.get(field.type, _DISCOVERY_TYPES[field.type]),
            "description": field.doc,
        }
        for field in kind.fields
        if not field.hidden
    }
    return {
        "id": kind.schema,
        "description": kind.doc,
        "type": "object",
        "uuidPrefix": kind.infix,
        "properties": properties,
    }


def _discovery_list_schema(kind: RecordType) -> Record:
    return {
        "id": f"{kind.schema}List",
        "description": f"A list of {kind.schema}.",
        "type": "object",
        "properties": {
            "kind": {"type": "string", "default": f"{kind.kind}List"},
            "etag": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": kind.schema}},
            "items_available": {"type": "integer"},
            "limit": {"type": "integer"},
            "offset": {"type": "integer"},
            "self_link": {"type": "string"},
        },
    }


def _method(kind: RecordType, action: RecordAction) -> Record:
    parts = [kind.plural, "{uuid}" if action.scope is Scope.MEMBER else "", action.path]
    parameters: Record = {
        parameter.name: _discovery_parameter(parameter) for parameter in action.parameters
    }
    if action.scope is Scope.MEMBER:
        parameters["uuid"] = {
            "type": "string",
            "description": "Its uuid.",
            "required": True,
            "location": "path",
        }
    method: Record = {
        "id": f"arvados.{kind.plural}.{action.name}",
        "path": "/".join(segment for segment in parts if segment),
        "httpMethod": action.method,
        "description": action.doc,
        "parameters": parameters,
        "parameterOrder": ["uuid"] if action.scope is Scope.MEMBER else [],
        "response": _response(kind, action),
        "scopes": list(_SCOPES["oauth2"]["scopes"]),
    }
    if action.body:
        method["request"] = {"required": True, "properties": {kind.singular: {"$ref": kind.schema}}}
    return method


def _discovery_parameter(parameter: Parameter) -> Record:
    shown: Record = {
        "type": _DISCOVERY_TYPES[parameter.type],
        "required": parameter.required,
        "description": parameter.doc,
        "location": "query",
    }
    if parameter.default is not None:
        shown["default"] = (
            str(parameter.default).lower()
            if isinstance(parameter.default, bool)
            else str(parameter.default)
        )
    return shown


def _response(kind: RecordType, action: RecordAction) -> Record:
    match action.answer:
        case "":
            return {"$ref": kind.schema}
        case "List":
            return {"$ref": f"{kind.schema}List"}
        case "object" | "bytes":
            return {}
    return {"$ref": action.answer}
