"""The texts that receivers get: the body of a request, and the subject and text of an e-mail.

Names and states of records are texts of strangers: they are cut, kept on one line, and escaped for
Slack. Source: https://docs.slack.dev/messaging/formatting-message-text.
"""

from __future__ import annotations

import json
from typing import Final

from lading.core.records.schema import JSON, Record
from lading.core.runs.run_ends import end_line
from lading.core.webhooks.subscription import WebhookFormat

TEST_EVENT: Final = "test"
"""The type of event of a delivery that somebody asked for to try a webhook."""
_MOST_TEXT: Final = 200
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def body_of(format: WebhookFormat, event: Record) -> tuple[bytes, str]:
    """The body of a request about a CloudEvent, and its content type."""
    if format is WebhookFormat.SLACK:
        text = "".join(_ESCAPES.get(character, character) for character in sentence(event))
        return _encode({"text": text}), "application/json"
    return _encode(event), "application/cloudevents+json"


def mail_of(event: Record) -> tuple[str, str]:
    """The subject and the text of an e-mail about a CloudEvent."""
    facts = (
        ("Event", event["type"]),
        ("Record", event["subject"]),
        ("Time", event["time"]),
        ("Id", event["id"]),
    )
    lines = (f"{name}: {_line(value)}" for name, value in facts)
    return f"[Lading] {sentence(event)}", "\n".join((sentence(event), "", *lines, ""))


def sentence(event: Record) -> str:
    """One line about a CloudEvent: type of the record, name, state, uuid."""
    new = _new_attributes(event)
    name, state = _line(new.get("name") or ""), _line(new.get("state") or "")
    run = _properties(event).get("run")
    if isinstance(run, dict):
        return f'run "{name}" {_line(end_line(run))} ({_line(event["subject"])})'
    kind, _, change = str(event["type"]).removeprefix("lading.").rpartition(".")
    words = [_line(kind.replace("_", " "))]
    words += [f'"{name}"'] if name else []
    words.append(f"is {state}" if state else _line(change))
    return f"{' '.join(words)} ({_line(event['subject'])})"


def _properties(event: Record) -> Record:
    data = event["data"]
    properties = data.get("properties") if isinstance(data, dict) else None
    return properties if isinstance(properties, dict) else {}


def _new_attributes(event: Record) -> Record:
    new = _properties(event).get("new_attributes")
    return new if isinstance(new, dict) else {}


def _line(value: JSON) -> str:
    text = str(value)[:_MOST_TEXT]
    return "".join(character if character.isprintable() else " " for character in text)


def _encode(value: Record) -> bytes:
    # ASCII: a lone surrogate of a name has no bytes in UTF-8.
    return json.dumps(value, separators=(",", ":")).encode()
