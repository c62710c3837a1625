"""The fields of one request, as `lading request show` prints them, after the last lines of one that
failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lading.cli import display
from lading.cli.references import find_request
from lading.cli.running import usage
from lading.cli.running.failures import failure_fields
from lading.cli.session import CliSession
from lading.client.explanations import attempt_texts, evidence_fields, withdrawal_text
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.failures import FailureReport, find_failure
from lading.client.request_states import (
    find_waits,
    is_reused,
    run_time,
    shown_container,
    shown_state,
    waits_unseen,
    whole_command,
)
from lading.client.sharing import names_of
from lading.core.containers import gpu_words
from lading.core.containers.attempts import spot
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import told_time

if TYPE_CHECKING:
    from lading.client.api import Record

_ATTEMPT = (
    "uuid",
    "state",
    "exit_code",
    "runtime_status",
    "runtime_constraints",
    "started_at",
    "finished_at",
    "cost",
    "subrequests_cost",
)


async def show(session: CliSession, name: str) -> None:
    """Print the details of the request with this name or uuid. Raises NotFound, Invalid and the
    errors of the API.
    """
    request = await find_request(session, name)
    container_uuid, tried = request["container_uuid"], await _tried(session, request)
    container = await session.api.get("containers", container_uuid) if container_uuid else None
    failure = await find_failure(session.api, RequestOutcome(request, container))
    evidence: Record = {}
    if container is not None and container["state"] == "Complete":
        evidence = await session.api.action("containers", container_uuid, "evidence", method="GET")
    if display.is_json_command():
        more = {"container": container, "evidence": evidence or None, "attempts": tried}
        display.emit_json({**request, **more, **failure_document(failure)})
        return
    unseen = waits_unseen(request, container)
    wait = (await find_waits(session.api, [request["uuid"]])).get(request["uuid"]) if unseen else {}
    owners = [request["committed_by_uuid"], request["owner_uuid"]]
    names = await names_of(session.api, [uuid for uuid in owners if uuid])
    if lines := failure_fields(failure):
        click.echo(f"{lines}\n")
    evidence_pairs = [(f"  {name}", proof) for name, proof in evidence_fields(evidence)]
    before = [
        (f"attempt {number}", f"{attempt['uuid']}: {end}")
        for number, (attempt, end) in enumerate(zip(tried, attempt_texts(tried), strict=True), 1)
    ]
    now = datetime.now(UTC)
    fields = describe(request, container, now, wait=wait, names=names)
    display.fields([*fields, *evidence_pairs, *before])


def failure_document(failure: FailureReport | None) -> dict[str, Any]:
    """The last lines of the failed step, and the step if it is another request, for programs."""
    if failure is None:
        return {"failed_step": None, "last_lines": []}
    step = failure.document() if failure.is_other else None
    return {"failed_step": step, "last_lines": failure.lines}


async def _tried(session: CliSession, request: Record) -> list[Record]:
    """The containers that were tried before, oldest first, but for deleted ones."""
    uuids = request.get("attempted_container_uuids") or []
    if not uuids:
        return []
    rows = await session.api.list(
        "containers", filters=[["uuid", "in", uuids]], limit=len(uuids), select=_ATTEMPT
    )
    containers = {row["uuid"]: row for row in rows}
    return [containers[uuid] for uuid in uuids if uuid in containers]


def describe(
    request: Record,
    container: Record | None,
    now: datetime,
    *,
    wait: Record | None = None,
    names: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Names and values of the relevant fields of a request; `wait` is that of `find_waits`, `names`
    are those of its user and project by uuid.
    """
    constraints, parameters = (
        request["runtime_constraints"],
        request.get("scheduling_parameters") or {},
    )
    pairs = [
        ("request", request["uuid"]),
        ("name", request["name"] or ""),
        ("state", shown_state(RequestOutcome(request, container), wait)),
        ("created", f"{request['created_at']} ({display.age(request['created_at'], now)} ago)"),
        ("ended", _ended(request, container, now)),
        ("user", _named(request.get("committed_by_uuid"), names)),
        ("project", _project(request, names)),
        ("priority", str(request["priority"])),
        ("command", whole_command(request)),
        ("image", request["container_image"]),
        (
            "needs",
            f"{_amount(constraints.get('vcpus'), str)} vcpus, "
            f"{_amount(constraints.get('ram'), display.size)}{_gpus(constraints)}",
        ),
        *(
            (f"mount {target}", _mount(mount))
            for target, mount in sorted(request["mounts"].items())
        ),
        ("after", ", ".join(request.get("depends_on") or ())),
        ("starts after", request.get("start_after") or ""),
        ("deadline", told_time(deadline) if (deadline := spot.deadline(parameters)) else ""),
        ("tried again after", request.get("retry_after") or ""),
        ("expires", request.get("expires_at") or ""),
        ("output", request["output_uuid"] or ""),
        ("log", request["log_uuid"] or ""),
    ]
    return pairs if container is None else pairs + _describe_container(request, container)


