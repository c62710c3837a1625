"""A version of a template from a run, or from one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.request_states import REPEATED, repeated
from lading.client.run_records.reading import RunReference, read_run, read_steps
from lading.core.errors import Invalid
from lading.core.runs.rerunning import plan_rerun, renew
from lading.core.runs.states import RunState
from lading.core.templates.making import MadeVersion, ParameterWish, make_version, pin

_BATCH: Final = 200
_FIELDS: Final = (
    *REPEATED, "uuid", "secrets_needed", "requesting_container_uuid", "container_uuid", "state",
    "scheduling_parameters",
)  # fmt: skip
_OF_CONTAINER: Final = ("uuid", "container_image", "mounts")
_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
_PROJECT: Final = "--project-uuid"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSource:
    """Requests of a run, or one request: pinned, and each after those that it needs."""

    name: str
    requests: list[dict[str, Any]]
    params: Record
    origin: Record


async def of_run(api: ApiClient, reference: RunReference) -> SavedSource:
    """The requests of a run. Raises Invalid for one that goes on, NotFound."""
    run = await read_run(api, reference)
    if run["state"] in _LIVE:
        raise Invalid(f"{run['name']}: is {run['state']}; save it as a template when it has ended")
    origin = {"uuid": run["uuid"], "name": run["name"], "attempt": run["attempt"]}
    if run["kind"] == "workflow":
        requests = await _read(api, [reference.uuid])
        return await _source(api, requests, run["name"], run["params"], origin)
    plan = plan_rerun(await read_steps(api, reference))
    rows = await _read(api, [step.uuid for step in plan.steps])
    asked = {step.container_uuid for step in plan.steps}
    # The container of another step asks for these again.
    rows = [row for row in rows if row["requesting_container_uuid"] not in asked]
    renewed = [renew(row, plan) for row in rows]
    return await _source(api, renewed, run["name"], run["params"], origin)


async def of_request(api: ApiClient, request: Record) -> SavedSource:
    """One request that was submitted. Raises Invalid, NotFound."""
    rows = await _read(api, [str(request["uuid"])])
    name = str(request["name"] or "")
    origin = {"uuid": request["uuid"], "name": name, "attempt": 1}
    return await _source(api, rows, name, {}, origin)


async def _source(
    api: ApiClient, rows: Sequence[Record], name: str, params: Record, origin: Record
) -> SavedSource:
    uuids = sorted({str(row["container_uuid"]) for row in rows if row["container_uuid"]})
    containers: dict[str, Record] = {}
    for start in range(0, len(uuids), _BATCH):
        some = uuids[start : start + _BATCH]
        filters = [["uuid", "in", some]]
        rows_read = await api.list(
            "containers", filters=filters, select=_OF_CONTAINER, limit=len(some)
        )
        containers |= {str(row["uuid"]): row for row in rows_read}
    position = {str(row["uuid"]): f"#{number}" for number, row in enumerate(rows)}
    requests: list[dict[str, Any]] = []
    for row in rows:
        body = repeated(row, position)
        outside = [uuid for uuid in body["depends_on"] if not uuid.startswith("#")]
        body["depends_on"] = [uuid for uuid in body["depends_on"] if uuid not in outside]
        if needed := row["secrets_needed"]:
            body["secrets_needed"] = needed
        # The project of the first execution is no business of the next one.
        body["command"] = [
            word for word in body.get("command") or () if not word.startswith(f"{_PROJECT}=")
        ]
        requests.append(pin(body, containers.get(row["container_uuid"] or "")))
    return SavedSource(name=name, requests=requests, params=params, origin=origin)


def version_of(source: SavedSource, wishes: Sequence[ParameterWish], note: str = "") -> MadeVersion:
    """The version that these parameters make of a source. Raises Invalid."""
    return make_version(source.requests, wishes, source.params, origin=source.origin, note=note)


async def _read(api: ApiClient, uuids: Sequence[str]) -> list[Record]:
    """Requests, in the order of their uuids. Raises Invalid where one is gone."""
    rows: dict[str, Record] = {}
    for start in range(0, len(uuids), _BATCH):
        filters = [["uuid", "in", list(uuids[start : start + _BATCH])]]
        async for page in api.pages("container_requests", filters=filters, select=_FIELDS):
            rows |= {str(row["uuid"]): row for row in page}
    if missing := next((uuid for uuid in uuids if uuid not in rows), None):
        raise Invalid(f"{missing}: was deleted meanwhile; save the template again")
    return [rows[uuid] for uuid in uuids]
