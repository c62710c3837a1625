"""Words about webhooks that the command line and the page show alike.

A record of a webhook, and the answers of its actions `deliveries` and `test`, are those of the API
(docs/spec/webhooks).
"""

from __future__ import annotations

import re
from typing import Final

from lading.core.records.schema import Record
from lading.core.webhooks.schedule import Outcome

SHOWN: Final = (
    "uuid",
    "name",
    "url",
    "format",
    "event_types",
    "states",
    "owner_uuid",
    "project_uuid",
    "subscriber_uuid",
    "state",
    "paused_reason",
    "former_secret_until",
    "created_at",
)
"""Attributes of a webhook that people see."""


def events_text(webhook: Record) -> str:
    """The events that a webhook gets."""
    states = f" to {' or '.join(webhook['states'])}" if webhook["states"] else ""
    return f"{' '.join(webhook['event_types'])}{states}"


def receiver_text(url: str) -> str:
    """The address of a receiver without its path and query, which may be secrets."""
    if url.startswith("mailto:"):
        return url
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{host}/{'…' if rest.removeprefix(host).strip('/') else ''}"


def delivery_facts(webhook: Record) -> list[tuple[str, str]]:
    """Names and values of the position of a webhook; a value is "" where there is none."""
    behind = max(0, webhook["last_log_id"] - webhook["log_id"])
    return [
        ("state", webhook["state"]),
        ("reason", webhook["paused_reason"] or ""),
        ("delivered", str(webhook["delivered"])),
        ("last", webhook["delivered_at"] or ""),
        ("behind", f"{behind} log row{'' if behind == 1 else 's'}"),
        ("failures", f"{webhook['failures']} in a row" if webhook["failures"] else ""),
        ("attempts", f"{webhook['attempts']} of the next event" if webhook["attempts"] else ""),
        ("since", webhook["failing_since"] or ""),
        ("next try", webhook["next_at"] or ""),
        ("fault", webhook["fault"]),
    ]


def trouble_text(progress: Record) -> str:
    """Failures in a row and dead letters of a webhook; "" without any."""
    failures, dead = progress["failures"], progress["dead_count"]
    said = [f"{failures} failure{'' if failures == 1 else 's'} in a row"] if failures else []
    said += [f"{dead} dead letter{'' if dead == 1 else 's'}"] if dead else []
    return ", ".join(said)


def letter_text(letter: Record) -> str:
    """The fault of a dead letter, or that it waits to be sent again."""
    return "waits" if letter["is_queued"] else str(letter["fault"])


def attempt_text(attempt: Record) -> str:
    """The end of an attempt to deliver an event: its outcome and the status of the answer."""
    status = f", answered {attempt['status']}" if attempt["status"] else ""
    return f"{attempt['outcome']}{status}"


def queued_text(number: int) -> str:
    """Number of dead letters that were queued."""
    return f"{number} dead letter{' is' if number == 1 else 's are'} sent again"


def test_text(answer: Record) -> str:
    """The end of a test."""
    if answer["outcome"] != Outcome.DELIVERED:
        return f"the test was not delivered: {answer['fault']}"
    return f"delivered, answered {answer['status']}" if answer["status"] else "delivered"
