"""Responses of the daemon of an HPC container, and its OpenAPI document.

Every response is JSend, {status, data}: `success`, `fail` for the caller's fault, `error` for the
daemon's; its HTTP status is 200 also for logical failures. Other statuses: 401 for a wrong
authorization, 404 and 405 for an unknown path or method, 400 and 413 for bytes that are no request.
Source: docs/spec/hpc-daemon, section Answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lading.core.hpc.daemon_configuration import CODE_PARAMETERS, DAEMON_PARAMETERS, KEYS
from lading.core.hpc.daemon_states import CodeStatus, ContainerStatus, ResultStatus, StartedBy

LOGS = ("stdout", "stderr")
COMMANDS = ("start", "kill", "upload")
_REFUSALS = {
    "400": "No HTTP request",
    "401": "Wrong or missing authorization",
    "404": "No such path",
    "405": "Another method",
    "413": "The body is too large",
}
_COMMAND = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
_CODE_NAME = {
    "type": "object",
    "properties": {"codeName": {"type": "string"}},
    "required": ["codeName"],
}
_QUERY = {
    "type": "object",
    "properties": {
        "containerStatus": {"enum": list(ContainerStatus)},
        "codeStatus": {"enum": list(CodeStatus)},
        "resultStatus": {"enum": list(ResultStatus)},
        "percentComplete": {"type": "number", "nullable": True, "minimum": 0, "maximum": 100},
        "codeExitStatus": {"type": "integer", "nullable": True},
        "startedBy": {"enum": [*StartedBy, None], "nullable": True},
        "reason": {"type": "string"},
    },
    "required": ["containerStatus", "codeStatus", "resultStatus", "percentComplete"],
}


class DocumentStatus(StrEnum):
    """The status of a response."""

    SUCCESS = "success"
    FAIL = "fail"
    ERROR = "error"


class DaemonCall(StrEnum):
    """The calls of the daemon."""

    CODE_CONFIGURATION = "code-configuration"
    DAEMON_CONFIGURATION = "daemon-configuration"
    CODE_NAME = "code-name"
    COMMAND = "command"
    QUERY = "query"
    HEARTBEAT = "heartbeat"
    LOG = "logs"
    DOCUMENT = "openapi.json"


@dataclass(frozen=True, slots=True)
class DaemonRoute:
    """One path: its call and method. Every path may end in a slash."""

    call: DaemonCall
    method: str
    title: str


ROUTES: Mapping[str, DaemonRoute] = MappingProxyType(
    {
        "/v1/code-configuration": DaemonRoute(
            DaemonCall.CODE_CONFIGURATION, "POST", "Parameters and files of the code"
        ),
        "/v1/code-parameters": DaemonRoute(
            DaemonCall.CODE_CONFIGURATION, "POST", "As code-configuration"
        ),
        "/v1/code-parameter-file": DaemonRoute(
            DaemonCall.CODE_CONFIGURATION, "POST", "As code-configuration"
        ),
        "/v1/daemon-configuration": DaemonRoute(
            DaemonCall.DAEMON_CONFIGURATION, "POST", "Settings of the daemon"
        ),
        "/v1/update": DaemonRoute(
            DaemonCall.DAEMON_CONFIGURATION, "POST", "As daemon-configuration"
        ),
        "/v1/code-name": DaemonRoute(
            DaemonCall.CODE_NAME,
            "POST",
            "Set the name of the code: codeName of daemon-configuration",
        ),
        "/v1/command": DaemonRoute(
            DaemonCall.COMMAND, "POST", "Start or kill the code, upload its results"
        ),
        "/v1/query": DaemonRoute(
            DaemonCall.QUERY,
            "GET",
            "The states, and how far the code is; "
            "waits for news with If-None-Match and Prefer: wait=SECONDS",
        ),
        "/v1/state": DaemonRoute(DaemonCall.QUERY, "GET", "As query"),
        "/v1/heartbeat": DaemonRoute(
            DaemonCall.HEARTBEAT, "GET", "The time of the daemon, as a sign of life"
        ),
        "/v1/logs/stdout": DaemonRoute(DaemonCall.LOG, "GET", "Standard output of the code"),
        "/v1/logs/stderr": DaemonRoute(DaemonCall.LOG, "GET", "Standard error of the code"),
        "/v1/openapi.json": DaemonRoute(DaemonCall.DOCUMENT, "GET", "This document"),
    }
)
"""Paths, including those of other versions of the daemon."""


def jsend(status: DocumentStatus, data: Mapping[str, Any]) -> bytes:
    """The body of an answer."""
    return json.dumps({"status": status, "data": data}).encode()


def openapi(version: str) -> dict[str, Any]:
    """The OpenAPI 3.0 document of the daemon."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "Lading HPC container daemon", "version": version},
        "security": [{"authorization": []}],
        "components": {
            "securitySchemes": {
                "authorization": {"type": "apiKey", "in": "header", "name": "Authorization"}
            }
        },
        "paths": {
            path: {route.method.lower(): _operation(path, route)} for path, route in ROUTES.items()
        },
    }


def _operation(path: str, route: DaemonRoute) -> dict[str, Any]:
    success = {"200": _answer(route.call)}
    if route.call is DaemonCall.LOG:
        success = {
            code: {"description": "Bytes of the log", "content": {"text/plain": {}}}
            for code in ("200", "206")
        }
        success["416"] = _json("The log does not reach there")
    refused = {code: _json(description) for code, description in _REFUSALS.items()}
    operation: dict[str, Any] = {
        "operationId": path.strip("/").replace("/", "-"),
        "summary": route.title,
        "responses": {**success, **refused},
    }
    if route.call in _BODIES:
        operation["requestBody"] = {"required": True, "content": _BODIES[route.call]}
    return operation


def _answer(call: DaemonCall) -> dict[str, Any]:
    if call is DaemonCall.DOCUMENT:
        return {
            "description": "This document",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    answer = _json(
        "An answer; `fail` and `error` have data.message",
        _QUERY if call is DaemonCall.QUERY else None,
    )
    if call is DaemonCall.HEARTBEAT:
        answer["content"]["text/plain"] = {}
    return answer


def _json(description: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "status": {"enum": list(DocumentStatus)},
            "data": data or {"type": "object"},
        },
        "required": ["status", "data"],
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameters(name: str, key: Mapping[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": {"key": key, "value": {}}, "required": ["key", "value"]}
    forms = [{"type": "array", "items": item}, {"type": "object"}]
    form = {"type": "object", "additionalProperties": {"type": "string", "format": "binary"}}
    return {
        "application/json": {"schema": {"type": "object", "properties": {name: {"anyOf": forms}}}},
        "multipart/form-data": {"schema": form},
    }


_BODIES: dict[DaemonCall, dict[str, Any]] = {
    DaemonCall.CODE_CONFIGURATION: _parameters(CODE_PARAMETERS, {"type": "string"}),
    DaemonCall.DAEMON_CONFIGURATION: _parameters(
        DAEMON_PARAMETERS, {"type": "string", "example": KEYS[0]}
    ),
    DaemonCall.CODE_NAME: {"application/json": {"schema": _CODE_NAME}},
    DaemonCall.COMMAND: {"application/json": {"schema": _COMMAND}},
}
