"""Log lines of all parts but `core`: one line an event, never a token.

As text a line is `time level logger name key=value ...`; as JSON it is one object with the same
values under their keys. Lines about a call have its request id. Values that look like tokens are
replaced before they are written.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TextIO

import msgspec

from lading.core.errors import Invalid

# The uuid of a token may be logged; its secret may not.
_SECRET = re.compile(r"\b(v2/[0-9a-z]{5}-gj3su-[0-9a-z]{15}/)[0-9a-zA-Z]{20,}")
# The request id of the call that the present task works for.
_REQUEST: Final[ContextVar[str]] = ContextVar("lading_request_id", default="")
# Attribute of a log record with the name and the values of an event.
_EVENT: Final = "lading_event"
_NO_VALUES: Final[Mapping[str, object]] = {}
# Keys of a line that no value of an event replaces.
_OWN: Final = frozenset({"time", "level", "logger", "message", "request_id", "pid", "exception"})
_encode = msgspec.json.Encoder(enc_hook=str).encode
_LEVELS: Final = {"debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR"}


class LogFormat(StrEnum):
    """Form of the log lines."""

    TEXT = "text"
    JSON = "json"


def read_level(level: str) -> str:
    """The level that the configuration names. Raises Invalid."""
    if level not in _LEVELS:
        raise Invalid(
            f"configuration: SystemLogs.LogLevel: {level!r}; it must be one of {', '.join(_LEVELS)}"
        )
    return _LEVELS[level]


def read_format(form: str) -> LogFormat:
    """The form of log lines that the configuration names. Raises Invalid."""
    if form not in tuple(LogFormat):
        raise Invalid(
            f"configuration: SystemLogs.Format: {form!r}; it must be one of {', '.join(LogFormat)}"
        )
    return LogFormat(form)


def redact(line: str) -> str:
    """The line with the secret part of every token replaced by `***`."""
    return _SECRET.sub(r"\1***", line)


class Within:
    """A context in which a variable has a value. Entered for each call: a generator would take
    three times as long.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[str], value: str) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def in_request(request_id: str) -> Within:
    """A context in which log lines of this task, and calls of the API that it makes, have this
    request id.
    """
    return Within(_REQUEST, request_id)


def current_request() -> str:
    """The request id of the call that this task works for; "" outside of one."""
    return _REQUEST.get()


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # One line for each record, so that a message cannot forge another.
        line, request_id = super().format(record), current_request()
        if request_id:
            line = f"{line} request_id={request_id}"
        return redact(line).replace("\n", "\\n ")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        name, values = getattr(record, _EVENT, ("", _NO_VALUES))
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": name or record.getMessage(),
            "pid": record.process,
        }
        if request_id := current_request():
            line["request_id"] = request_id
        for key, value in values.items():
            line[f"{key}_" if key in _OWN else key] = _plain(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # After the encoding, so that no value is left out; the replacement needs no escape.
        return redact(_encode(line).decode())


def configure(
    level: str = "INFO", stream: TextIO | None = None, *, format: LogFormat = LogFormat.TEXT
) -> None:
    """Send every log line of this process to `stream` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        _JsonFormatter()
        if format is LogFormat.JSON
        else _LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def event(logger: logging.Logger, name: str, **values: object) -> None:
    """Log one event at INFO: `name key=value ...`."""
    if logger.isEnabledFor(logging.INFO):
        text = " ".join([name, *(f"{key}={_show(value)}" for key, value in values.items())])
        logger.info("%s", text, extra={_EVENT: (name, values)})


def _show(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | None) else str(value)
