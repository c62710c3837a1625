"""States of requests as lists show them, and the attributes that a repeated request takes from the
first one; for the command line and the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from lading.client.outcomes import RequestOutcome
from lading.core.containers.attempts import spot
from lading.core.quantities import MAX_SHOWN, format_time, parse_time, shorten
from lading.core.request_status import (
    RequestStatus,
    container_status,
    request_status,
    status_reason,
    status_text,
)

if TYPE_CHECKING:
    from lading.client.api import ApiClient, Record

# Uuids in one call: a call that fits into the address of a GET.
_BATCH: Final = 200
CANCELLED: Final = "Cancelled"
"""State of a container, and of a request without one that has ended."""
REUSED: Final = ", reused"
"""Text after the state of a request that has the result of an earlier one."""
_COMPLETE = [["state", "=", "Final"], ["container.state", "=", "Complete"]]
_DONE = [*_COMPLETE, ["container.exit_code", "=", 0]]
# A status, or a state of the API -> conditions on the server. Those of VAGUE statuses admit other
# requests, too: a command that cannot be started has failed, although its container is Cancelled,
# a request is also cancelled that never had a container, and one that waits need not have one yet.
CONDITIONS: Final[dict[str, list[Any]]] = {
    RequestStatus.WAITING: [["state", "=", "Committed"]],
    RequestStatus.RUNNING: [["state", "=", "Committed"], ["container.state", "=", "Running"]],
    RequestStatus.DONE: _DONE,
    RequestStatus.FAILED: [["state", "=", "Final"]],
    RequestStatus.CANCELLED: [["state", "=", "Final"]],
    RequestStatus.DRAFT: [["state", "=", "Uncommitted"]],
    "Uncommitted": [["state", "=", "Uncommitted"]],
    "Committed": [["state", "=", "Committed"]],
    "Final": [["state", "=", "Final"]],
    "Queued": [["state", "=", "Committed"], ["container.state", "=", "Queued"]],
    "Locked": [["state", "=", "Committed"], ["container.state", "=", "Locked"]],
    "Complete": _DONE,
}
VAGUE: Final = frozenset({RequestStatus.WAITING, RequestStatus.FAILED, RequestStatus.CANCELLED})
REPEATED: Final = (
    "command",
    "container_image",
    "cwd",
    "environment",
    "mounts",
    "runtime_constraints",
    "scheduling_parameters",
    "output_path",
    "output_glob",
    "strict_output",
    "output_name",
    "output_ttl",
    "output_storage_classes",
    "output_properties",
    "service",
    "published_ports",
    "name",
    "description",
    "properties",
    "owner_uuid",
    "container_count_max",
    "depends_on",
    "match_resources",
    "only_reproduced",
    "parallel_group",
    "max_parallel",
)
"""Attributes that a request has in common with the one that it repeats."""


def state_of(request: Record, container: Record | None) -> str:
    """The relevant state: the container's once there is one."""
    is_final = request["state"] == "Final"
    # The container of a cancelled request may go on for another request.
    if container is None or (is_final and container["state"] not in ("Complete", CANCELLED)):
        return CANCELLED if is_final else str(request["state"])
    return str(container["state"])


def status_of(outcome: RequestOutcome) -> RequestStatus:
    """The status for people."""
    container = outcome.container or {}
    return request_status(
        str(outcome.request["state"]),
        container.get("state"),
        exit_code=container.get("exit_code"),
        failure=(container.get("runtime_status") or {}).get("failure"),
    )


def shown_state(outcome: RequestOutcome, wait: Record | None = None) -> str:
    """The status for people, with the reason beside it: `failed 5`, `failed 137 (oom)`, `waiting
    (on hold)`. A command that could not be run is `failed 127`, one that ran too long `failed 124
    (timeout)`. `wait` is that of `find_waits`.
    """
    status, container = status_of(outcome), outcome.container or {}
    reason = status_reason(
        status,
        container.get("state"),
        priority=outcome.request.get("priority"),
        failure=(container.get("runtime_status") or {}).get("failure"),
        wait=str((wait or {}).get("reason") or ""),
    )
    return status_text(status, exit_code=outcome.exit_code, reason=reason)


