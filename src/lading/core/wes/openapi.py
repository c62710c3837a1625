"""The OpenAPI document of WES, made of the parts of that of TES.

Source: GA4GH Workflow Execution Service 1.1.0; docs/wes.
"""

from __future__ import annotations

from lading.core.tes.openapi import (
    MAP,
    STATE,
    TEXT,
    TEXTS,
    closed,
    document,
    operation,
    parameter,
    service,
    several,
)
from lading.core.values import JsonObject
from lading.core.wes.document import TYPE, VERSIONS
from lading.core.wes.listing import MAX_PAGE

_OBJECT: JsonObject = {"type": "object"}
_SECONDS: JsonObject = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
_ERROR = closed({"msg": TEXT, "status_code": {"type": "integer"}}, "msg", "status_code")
_TIMES: JsonObject = {"start_time": _SECONDS, "end_time": _SECONDS}
_LOG: JsonObject = {
    "name": TEXT,
    "cmd": TEXTS,
    **_TIMES,
    "stdout": TEXT,
    "stderr": TEXT,
    "exit_code": {"type": "integer"},
    "system_logs": TEXTS,
}
_ID = closed({"run_id": TEXT}, "run_id")
_STATUS = closed({"run_id": TEXT, "state": STATE}, "run_id", "state")
_SUMMARY = closed({"run_id": TEXT, "state": STATE, **_TIMES, "tags": MAP}, "run_id", "tags")
_TASK = closed({"id": TEXT, **_LOG, "tes_uri": TEXT}, "id", "name")
_REQUEST = closed(
    {
        "workflow_params": _OBJECT,
        "workflow_type": TEXT,
        "workflow_type_version": TEXT,
        "workflow_url": TEXT,
        "workflow_engine": TEXT,
        "workflow_engine_version": TEXT,
        "workflow_engine_parameters": MAP,
        "tags": MAP,
    },
    "workflow_type",
    "workflow_type_version",
    "workflow_url",
)
_RUN = closed(
    {
        "run_id": TEXT,
        "request": _REQUEST,
        "state": STATE,
        "run_log": closed(_LOG),
        "task_logs_url": TEXT,
        "task_logs": {"type": "array", "items": _OBJECT, "nullable": True},
        "outputs": _OBJECT,
    },
    "run_id",
    "request",
    "state",
    "run_log",
    "outputs",
)
_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "workflow_params": TEXT,
        "workflow_type": {"type": "string", "enum": [TYPE]},
        "workflow_type_version": {"type": "string", "enum": [*VERSIONS]},
        "workflow_url": TEXT,
        "workflow_engine": TEXT,
        "workflow_engine_version": TEXT,
        "workflow_engine_parameters": TEXT,
        "tags": TEXT,
        "workflow_attachment": several({"type": "string", "format": "binary"}),
    },
    "required": ["workflow_params", "workflow_type", "workflow_type_version", "workflow_url"],
}

_BODY: JsonObject = {"multipart/form-data": _FORM}


def describe_wes(prefix: str) -> JsonObject:
    """The document of WES."""
    run = parameter("run_id", TEXT, location="path")
    task = parameter("task_id", TEXT, location="path")
    page = (
        parameter("page_size", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
        parameter("page_token", TEXT),
    )
    runs = closed({"runs": several(_SUMMARY), "next_page_token": TEXT}, "runs")
    tasks = closed({"task_logs": several(_TASK), "next_page_token": TEXT}, "task_logs")
    own: JsonObject = {
        "workflow_type_versions": {
            "type": "object",
            "additionalProperties": closed({"workflow_type_version": TEXTS}),
        },
        "supported_wes_versions": TEXTS,
        "supported_filesystem_protocols": TEXTS,
        "workflow_engine_versions": {
            "type": "object",
            "additionalProperties": closed({"workflow_engine_version": TEXTS}),
        },
        "default_workflow_engine_parameters": several(
            closed({"name": TEXT, "type": TEXT, "default_value": TEXT})
        ),
        "system_state_counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "auth_instructions_url": TEXT,
        "tags": MAP,
    }
    paths: JsonObject = {
        "/service-info": {"get": operation("GetServiceInfo", service(own, *own), error=_ERROR)},
        "/runs": {
            "get": operation("ListRuns", runs, *page, error=_ERROR),
            "post": operation(
                "RunWorkflow", _ID, error=_ERROR, body={"multipart/form-data": _FORM}
            ),
        },
        "/runs/{run_id}": {"get": operation("GetRunLog", _RUN, run, error=_ERROR)},
        "/runs/{run_id}/status": {"get": operation("GetRunStatus", _STATUS, run, error=_ERROR)},
        "/runs/{run_id}/tasks": {"get": operation("ListTasks", tasks, run, *page, error=_ERROR)},
        "/runs/{run_id}/tasks/{task_id}": {
            "get": operation("GetTask", _TASK, run, task, error=_ERROR)
        },
        "/runs/{run_id}/cancel": {"post": operation("CancelRun", _ID, run, error=_ERROR)},
    }
    return document("Workflow Execution Service", "1.1.0", prefix, paths)
