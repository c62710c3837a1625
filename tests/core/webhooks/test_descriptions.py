"""Words about webhooks."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.core.webhooks import descriptions

FOUND: Record = {
    "state": "Active", "paused_reason": None, "delivered": 3, "delivered_at": "2026-01-01",
    "log_id": 7, "last_log_id": 9, "attempts": 0, "failures": 0, "failing_since": None,
    "next_at": None, "fault": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/key", "https://hooks.slack.com/…"),
        ("https://a.example:8443/", "https://a.example:8443/"),
        ("http://a.example?token=x", "http://a.example/…"),
        ("http://[::1]:80/x#y", "http://[::1]:80/…"),
        ("mailto:ada@example.org", "mailto:ada@example.org"),
    ],
)
def test_the_path_of_a_receiver_is_not_shown(url: str, shown: str) -> None:
    assert descriptions.receiver_text(url) == shown


def test_events_with_and_without_states() -> None:
    webhook: Record = {"event_types": ["lading.group.*", "x"], "states": []}
    assert descriptions.events_text(webhook) == "lading.group.* x"
    webhook["states"] = ["Final", "Cancelled"]
    assert descriptions.events_text(webhook) == "lading.group.* x to Final or Cancelled"


def test_a_position_in_words() -> None:
    good = dict(descriptions.delivery_facts(FOUND))
    assert (good["delivered"], good["behind"], good["failures"]) == ("3", "2 log rows", "")
    bad = {**FOUND, "failures": 2, "attempts": 1, "fault": "no answer"}
    facts = dict(descriptions.delivery_facts(bad))
    assert facts["failures"] == "2 in a row"
    assert (facts["attempts"], facts["fault"]) == ("1 of the next event", "no answer")


def test_a_dead_letter_waits_or_has_a_fault() -> None:
    letter = {"is_queued": False, "fault": "the receiver answered 400"}
    assert descriptions.letter_text(letter) == "the receiver answered 400"
    assert descriptions.letter_text({**letter, "is_queued": True}) == "waits"


def test_the_end_of_a_test_in_words() -> None:
    good: Record = {"outcome": "delivered", "status": 204, "fault": ""}
    assert descriptions.test_text(good) == "delivered, answered 204"
    assert descriptions.test_text({**good, "status": 0}) == "delivered"
    bad = {"outcome": "failed", "status": 0, "fault": "no answer"}
    assert descriptions.test_text(bad) == "the test was not delivered: no answer"


@pytest.mark.parametrize(
    ("failures", "dead", "said"),
    [(0, 0, ""), (1, 0, "1 failure in a row"), (2, 1, "2 failures in a row, 1 dead letter"),
     (0, 3, "3 dead letters")],
)  # fmt: skip
def test_trouble_in_words(failures: int, dead: int, said: str) -> None:
    assert descriptions.trouble_text({"failures": failures, "dead_count": dead}) == said


def test_an_attempt_in_words() -> None:
    assert descriptions.attempt_text({"outcome": "failed", "status": 503}) == "failed, answered 503"
    assert descriptions.attempt_text({"outcome": "failed", "status": 0}) == "failed"


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1 dead letter is sent again"), (2, "2 dead letters are sent again")]
)
def test_a_number_of_dead_letters(number: int, words: str) -> None:
    assert descriptions.queued_text(number) == words
