"""OpenAPI documents of TES and WES, for generators of clients and for tests of the answers.

They say what this server takes and answers: objects of answers have no other properties than
those named here.

Source: GA4GH Task Execution Service 1.1.0, Workflow Execution Service 1.1.0; docs/tes, docs/wes.
"""

from __future__ import annotations

from collections.abc import Mapping

from lading.core.tes.document import DIRECTORY, FILE
from lading.core.tes.listing import MAX_PAGE, TaskView
from lading.core.tes.states import TaskState
from lading.core.values import Json, JsonObject

TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"type": "array", "items": TEXT}
MAP: JsonObject = {"type": "object", "additionalProperties": TEXT}
_PATH: JsonObject = {"type": "string", "pattern": "^/"}
_FLAG: JsonObject = {"type": "boolean"}
_TIME: JsonObject = {"type": "string", "format": "date-time"}
_AMOUNT: JsonObject = {
    "type": "number",
    "minimum": 0,
    "maximum": 1 << 20,
}
STATE: JsonObject = {"type": "string", "enum": [*TaskState]}
# Statuses of refusals besides that of the operation.
_REFUSALS = {
    "400": "The request is malformed; the message names every fault.",
    "401": "The token is missing, unknown or expired.",
    "403": "The caller may not do this.",
    "404": "There is no such thing, or the caller may not see it.",
    "405": "The address does not offer this method.",
    "409": "Another call changed it at the same time.",
    "413": "The body is too large.",
    "429": "Too many requests.",
    "503": "The server cannot answer now; ask again.",
    "507": "The store is full.",
}
_TYPE: JsonObject = {"type": "string", "enum": [FILE, DIRECTORY]}
_INPUT: JsonObject = {
    "name": TEXT,
    "description": TEXT,
    "url": TEXT,
    "path": _PATH,
    "type": _TYPE,
    "content": TEXT,
    "streamable": _FLAG,
}
_OUTPUT: JsonObject = {
    "name": TEXT,
    "description": TEXT,
    "url": TEXT,
    "path": _PATH,
    "path_prefix": _PATH,
    "type": _TYPE,
}
_RESOURCES: JsonObject = {
    "cpu_cores": {"type": "integer", "minimum": 0, "maximum": 1 << 20},
    "preemptible": _FLAG,
    "ram_gb": _AMOUNT,
    "disk_gb": _AMOUNT,
    "zones": TEXTS,
    "backend_parameters": MAP,
    "backend_parameters_strict": _FLAG,
}
_EXECUTOR: JsonObject = {
    "image": TEXT,
    "command": {**TEXTS, "minItems": 1},
    "workdir": _PATH,
    "stdin": _PATH,
    "stdout": _PATH,
    "stderr": _PATH,
    "env": MAP,
    "ignore_error": _FLAG,
}


def closed(properties: Mapping[str, Json], *required: str) -> JsonObject:
    """The schema of an object without other properties."""
    found: JsonObject = {
        "type": "object",
        "properties": {**properties},
        "additionalProperties": False,
    }
    return {**found, "required": [*required]} if required else found


def several(schema: Json) -> JsonObject:
    """The schema of an array."""
    return {"type": "array", "items": schema}


def parameter(name: str, schema: JsonObject, *, location: str = "query") -> JsonObject:
    """A parameter of an operation."""
    needed: JsonObject = {"required": True} if location == "path" else {}
    return {"name": name, "in": location, **needed, "schema": schema}


def operation(
    name: str, answer: Json, *parameters: Json, error: Json, body: JsonObject | None = None
) -> JsonObject:
    """An operation that answers 200 with the schema `answer`, or a refusal with that of `error`.
    `body` are schemas of its body by media type.
    """
    responses: JsonObject = {
        status: {"description": description, "content": {"application/json": {"schema": error}}}
        for status, description in _REFUSALS.items()
    }
    done: JsonObject = {
        "description": "Done.",
        "content": {"application/json": {"schema": answer}},
    }
    described: JsonObject = {
        "operationId": name,
        "parameters": [*parameters],
        "responses": {"200": done, **responses},
        "security": [{"bearer": []}],
    }
    if body is not None:
        content: JsonObject = {kind: {"schema": schema} for kind, schema in body.items()}
        described["requestBody"] = {"required": True, "content": content}
    return described


