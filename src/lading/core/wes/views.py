"""Runs and their tasks as clients see them.

States are those of tasks (`core.tes.states`); a run is in one as its runner is. Times are in
seconds of UTC. The address of a log is one of the API: it takes the same credentials, also while
the log is written.

Source: GA4GH Workflow Execution Service 1.1.0, RunLog, RunSummary, TaskLog; docs/wes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lading.core.containers.container import ContainerState
from lading.core.tes.states import TaskState, failure, state_of
from lading.core.values import Json, JsonObject
from lading.core.wes.mapping import PROPERTY, sent_params, tags_of

API = "/arvados/v1"
RUNS = "/ga4gh/wes/v1/runs"
TASKS = "/ga4gh/tes/v1/tasks"


def show_status(request: Mapping[str, Any], container: Mapping[str, Any] | None) -> JsonObject:
    """A RunStatus. `request` and `container` have what `state_of` needs."""
    return {"run_id": request["uuid"], "state": state_of(request, container)}


def show_summary(request: Mapping[str, Any], container: Mapping[str, Any] | None) -> JsonObject:
    """A RunSummary."""
    return {
        **show_status(request, container),
        **_times(container),
        "tags": {**tags_of(request["properties"])},
    }


def show_run(
    request: Mapping[str, Any],
    container: Mapping[str, Any] | None,
    *,
    url: str,
    outputs: JsonObject,
    notes: tuple[str, ...] = (),
) -> JsonObject:
    """A RunLog. `url` is the address of the server, `outputs` the output object, {} while there is
    none, `notes` sentences for the system log.
    """
    tags = tags_of(request["properties"])
    return {
        "run_id": request["uuid"],
        "request": {
            **_stored(request),
            "workflow_params": sent_params(request["mounts"]),
            **({"tags": {**tags}} if tags else {}),
        },
        "state": state_of(request, container),
        "run_log": _log(request, container, url=url, notes=notes),
        "task_logs_url": f"{url}{RUNS}/{request['uuid']}/tasks",
        "task_logs": None,
        "outputs": outputs,
    }


def _stored(request: Mapping[str, Any]) -> JsonObject:
    """The property of a run. A writer of the request may overwrite it by anything."""
    found = request["properties"].get(PROPERTY)
    return found if isinstance(found, dict) else {}


def show_task(
    request: Mapping[str, Any], container: Mapping[str, Any] | None, *, url: str
) -> JsonObject:
    """A TaskLog: a request that the runner made."""
    return {
        "id": request["uuid"],
        **_log(request, container, url=url, notes=()),
        "tes_uri": f"{url}{TASKS}/{request['uuid']}",
    }


def _log(
    request: Mapping[str, Any],
    container: Mapping[str, Any] | None,
    *,
    url: str,
    notes: tuple[str, ...],
) -> JsonObject:
    log: JsonObject = {
        "name": request["name"] or str(next(iter(request["command"] or ()), "")),
        "cmd": [*(request["command"] or ())],
        **_times(container),
    }
    if container is not None:
        at = f"{url}{API}/container_requests/{request['uuid']}/log/{container['uuid']}"
        log |= {"stdout": f"{at}/stdout.txt", "stderr": f"{at}/stderr.txt"}
        if container["state"] == ContainerState.COMPLETE and container["exit_code"] is not None:
            log["exit_code"] = container["exit_code"]
    log["system_logs"] = [*_system_logs(request, container), *notes]
    return log


def _system_logs(request: Mapping[str, Any], container: Mapping[str, Any] | None) -> list[Json]:
    """The cause of a failure first."""
    status = (container or {}).get("runtime_status") or {}
    logs: list[Json] = []
    if state_of(request, container) in (TaskState.SYSTEM_ERROR, TaskState.PREEMPTED):
        logs.append(f"{failure(container) or 'error'}: {status.get('error') or 'no cause known'}")
    elif status.get("error"):
        logs.append(str(status["error"]))
    if status.get("warning"):
        logs.append(f"warning: {status['warning']}")
    return logs


def _times(container: Mapping[str, Any] | None) -> JsonObject:
    names = {"started_at": "start_time", "finished_at": "end_time"}
    return {
        shown: f"{container[name][:19]}Z"
        for name, shown in names.items()
        if container is not None and container[name]
    }
