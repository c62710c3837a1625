"""Types of the log rows that the server writes itself, besides those of decisions about containers
(`core.containers.container.DecisionKind`). Users write rows of other types. Rows of the types in
`RUN_TYPES` tell of a run: readers take them for the word of whoever ran it.

Source: docs/spec/api, section Log rows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lading.core.errors import Forbidden

RUN_TYPES: Final = frozenset(
    {
        "stdout",
        "stderr",
        "crunch-run",
        "crunchstat",
        "hoststat",
        "node-info",
        "arv-mount",
        "keepstore",
        "container",
        "cancel",
    }
)
"""Types of rows that tell of a run: the names of Arvados' log files, and of its end."""


class LogRowType(StrEnum):
    """The `event_type` of such a row."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESOLVE = "resolve"
    """How a request got its container."""
    END = "end"
    """Why a request ended without one."""
    WITHDRAW = "withdraw"
    RESTORE = "restore"
    BUDGET_WARNING = "budget_warning"
    BUDGET_END = "budget_end"
    SECRET_ACCESS = "secret_access"
    SHELL = "shell"
    SHELL_END = "shell_end"
    RUN_END = "run_end"


def check_outsider(event_type: str | None, event_at: str | None) -> None:
    """Check a new row about a record that its writer can read, and neither change nor hold. Raises
    Forbidden.
    """
    if event_type in RUN_TYPES:
        raise Forbidden(
            f"Forbidden: event_type: '{event_type}' rows are written by who holds the container, "
            "and by who may change the record"
        )
    if event_at:
        raise Forbidden(
            "Forbidden: event_at: the server dates rows about records that you may not change; "
            "leave it out"
        )
