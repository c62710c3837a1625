"""The run that a request of the form belongs to."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.run_records import reading
from lading.core.errors import LadingError
from lading.core.runs.attempts import ATTEMPT

_SUGGESTED: Final = 30
"""Runs that the form suggests; any other name can be typed."""


async def names(api: ApiClient) -> list[str]:
    """The names of the runs that began last, without those of workflow runners."""
    runs: list[Record] = []
    # A token of limited scope reads no runs, which is no reason not to show the form.
    with suppress(LadingError):
        runs = await reading.list_runs(api, limit=_SUGGESTED)
    return list(dict.fromkeys(str(run["name"]) for run in runs if run["kind"] == "project"))


async def find(api: ApiClient, run: str) -> Record | None:
    """The run that the form names, with the parameters of its latest attempt; None without one."""
    runs: list[Record] = []
    with suppress(LadingError):
        runs = await _of_name(api, run)
    return runs[0] if runs else None


async def _of_name(api: ApiClient, run: str) -> list[Record]:
    """The runs with this name that are projects, the last begun first."""
    params: Record = {"name": run, "limit": 100}
    answer: Any = await api.request("GET", "groups/runs", params=params)
    return [item for item in answer["items"] if (item["name"], item["kind"]) == (run, "project")]


async def attributes(api: ApiClient, run: str, project: str, body: Record) -> dict[str, Any]:
    """The attributes that make a request a step of the latest attempt of a run. A run that is not
    there begins, in `project` or the caller's home. Raises Invalid, Forbidden.
    """
    same = await _of_name(api, run)
    if same:
        uuid, attempt = same[0]["uuid"], same[0]["attempt"]
    else:
        begun = await reading.begin(api, run, project=project or None)
        uuid, attempt = begun["uuid"], begun["attempt"]
    properties = {**(body.get("properties") or {}), ATTEMPT: attempt}
    return {"owner_uuid": uuid, "properties": properties}