def shown_container(container: Mapping[str, Any]) -> str:
    """The status of a container for people, without regard to a request."""
    failure = (container.get("runtime_status") or {}).get("failure")
    code = container.get("exit_code")
    status = container_status(str(container["state"]), exit_code=code, failure=failure)
    reason = status_reason(status, container["state"], failure=failure)
    return status_text(status, exit_code=code or 0, reason=reason)


def seconds_of(outcome: RequestOutcome, now: datetime) -> float | None:
    """Seconds that the command took, or has run until now; None if it has not started."""
    container = outcome.container
    if container is None or not container["started_at"]:
        return None
    end = parse_time(container["finished_at"]) if container["finished_at"] else now
    if not container["finished_at"] and state_of(outcome.request, container) != "Running":
        return None
    return (end - parse_time(container["started_at"])).total_seconds()


def run_time(container: Record) -> float:
    """Seconds between start and end."""
    if not (container["started_at"] and container["finished_at"]):
        return 0.0
    return (
        parse_time(container["finished_at"]) - parse_time(container["started_at"])
    ).total_seconds()


def shown_command(record: Record) -> str:
    """The command of a request as one line, for a list or a title: at most 300 characters, as a
    command may have megabytes.
    """
    return shorten(whole_command(record), MAX_SHOWN)


def whole_command(record: Record) -> str:
    """The command of a request as one line."""
    return " ".join(record["command"] or ()) or "(that of the image)"


def is_reused(request: Record, container: Record) -> bool:
    """Whether the container existed before the request."""
    return parse_time(container["created_at"]) < parse_time(request["created_at"])


def repeated(request: Record, renewed: Mapping[str, str]) -> Record:
    """The attributes of a request that repeats `request`, without its deadline. The requests that
    it needs are replaced by `renewed`: old uuid -> new uuid.
    """
    body = {name: request[name] for name in REPEATED if request.get(name) is not None}
    if spot.deadline(body.get("scheduling_parameters") or {}):
        # A time, which may be over; a number of seconds is counted anew.
        parameters = body["scheduling_parameters"].items()
        body["scheduling_parameters"] = {
            key: parameter for key, parameter in parameters if key != spot.DEADLINE
        }
    body["depends_on"] = [renewed.get(uuid, uuid) for uuid in request.get("depends_on") or ()]
    body["mounts"] = {
        target: {**mount, "container_request": renewed[mount["container_request"]]}
        if mount.get("container_request") in renewed
        else mount
        for target, mount in request["mounts"].items()
    }
    return body


def late_text(outcome: RequestOutcome, now: datetime) -> str:
    """Sentence about a request that has missed its deadline, or is expected to; "" for any other.

    The expected end is that in the record of the container, as if it started now.
    """
    request, container = outcome.request, outcome.container or {}
    deadline = spot.deadline(request.get("scheduling_parameters") or {})
    if not deadline or request["state"] != "Committed":
        return ""
    at = format_time(now)
    finish = spot.expected_finish(
        container.get("scheduling_parameters") or {},
        started_at=container.get("started_at"),
        now=at,
    )
    return spot.late_sentence(finish or at, deadline)


def waits_unseen(request: Record, container: Record | None) -> bool:
    """Whether a request waits for something that its state does not show, such as a quota or its
    turn: it has a priority, and its container has none; or such as the output of another request:
    it has no container yet.
    """
    if request["state"] != "Committed" or not request["priority"]:
        return False
    if container is None:
        return True
    return container["state"] == "Queued" and container.get("priority") == 0


async def find_waits(api: ApiClient, uuids: Sequence[str]) -> dict[str, Record]:
    """Why requests have no priority yet, for example a quota: `reason` and `sentence`, by uuid."""
    waits: dict[str, Record] = {}
    for start in range(0, len(uuids), _BATCH):
        batch = list(uuids[start : start + _BATCH])
        answer: Any = await api.request("GET", "container_requests/waits", params={"uuids": batch})
        waits |= {str(row["uuid"]): row for row in answer["items"]}
    return waits
