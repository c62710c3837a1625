"""Status of a request for people: one of five words, with the reason beside it.

The API has a state for the request (Uncommitted, Committed, Final) and one for its container
(Queued, Locked, Running, Complete, Cancelled). A person asks something else: does it wait, does it
run, is there a result? `_STATUSES` answers that for each pair of states. A container that has ended
answers by its end: Complete with exit code 0 is done, any other exit code has failed. A Cancelled
container has failed if its supervisor or dispatcher gave a failure class, else somebody cancelled
it. A request that was not submitted yet is a draft, which is none of the five.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lading.core.errors import Failure


class RequestStatus(StrEnum):
    """Status of a request or container for people."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRAFT = "draft"


# The API's words, not its types: clients and the page use this table, and do not load the rules of
# requests. The container of a cancelled request may go on for another request.
_STATUSES: Final = {
    ("Uncommitted", None): RequestStatus.DRAFT,
    ("Committed", None): RequestStatus.WAITING,
    ("Committed", "Queued"): RequestStatus.WAITING,
    ("Committed", "Locked"): RequestStatus.WAITING,
    ("Committed", "Running"): RequestStatus.RUNNING,
    ("Final", None): RequestStatus.CANCELLED,
    ("Final", "Queued"): RequestStatus.CANCELLED,
    ("Final", "Locked"): RequestStatus.CANCELLED,
    ("Final", "Running"): RequestStatus.CANCELLED,
}
_API_WORDS: Final = {
    "Complete": RequestStatus.DONE,
    "Uncommitted": RequestStatus.DRAFT,
}


def request_status(
    request_state: str,
    container_state: str | None,
    *,
    exit_code: int | None = None,
    failure: object = None,
) -> RequestStatus:
    """The status of a request; `exit_code` and `failure` (its class) are those of its container."""
    if container_state == "Complete":
        return RequestStatus.FAILED if exit_code else RequestStatus.DONE
    if container_state == "Cancelled":
        return RequestStatus.FAILED if failure else RequestStatus.CANCELLED
    return _STATUSES.get((request_state, container_state), RequestStatus.DRAFT)


def container_status(
    state: str, *, exit_code: int | None = None, failure: object = None
) -> RequestStatus:
    """The status of a container without regard to a request."""
    return request_status("Committed", state, exit_code=exit_code, failure=failure)


def status_reason(
    status: RequestStatus,
    container_state: str | None,
    *,
    priority: int | None = None,
    failure: object = None,
    wait: str = "",
) -> str:
    """The reason of a status in one or two words; "" where the word says all. `priority` is that of
    the request, None if it is not known; `wait` is the server's reason that a request waits.
    """
    if status is RequestStatus.FAILED:
        # The exit code tells of a fault of the command itself.
        return "" if failure == Failure.USER else str(failure or "")
    if status is RequestStatus.CANCELLED:
        return "" if container_state else "never ran"
    if status not in (RequestStatus.WAITING, RequestStatus.RUNNING):
        return ""
    if priority == 0:
        is_held = container_state in ("Locked", "Running")
        return "cancelling" if is_held else "on hold"
    return wait or ("starting" if container_state == "Locked" else "")


def status_text(status: RequestStatus, *, exit_code: int = 0, reason: str = "") -> str:
    """A status with the exit code of a failure and its reason: `failed 137 (oom)`."""
    code = f" {exit_code}" if status is RequestStatus.FAILED and exit_code else ""
    return f"{status}{code}{f' ({reason})' if reason else ''}"


def parse_status(name: str) -> RequestStatus | None:
    """The status with this name, or that of a state of the API; None for any other text."""
    try:
        return _API_WORDS.get(name.capitalize()) or RequestStatus(name.lower())
    except ValueError:
        return None
