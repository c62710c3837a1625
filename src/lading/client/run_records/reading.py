"""Runs that are found by name, and their steps, as clients read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.failures import read_last_lines
from lading.client.run_records.submitting import named_run
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.runs.step_groups import RunStep, read_step

_PAGE: Final = 5000
"""Steps of one call."""
_MOST: Final = 100_000
"""Steps of a run that are read."""
LAST: Final = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReference:
    """A run: its uuid, and the attempt that is meant, None for the latest."""

    uuid: str
    attempt: int | None = None

    @property
    def plural(self) -> str:
        """The type of its record."""
        is_request = infix_of(self.uuid) == Infix.REQUEST
        return "container_requests" if is_request else "groups"


async def find_run(api: ApiClient, reference: str) -> RunReference:
    """The run with this name or uuid, `last` for the one begun last; `#N` behind it names an
    attempt. Of several with the name, that of the caller, then the one begun last. Raises NotFound.
    """
    name, attempt = named_run(reference)
    if is_uuid(name):
        return RunReference(uuid=name, attempt=attempt)
    params: Record = {"limit": 100} if name != LAST else {"limit": 1}
    if name != LAST:
        params["name"] = name
    answer: Any = await api.request("GET", "groups/runs", params=params)
    same = [item for item in answer["items"] if name in (LAST, item["name"])]
    if not same:
        near = ", ".join(dict.fromkeys(str(item["name"]) for item in answer["items"][:5]))
        hint = f"; there are {near}" if near else "; 'lading runs' lists the runs"
        raise NotFound(f"{name}: no run is called so{hint}")
    if len(same) > 1:
        user = await api.get("users", "current", select=("uuid",))
        same = [item for item in same if item["user_uuid"] == user["uuid"]] or same
    return RunReference(uuid=str(same[0]["uuid"]), attempt=attempt)


async def read_run(api: ApiClient, reference: RunReference) -> Record:
    """A run, as the list shows it. Raises NotFound."""
    return await _get(api, reference, "run")


async def list_runs(api: ApiClient, *, limit: int, **parameters: Any) -> list[Record]:
    """The first `limit` runs that meet the parameters of the call `groups/runs`."""
    runs: list[Record] = []
    params: Record = {name: value for name, value in parameters.items() if value}
    while len(runs) < limit:
        answer: Any = await api.request(
            "GET", "groups/runs", params={**params, "limit": min(100, limit - len(runs))}
        )
        runs += answer["items"]
        if not answer["next"]:
            break
        params["after"] = answer["next"]
    return runs


async def read_steps(
    api: ApiClient, reference: RunReference, *, page: int = _PAGE
) -> list[RunStep]:
    """All steps of an attempt, in the order of submission. Raises NotFound, Invalid for more than
    100,000.
    """
    steps: list[RunStep] = []
    after: str | None = None
    while True:
        more: Record = {"limit": page, **({"after": after} if after else {})}
        answer = await _get(api, reference, "run_steps", **more)
        steps += [read_step(item) for item in answer["items"]]
        after = answer["next"]
        if after is None:
            return steps
        if len(steps) >= _MOST:
            raise Invalid(f"{reference.uuid}: has more than {_MOST:,} steps; use its page")


async def input_names(api: ApiClient, contents: Sequence[str]) -> dict[str, str]:
    """The names of collections with these portable data hashes that the caller can read, by hash:
    that of the oldest. Records without a name are left out.
    """
    if not contents:
        return {}
    rows = await api.list(
        "collections",
        filters=[["portable_data_hash", "in", list(contents)]],
        select=("portable_data_hash", "name"),
        order=("created_at desc",),
        limit=1000,
    )
    return {row["portable_data_hash"]: row["name"] for row in rows if row["name"]}


async def last_lines(api: ApiClient, step: RunStep, *, most: int) -> list[str]:
    """The last lines that the command of a failed step wrote; [] where its log cannot be read."""
    container = {
        "uuid": step.container_uuid,
        "state": "Complete" if step.exit_code is not None else "Cancelled",
        "exit_code": step.exit_code,
        "runtime_status": {"failure": "user"},
        "started_at": step.started_at,
    }
    outcome = RequestOutcome({"uuid": step.uuid, "state": "Final"}, container)
    try:
        _, lines = await read_last_lines(api, outcome, most=most)
    # The lines are shown beside a failure that is known without them.
    except LadingError:
        return []
    return lines


async def begin(
    api: ApiClient,
    name: str,
    *,
    project: str | None = None,
    attempt: int | None = None,
    session: str = "",
    params: Record | None = None,
    source: Record | None = None,
) -> Record:
    """Begin or join an attempt: `uuid`, `name`, `attempt`, `is_new`. Raises Invalid, Forbidden."""
    body: Record = {"name": name, "session": session, "params": params or {}}
    body |= {"source": source} if source else {}
    body |= {"project": project} if project else {}
    body |= {"attempt": attempt} if attempt else {}
    begun: Record = await api.action("groups", None, "begin_run", body=body)
    return begun


async def end(api: ApiClient, uuid: str, *, attempt: int | None, outcome: str, note: str) -> Record:
    """Report how the program of an attempt ended; the run."""
    body: Record = {"outcome": outcome, "note": note[:1000]}
    body |= {"attempt": attempt} if attempt else {}
    ended: Record = await api.action("groups", uuid, "end_run", body=body)
    return ended


async def _get(api: ApiClient, reference: RunReference, path: str, **more: Any) -> Record:
    params = {**more, **({"attempt": reference.attempt} if reference.attempt else {})}
    answer: Any = await api.request(
        "GET", f"{reference.plural}/{reference.uuid}/{path}", params=params
    )
    record: Record = answer
    return record
