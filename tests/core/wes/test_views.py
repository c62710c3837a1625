"""Runs and tasks as clients see them."""

from __future__ import annotations

from typing import Any

from lading.core.wes.views import show_run, show_summary, show_task

REQUEST: dict[str, Any] = {
    "uuid": "r",
    "name": "",
    "command": ["run", "it"],
    "state": "Final",
    "priority": 500,
    "attempted_container_uuids": [],
    "properties": {"wes": {"workflow_type": "CWL"}, "wes.tag.a": "b"},
    "mounts": {},
}
CONTAINER: dict[str, Any] = {
    "uuid": "c",
    "state": "Complete",
    "exit_code": 0,
    "runtime_status": {"warning": "careful"},
    "started_at": "2026-01-02T03:04:05.000006000Z",
    "finished_at": None,
}
URL = "https://host"


def test_a_run() -> None:
    found: Any = show_run(REQUEST, CONTAINER, url=URL, outputs={"x": 1}, notes=("waits",))
    assert found["state"] == "COMPLETE"
    assert found["request"]["tags"] == {"a": "b"}
    log = found["run_log"]
    assert (log["name"], log["start_time"]) == ("run", "2026-01-02T03:04:05Z")
    assert "end_time" not in log
    assert log["stderr"] == f"{URL}/arvados/v1/container_requests/r/log/c/stderr.txt"
    assert log["system_logs"] == ["warning: careful", "waits"]


def test_a_run_without_tags_and_container() -> None:
    request = {**REQUEST, "properties": {"wes": {}}, "state": "Committed"}
    found: Any = show_run(request, None, url=URL, outputs={})
    assert "tags" not in found["request"]
    assert found["run_log"] == {"name": "run", "cmd": ["run", "it"], "system_logs": []}
    assert show_summary(request, None) == {"run_id": "r", "state": "QUEUED", "tags": {}}


def test_failures_are_first() -> None:
    status = {"failure": "image", "error": "no such image"}
    lost = {**CONTAINER, "state": "Cancelled", "exit_code": None, "runtime_status": status}
    found: Any = show_task({**REQUEST, "name": "n"}, lost, url=URL)
    assert (found["id"], found["name"]) == ("r", "n")
    assert found["system_logs"] == ["image: no such image"]
    assert "exit_code" not in found
    failed = {**CONTAINER, "exit_code": 1, "runtime_status": {"error": "step x failed"}}
    found = show_task(REQUEST, failed, url=URL)
    assert found["system_logs"] == ["step x failed"]
    found = show_task(REQUEST, {**lost, "runtime_status": {"failure": "node"}}, url=URL)
    assert found["system_logs"] == ["node: no cause known"]
