"""Bodies and e-mail texts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lading.core.records.cloud_events import cloud_event
from lading.core.records.schema import Record
from lading.core.webhooks.messages import body_of, mail_of, sentence
from lading.core.webhooks.subscription import WebhookFormat


def made(name: str = "align", state: Any = "Final") -> Record:
    return cloud_event(
        uuid="zzzzz-57u5n-000000000000001",
        number=7,
        object_uuid="zzzzz-xvhdp-000000000000001",
        object_owner_uuid="zzzzz-tpzed-000000000000001",
        event_type="update",
        event_at="2026-01-02T03:04:05.000000000Z",
        properties={"new_attributes": {"name": name, "state": state}},
    )


def test_slack_gets_one_escaped_line() -> None:
    body, kind = body_of(WebhookFormat.SLACK, made("<!channel> & \n more"))
    assert kind == "application/json"
    assert json.loads(body) == {
        "text": 'container request "&lt;!channel&gt; &amp;   more" is Final'
        " (zzzzz-xvhdp-000000000000001)"
    }


@given(st.text())
def test_an_email_has_no_further_header(name: str) -> None:
    subject, text = mail_of(made(name))
    assert subject.isprintable()
    assert len(text.splitlines()) == 6


@given(st.text(st.characters(), max_size=20))
def test_any_name_can_be_sent(name: str) -> None:
    body, _ = body_of(WebhookFormat.CLOUDEVENTS, made(name))
    assert json.loads(body)["data"]["properties"]["new_attributes"]["name"] == name


def test_an_event_without_attributes_has_a_sentence() -> None:
    plain = {**made(), "type": "lading.webhook.test", "data": {"properties": {"text": "x"}}}
    assert sentence(plain) == "webhook test (zzzzz-xvhdp-000000000000001)"


def test_the_end_of_a_run_is_a_sentence() -> None:
    counts = {"done": 1, "total": 2, "failed": 1}
    run = {"attempt": 1, "number": 1, "state": "failed", "counts": counts}
    properties = {"new_attributes": {"name": "cohort-7"}, "run": run, "text": "x"}
    ended = {**made(), "type": "lading.group.run_end", "data": {"properties": properties}}
    assert sentence(ended) == (
        'run "cohort-7" attempt 1 failed: 1 of 2 done, 1 failed (zzzzz-xvhdp-000000000000001)'
    )
    forged = {**ended, "data": {"properties": {"run": "x", "text": "x"}}}
    assert sentence(forged) == "group run_end (zzzzz-xvhdp-000000000000001)"