def document(title: str, version: str, prefix: str, paths: JsonObject) -> JsonObject:
    """A whole document; `prefix` is the path of the server that its paths are below."""
    bearer: JsonObject = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.0.3",
        "info": {"title": title, "version": version},
        "servers": [{"url": prefix}],
        "paths": paths,
        "components": {"securitySchemes": {"bearer": bearer}},
    }


def service(more: Mapping[str, Json], *required: str) -> JsonObject:
    """The schema of service-info with the properties of a kind of service."""
    kind = closed({"group": TEXT, "artifact": TEXT, "version": TEXT}, "group", "artifact")
    organization = closed({"name": TEXT, "url": TEXT}, "name", "url")
    base = {"id": TEXT, "name": TEXT, "type": kind, "organization": organization, "version": TEXT}
    return closed({**base, **more}, *base, *required)


_TASK: JsonObject = {
    "name": TEXT,
    "description": TEXT,
    "inputs": several(closed(_INPUT, "path")),
    "outputs": several(closed(_OUTPUT, "url", "path")),
    "resources": closed(_RESOURCES),
    "executors": {**several(closed(_EXECUTOR, "image", "command")), "minItems": 1},
    "volumes": several(_PATH),
    "tags": MAP,
}
_EXECUTOR_LOG = closed(
    {
        "start_time": _TIME,
        "end_time": _TIME,
        "stdout": TEXT,
        "stderr": TEXT,
        "exit_code": {"type": "integer"},
    },
    "exit_code",
)
_FILE_LOG = closed(
    {"url": TEXT, "path": _PATH, "size_bytes": {"type": "string", "pattern": "^[0-9]+$"}},
    "url",
    "path",
    "size_bytes",
)
_TASK_LOG = closed(
    {
        "logs": several(_EXECUTOR_LOG),
        "metadata": MAP,
        "start_time": _TIME,
        "end_time": _TIME,
        "outputs": several(_FILE_LOG),
        "system_logs": TEXTS,
    },
    "logs",
    "outputs",
)
_SHOWN = closed(
    {"id": TEXT, "state": STATE, **_TASK, "logs": several(_TASK_LOG), "creation_time": _TIME},
    "id",
    "state",
)
_ERROR = closed(
    {
        "status": {"type": "integer"},
        "title": TEXT,
        "detail": TEXT,
        "msg": TEXT,
        "errors": several(closed({"pointer": TEXT, "detail": TEXT}, "pointer", "detail")),
    },
    "status",
    "title",
    "detail",
    "msg",
)


def describe_tes(prefix: str) -> JsonObject:
    """The document of TES."""
    task = parameter("id", TEXT, location="path")
    view = parameter("view", {"type": "string", "enum": [*TaskView]})
    query = (
        parameter("name_prefix", TEXT),
        parameter("state", STATE),
        parameter("tag_key", TEXTS),
        parameter("tag_value", TEXTS),
        parameter("page_size", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
        parameter("page_token", TEXT),
        view,
    )
    listed = closed({"tasks": several(_SHOWN), "next_page_token": TEXT}, "tasks")
    created = closed({"id": TEXT}, "id")
    info = service({"storage": TEXTS, "tesResources_backend_parameters": TEXTS})
    body: JsonObject = {"application/json": closed(_TASK, "executors")}
    paths: JsonObject = {
        "/service-info": {"get": operation("GetServiceInfo", info, error=_ERROR)},
        "/tasks": {
            "get": operation("ListTasks", listed, *query, error=_ERROR),
            "post": operation("CreateTask", created, error=_ERROR, body=body),
        },
        "/tasks/{id}": {"get": operation("GetTask", _SHOWN, task, view, error=_ERROR)},
        "/tasks/{id}:cancel": {"post": operation("CancelTask", closed({}), task, error=_ERROR)},
    }
    return document("Task Execution Service", "1.1.0", prefix, paths)
