"""Filters of requests for lists of runs and of their tasks, and for the numbers of runs by state.

Source: GA4GH Workflow Execution Service 1.1.0, ListRuns, ListTasks, ServiceInfo; docs/wes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lading.core.tes.paging import PageCursor, parse_page_size, read_page_token
from lading.core.tes.states import TaskState
from lading.core.values import Json
from lading.core.wes.mapping import PROPERTY

MAX_PAGE = 999
"""One less than the API gives at once: one more tells whether there is another page."""
RUNS: Json = ["wes runs"]
"""Subject of the tokens of pages of the list of runs."""
IS_RUN: Json = ["properties", "exists", PROPERTY]
_COMMITTED: Json = ["state", "=", "Committed"]
_WANTED: Json = ["priority", ">", 0]
_FINAL: Json = ["state", "=", "Final"]
_ENDED: Json = ["container.state", "=", "Complete"]
COUNTED: Mapping[TaskState, tuple[Json, ...]] = MappingProxyType(
    {
        TaskState.QUEUED: (_COMMITTED, _WANTED, ["container.state", "=", "Queued"]),
        TaskState.INITIALIZING: (_COMMITTED, _WANTED, ["container.state", "=", "Locked"]),
        TaskState.RUNNING: (_COMMITTED, _WANTED, ["container.state", "=", "Running"]),
        TaskState.CANCELING: (_COMMITTED, ["priority", "=", 0]),
        TaskState.COMPLETE: (_FINAL, _ENDED, ["container.exit_code", "=", 0]),
        TaskState.EXECUTOR_ERROR: (_FINAL, _ENDED, ["container.exit_code", "!=", 0]),
        TaskState.CANCELED: (_FINAL, ["priority", "=", 0], ["container.state", "=", "Cancelled"]),
        TaskState.SYSTEM_ERROR: (
            _FINAL, ["priority", ">", 0], ["container.state", "=", "Cancelled"],
        ),
    }
)  # fmt: skip
"""States whose runs service-info counts, each with the filters of its requests."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A checked list: records of a page, and the record that it comes after."""

    size: int
    after: PageCursor | None


def parse_page(pairs: Sequence[tuple[str, str]], about: Json, *, secret: bytes) -> PageQuery:
    """The page that parameters ask for of the list `about`. Raises Malformed."""
    given = dict(pairs)
    size = parse_page_size(given.get("page_size", ""), MAX_PAGE)
    token = given.get("page_token", "")
    return PageQuery(size, read_page_token(token, about, secret=secret) if token else None)


def tasks_of(run: str) -> Json:
    """Subject of the tokens of pages of the tasks of a run."""
    return ["wes tasks", run]
