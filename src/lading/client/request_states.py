"""States of requests as lists show them, and the attributes that a repeated request takes from the
first one; for the command line and the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from lading.client.outcomes import RequestOutcome
from lading.core.containers import spot
from lading.core.quantities import MAX_SHOWN, format_time, parse_time, shorten

if TYPE_CHECKING:
    from lading.client.api import ApiClient, Record

# Uuids in one call: a call that fits into the address of a GET.
_BATCH: Final = 200
FAILED: Final = "Failed"
CANCELLED: Final = "Cancelled"
REUSED: Final = ", reused"
"""Text after the state of a request that has the result of an earlier one."""
_COMPLETE = [["state", "=", "Final"], ["container.state", "=", "Complete"]]
# A state as the list shows it -> conditions on the server. Failed and Cancelled have several
# conditions: a command that cannot be started has Failed, too, although its container is Cancelled,
# and a request is also Cancelled that never had a container.
CONDITIONS: Final[dict[str, list[Any]]] = {
    "Uncommitted": [["state", "=", "Uncommitted"]],
    "Committed": [["state", "=", "Committed"]],
    "Final": [["state", "=", "Final"]],
    **{
        state: [["state", "=", "Committed"], ["container.state", "=", state]]
        for state in ("Queued", "Locked", "Running")
    },
    "Complete": [*_COMPLETE, ["container.exit_code", "=", 0]],
    FAILED: [["state", "=", "Final"]],
    CANCELLED: [["state", "=", "Final"]],
}
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


def state_of(found: Record, container: Record | None) -> str:
    """The relevant state: the container's once there is one."""
    is_final = found["state"] == "Final"
    # The container of a cancelled request may go on for another request.
    if container is None or (is_final and container["state"] not in ("Complete", CANCELLED)):
        return CANCELLED if is_final else str(found["state"])
    return str(container["state"])


def shown_state(one: RequestOutcome) -> str:
    """The state for people: a command that failed is not shown as Complete, but as `failed 5`; one
    that could not be run as `failed 127`, one that ran too long as `failed 124`.
    """
    state = state_of(one.request, one.container)
    if one.container is None:
        return state
    if state == "Complete":
        code = one.container["exit_code"]
        return f"failed {code}" if code else state
    has_failed = state == CANCELLED and (one.container.get("runtime_status") or {}).get("failure")
    return f"failed {one.exit_code}" if has_failed else state


def is_failed(one: RequestOutcome) -> bool:
    """Whether lists show the request as one that failed."""
    return shown_state(one).startswith("failed")


def seconds_of(one: RequestOutcome, now: datetime) -> float | None:
    """Seconds that the command took, or has run until now; None if it has not started."""
    container = one.container
    if container is None or not container["started_at"]:
        return None
    end = parse_time(container["finished_at"]) if container["finished_at"] else now
    if not container["finished_at"] and state_of(one.request, container) != "Running":
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


def repeated(found: Record, renewed: Mapping[str, str]) -> Record:
    """The attributes of a request that repeats `found`, without its deadline; requests that it
    needs are replaced by those in `renewed`, old uuid -> new one.
    """
    body = {name: found[name] for name in REPEATED if found.get(name) is not None}
    if spot.deadline(body.get("scheduling_parameters") or {}):
        # A time, which may be over; a number of seconds is counted anew.
        kept = body["scheduling_parameters"].items()
        body["scheduling_parameters"] = {key: one for key, one in kept if key != spot.DEADLINE}
    body["depends_on"] = [renewed.get(uuid, uuid) for uuid in found.get("depends_on") or ()]
    body["mounts"] = {
        target: {**one, "container_request": renewed[one["container_request"]]}
        if one.get("container_request") in renewed
        else one
        for target, one in found["mounts"].items()
    }
    return body


def late_text(one: RequestOutcome, now: datetime) -> str:
    """Sentence about a request that has missed its deadline, or is expected to; "" for any other.

    The expected end is that in the record of the container, as if it started now.
    """
    request, container = one.request, one.container or {}
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
    turn: it has a priority, and its container has none.
    """
    if request["state"] != "Committed" or not request["priority"] or container is None:
        return False
    return container["state"] == "Queued" and container.get("priority") == 0


async def find_waits(api: ApiClient, uuids: Sequence[str]) -> dict[str, Record]:
    """Why requests have no priority yet, for example a quota: `reason` and `sentence`, by uuid."""
    found: dict[str, Record] = {}
    for start in range(0, len(uuids), _BATCH):
        part = list(uuids[start : start + _BATCH])
        answer: Any = await api.request("GET", "container_requests/waits", params={"uuids": part})
        found |= {str(one["uuid"]): one for one in answer["items"]}
    return found
