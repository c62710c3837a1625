"""The document of WES."""

from __future__ import annotations

from typing import Any

from lading.core.wes.openapi import describe_wes


def test_operations() -> None:
    found: Any = describe_wes("/prefix")
    assert found["servers"] == [{"url": "/prefix"}]
    assert set(found["paths"]) == {
        "/service-info",
        "/runs",
        "/runs/{run_id}",
        "/runs/{run_id}/status",
        "/runs/{run_id}/tasks",
        "/runs/{run_id}/tasks/{task_id}",
        "/runs/{run_id}/cancel",
    }
    form = found["paths"]["/runs"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert "workflow_attachment" in form["schema"]["properties"]
