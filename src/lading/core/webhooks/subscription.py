"""Subscriptions of webhooks: the events that they get, and the addresses that they may name.

A pattern is the type of a CloudEvent (`records.cloud_events`) in which `*` stands for any text:
`lading.container_request.*`. With `states` only events count that bring a record into one of these
states. Source: docs/spec/webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lading.core.errors import Invalid, Malformed
from lading.core.ids import Infix, is_uuid
from lading.core.records.schema import JSON, Record
from lading.core.tes.locations import Location, LocationScheme, parse_location

MOST_PATTERNS: Final = 20
_PATTERN: Final = re.compile(r"[a-z_.*]{1,100}")
_STATE: Final = re.compile(r"[A-Za-z]{1,40}")
# A part of what RFC 5321 allows: nothing in it can end a header or a command of SMTP.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")
_MAILTO: Final = "mailto:"


class WebhookFormat(StrEnum):
    """The forms in which events are sent."""

    CLOUDEVENTS = "cloudevents"
    SLACK = "slack"
    EMAIL = "email"


class WebhookState(StrEnum):
    """Whether events are sent."""

    ACTIVE = "Active"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The events that a webhook gets: those whose type matches one of `patterns`, with `states`
    only changes to one of these, with `projects` only those of records in all of them.
    """

    patterns: tuple[str, ...]
    states: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def takes(self, event_name: str, properties: Mapping[str, JSON]) -> bool:
        """Whether the webhook wants an event of this type with these properties, in any project."""
        if not any(matches(pattern, event_name) for pattern in self.patterns):
            return False
        return not self.states or _new_state(properties) in self.states

    def has_place(self, places: Collection[str]) -> bool:
        """Whether a record is in the wanted projects; `places` are its uuid and its owners'."""
        return all(project in places for project in self.projects)


def read_subscription(record: Record) -> Subscription:
    """The subscription of a stored webhook. A project's webhook gets its events alone."""
    owner = str(record["owner_uuid"])
    projects = (owner if is_uuid(owner, Infix.GROUP) else "", str(record["project_uuid"] or ""))
    return Subscription(
        patterns=tuple(record["event_types"]),
        states=tuple(record["states"]),
        projects=tuple(dict.fromkeys(project for project in projects if project)),
    )


def matches(pattern: str, value: str) -> bool:
    """Whether a value matches a pattern, in time proportional to both."""
    first, *literals = pattern.split("*")
    if not literals:
        return value == pattern
    if not value.startswith(first) or len(value) < len(first) + len(literals[-1]):
        return False
    at, end = len(first), len(value) - len(literals[-1])
    if not value.endswith(literals[-1]):
        return False
    for literal in literals[:-1]:
        # The first position is right: a later position leaves less for the next literals.
        position = value.find(literal, at, end)
        if position < 0:
            return False
        at = position + len(literal)
    return True


def _new_state(properties: Mapping[str, JSON]) -> object:
    """The state that an event brings; None when it changes none."""
    new, old = properties.get("new_attributes"), properties.get("old_attributes")
    state = new.get("state") if isinstance(new, dict) else None
    before = old.get("state") if isinstance(old, dict) else None
    return state if state != before else None


def check_webhook(record: Record) -> None:
    """Check the attributes of a webhook. Raises Invalid."""
    if record["format"] not in tuple(WebhookFormat):
        raise Invalid(f"format: must be one of {', '.join(WebhookFormat)}")
    _check_texts("event_types", record["event_types"], _PATTERN, "lading.container_request.*")
    if not record["event_types"]:
        raise Invalid("event_types: name at least one, such as lading.container_request.*")
    _check_texts("states", record["states"], _STATE, "Final")
    project = record["project_uuid"]
    if project and not is_uuid(project, Infix.GROUP):
        raise Invalid("project_uuid: must be the uuid of a project, or null")
    if record["format"] == WebhookFormat.EMAIL:
        mail_address(record["url"])
    else:
        web_address(record["url"])


def _check_texts(name: str, entries: Sequence[JSON], form: re.Pattern[str], example: str) -> None:
    if len(entries) > MOST_PATTERNS:
        raise Invalid(f"{name}: has more than {MOST_PATTERNS} entries")
    for entry in entries:
        if not isinstance(entry, str) or form.fullmatch(entry) is None:
            raise Invalid(f"{name}: each entry must be a text such as {example}")


def web_address(url: JSON) -> Location:
    """The address of a receiver by HTTP. Raises Invalid, with a text that does not show it."""
    if not isinstance(url, str):
        raise Invalid("url: give the address of the receiver, as https://HOST/PATH")
    try:
        location = parse_location(url)
    except Malformed as error:
        raise Invalid(f"url: {error.message}") from None
    if location.scheme not in (LocationScheme.HTTP, LocationScheme.HTTPS):
        raise Invalid("url: must begin with https:// or http://")
    if location.user or location.password:
        raise Invalid("url: must have no user and no password; deliveries are signed instead")
    return location


def mail_address(url: JSON) -> str:
    """The address of a receiver by e-mail, `mailto:NAME@HOST`. Raises Invalid."""
    address = url.removeprefix(_MAILTO) if isinstance(url, str) else ""
    if not isinstance(url, str) or not url.startswith(_MAILTO) or not _ADDRESS.fullmatch(address):
        raise Invalid("url: e-mail goes to one address, as mailto:NAME@HOST")
    return address
