"""Log lines of all parts but `core`: one line an event, `key=value`, never a token.

Values that look like tokens are replaced before they are written.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO

# The uuid of a token may be logged; its secret may not.
_SECRET = re.compile(r"\b(v2/[0-9a-z]{5}-gj3su-[0-9a-z]{15}/)[0-9a-zA-Z]{20,}")


def redact(text: str) -> str:
    """The text with the secret part of every token replaced by `***`."""
    return _SECRET.sub(r"\1***", text)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # One line for each record, so that a message cannot forge another.
        return redact(super().format(record)).replace("\n", "\\n ")


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log line of this process to `stream` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def event(logger: logging.Logger, name: str, **values: object) -> None:
    """Log one event at INFO: `name key=value ...`."""
    if logger.isEnabledFor(logging.INFO):
        logger.info(
            "%s", " ".join([name, *(f"{key}={_show(value)}" for key, value in values.items())])
        )


def _show(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text
