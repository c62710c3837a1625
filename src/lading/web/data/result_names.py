"""Names of the outputs and logs of requests in lists: by step and run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lading.client.api import Record
from lading.client.request_states import shown_command
from lading.core.errors import LadingError
from lading.core.ids import Infix, is_uuid
from lading.core.runs.attempts import STEP, is_run
from lading.web.visit import Visit

# How the server names a result whose request has no name for it.
_KINDS: Final = {
    "Container output for request ": "Output of",
    "Container log for request ": "Log of",
}
_SELECT: Final = ("uuid", "name", "command", "owner_uuid", "properties")


@dataclass(frozen=True, slots=True)
class ResultName:
    """The title of a result, and its step and run, "" for a request of no run."""

    title: str
    about: str


async def name_results(visit: Visit, collections: Iterable[Record]) -> dict[str, ResultName]:
    """The names of those of `collections` that the server has named by a request, by their uuids.

    Results of requests that the reader cannot read are left out.
    """
    subjects = {
        collection["uuid"]: (words, request)
        for collection in collections
        for prefix, words in _KINDS.items()
        if (request := str(collection["name"] or "").removeprefix(prefix))
        and is_uuid(request, Infix.REQUEST)
    }
    if not subjects:
        return {}
    requests: dict[str, Record] = {}
    runs: dict[str, str] = {}
    # A token of limited scope reads no requests, which is no reason not to show the list.
    with suppress(LadingError):
        asked = sorted({request for _, request in subjects.values()})
        records = await visit.api.list(
            "container_requests",
            filters=[["uuid", "in", asked]],
            select=_SELECT,
            limit=len(asked),
        )
        requests = {record["uuid"]: record for record in records}
        runs = await _run_names(visit, requests.values())
    names: dict[str, ResultName] = {}
    for collection, (words, uuid) in subjects.items():
        if (record := requests.get(uuid)) is not None:
            title = f"{words} {record['name'] or shown_command(record)}"
            run = runs.get(record["owner_uuid"], "")
            step = record["properties"].get(STEP)
            parts = [f"step {step}" if isinstance(step, str) else "", f"run {run}" if run else ""]
            names[collection] = ResultName(title, ", ".join(filter(None, parts)))
    return names


async def _run_names(visit: Visit, requests: Iterable[Record]) -> dict[str, str]:
    """The names of the runs that own some of these requests, by their uuids."""
    owners = sorted({str(request["owner_uuid"]) for request in requests})
    projects = [uuid for uuid in owners if is_uuid(uuid, Infix.GROUP)]
    if not projects:
        return {}
    records = await visit.api.list(
        "groups",
        filters=[["uuid", "in", projects]],
        select=("uuid", "name", "properties"),
        limit=len(projects),
    )
    return {record["uuid"]: record["name"] for record in records if is_run(record["properties"])}
