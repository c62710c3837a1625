"""Types of the log rows that the server writes itself, besides those of decisions about containers
(`core.containers.container.DecisionKind`). Users write rows of other types.

Source: docs/spec/api, section Log rows.
"""

from __future__ import annotations

from enum import StrEnum


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
