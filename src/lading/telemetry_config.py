"""The configuration of log lines and traces.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.sections import key


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLogs:
    """Log lines of the server, the dispatchers and the supervisors."""

    LogLevel: str = key(
        "info", "Least important lines that are written: debug, info, warn or error.", private=True
    )
    Format: str = key(
        "text", "`text`: `key=value`, for people; `json`: one object a line.", private=True
    )
    LogRequests: str = key(
        "faults",
        "HTTP calls that get a line: `none`, `faults` (status 500 and above), `refused` (400 and"
        " above) or `all`.",
        private=True,
    )