def _ended(request: Record, container: Record | None, now: datetime) -> str:
    """The time of the end; of a request that has the result of an earlier container, its own."""
    if request["state"] != "Final":
        return ""
    finished = str((container or {}).get("finished_at") or "")
    at = max(finished, request["created_at"]) if finished else str(request["modified_at"])
    return f"{at} ({display.age(at, now)} ago)"


def _named(uuid: str | None, names: Mapping[str, str]) -> str:
    """A name with its uuid."""
    if not uuid:
        return ""
    return f"{names[uuid]} ({uuid})" if uuid in names else uuid


def _project(request: Record, names: Mapping[str, str]) -> str:
    """The project; a request outside any is in the home of a user."""
    owner = str(request["owner_uuid"])
    return f"{'home of ' if is_uuid(owner, Infix.USER) else ''}{_named(owner, names)}"


def _describe_container(request: Record, container: Record) -> list[tuple[str, str]]:
    status = container["runtime_status"] or {}
    return [
        ("container", container["uuid"]),
        ("  state", shown_container(container)),
        ("  reused", "yes" if is_reused(request, container) else "no"),
        ("  given", _granted_resources(request["runtime_constraints"], container)),
        ("  started", container["started_at"] or ""),
        ("  took", _took(container)),
        *((f"  {name}", amount) for name, amount in usage.describe(container)),
        ("  exit code", "" if container["exit_code"] is None else str(container["exit_code"])),
        ("  output", container["output"] or ""),
        *((f"  {key}", str(value)) for key, value in status.items()),
        ("  withdrawn", withdrawal_text(container)),
    ]


def _granted_resources(asked: Mapping[str, Any], container: Record) -> str:
    """The resources that a container got, if ranges were requested."""
    got = container.get("runtime_constraints") or {}
    if not any(isinstance(asked.get(name), list) for name in ("vcpus", "ram")):
        return ""
    return f"{got.get('vcpus')} vcpus, {display.size(got.get('ram') or 0)}"


def _amount(value: int | list[int] | None, shown: Callable[[int], str]) -> str:
    """A number, or a range."""
    if isinstance(value, list):
        return f"{shown(value[0])} to {shown(value[1])}"
    return shown(value or 0)


def _gpus(constraints: Mapping[str, Any]) -> str:
    words = gpu_words.described(constraints)
    return f", {words}" if words else ""


def _took(container: Record) -> str:
    return (
        display.duration(run_time(container))
        if container["started_at"] and container["finished_at"]
        else ""
    )


def _mount(mount: Mapping[str, Any]) -> str:
    if mount["kind"] != "collection":
        return str(mount["kind"])
    path = f"/{mount['path']}" if mount.get("path") else ""
    return f"{mount.get('portable_data_hash') or mount.get('uuid')}{path}"
