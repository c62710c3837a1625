"""The configuration of log lines and traces.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Traces of calls and containers, sent to a collector of OpenTelemetry (`lading[otel]`)."""

    Endpoint: str = key(
        "",
        "URL of the collector for OTLP over HTTP, such as http://localhost:4318/v1/traces; empty:"
        " no traces. Supervisors send theirs there too.",
        private=True,
    )
    SampleRatio: float = key(1.0, "Share of the traces that are sent, 0 to 1.", private=True)
    Headers: dict[str, str] = key(
        {}, "Headers of each export, such as Authorization.", private=True
    )
