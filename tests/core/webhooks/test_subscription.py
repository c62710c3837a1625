"""Patterns of event types, wanted events, and addresses of receivers."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.records.schema import Record
from lading.core.webhooks.subscription import (
    Subscription,
    check_webhook,
    mail_address,
    matches,
    read_subscription,
    web_address,
)

PROJECT = "zzzzz-j7d0g-000000000000001"
GOOD: Record = {
    "owner_uuid": "zzzzz-tpzed-000000000000001",
    "url": "https://hooks.example.org/a?b=c",
    "format": "cloudevents",
    "event_types": ["lading.container_request.*"],
    "states": [],
    "project_uuid": None,
}


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_matches_as_that_of_a_shell(pattern: str, text: str) -> None:
    assert matches(pattern, text) == fnmatch.fnmatchcase(text, pattern)


def test_a_pattern_of_stars_costs_no_time() -> None:
    began = time.monotonic()
    assert not matches("*a" * 50, "a" * 49 + "b" * 10_000)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        ("Committed", "Final", True),
        (None, "Final", True),
        ("Final", "Final", False),
        ("Uncommitted", "Committed", False),
    ],
)
def test_only_changes_to_a_state_count(old: str | None, new: str, is_taken: bool) -> None:
    wanted = Subscription(patterns=("lading.*",), states=("Final",))
    properties: Record = {"new_attributes": {"state": new}}
    if old:
        properties["old_attributes"] = {"state": old}
    assert wanted.takes("lading.container_request.update", properties) is is_taken


def test_a_record_must_be_in_all_projects() -> None:
    wanted = read_subscription({**GOOD, "owner_uuid": PROJECT, "project_uuid": PROJECT[:-1] + "2"})
    assert wanted.projects == (PROJECT, PROJECT[:-1] + "2")
    assert wanted.has_place([PROJECT[:-1] + "2", PROJECT])
    assert not wanted.has_place([PROJECT])
    assert read_subscription(GOOD).has_place(["anywhere"])


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("url", "ftp://a.example/x", "https://"),
        ("url", "https://user:word@a.example/", "no password"),
        ("url", "https://a.example/\r\nX-Evil: 1", "control character"),
        ("url", "https://a.example:99999/", "host"),
        ("url", "", "no URL"),
        ("url", None, "https://HOST"),
        ("format", "fax", "one of"),
        ("event_types", [], "at least one"),
        ("event_types", ["a\nb"], "each entry"),
        ("event_types", [1], "each entry"),
        ("event_types", ["*"] * 21, "more than 20"),
        ("states", ["Fin al"], "each entry"),
        ("project_uuid", "zzzzz-tpzed-000000000000001", "project_uuid"),
    ],
)
def test_a_fault_is_named(name: str, value: object, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        check_webhook({**GOOD, name: value})


def test_the_good_one_is_good() -> None:
    check_webhook(GOOD)
    check_webhook({**GOOD, "format": "email", "url": "mailto:ada@example.org"})
    assert web_address(GOOD["url"]).query == "?b=c"


@pytest.mark.parametrize(
    "url",
    [
        "mailto:a@b\r\nBcc: c@d",
        "mailto:a@b>c",
        "mailto:<a@b>",
        "mailto:a@b,c@d",
        "mailto:a@b?subject=x",
        "ada@example.org",
        "mailto:" + "a" * 65 + "@b",
        "mailto:a b@c",
        None,
    ],
)
def test_an_address_that_is_more_than_one_is_refused(url: str | None) -> None:
    with pytest.raises(Invalid, match="mailto"):
        mail_address(url)


def test_a_subscription_takes_events_by_pattern_and_by_state() -> None:
    all_states = Subscription(patterns=("lading.group.*", "lading.container.update"))
    final = Subscription(patterns=("lading.container.*",), states=("Complete",))
    update = "lading.container.update"
    assert all_states.takes(update, {})
    assert not all_states.takes("lading.user.create", {})
    assert final.takes(update, {"new_attributes": {"state": "Complete"}})
    assert not final.takes(update, {"new_attributes": {"state": "Running"}})
