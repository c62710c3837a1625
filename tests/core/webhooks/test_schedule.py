"""Decisions after attempts, delays, and turns."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.quantities import later
from lading.core.webhooks.schedule import (
    Answer,
    DeliveryProgress,
    Outcome,
    RetryRules,
    WaitingWebhook,
    decide,
    decide_again,
    next_webhooks,
    outcome_of,
    retry_delay,
)

NOW = "2026-01-02T03:04:05.000000000Z"
RULES = RetryRules()
DOWN = Answer(outcome=Outcome.FAILED, fault="no answer")
ANSWERS = st.builds(
    Answer, outcome=st.sampled_from(Outcome), asked=st.floats(0, 1e6), fault=st.just("fault")
)
CHANCES = st.floats(0, 1)


@given(st.lists(st.tuples(ANSWERS, CHANCES, st.floats(0, 4000)), max_size=60))
def test_every_event_is_settled_or_tried_again(
    answers: list[tuple[Answer, float, float]],
) -> None:
    progress, now = DeliveryProgress(), NOW
    for answer, chance, passed in answers:
        verdict = decide(progress, answer, RULES, now=now, chance=chance)
        after = verdict.progress
        good = answer.outcome is Outcome.DELIVERED
        assert verdict.is_settled == (good or verdict.is_dead)
        assert 0 <= after.attempts < RULES.most_attempts
        assert not (verdict.is_settled and (after.attempts or verdict.delay))
        assert (after.failures, after.failing_since) == (0, "") if good else after.failures
        assert after.dead == progress.dead + verdict.is_dead
        assert verdict.delay > 0 or verdict.is_settled or verdict.pause
        assert 0 <= verdict.delay <= RULES.longest_delay
        if verdict.pause:
            return
        progress, now = after, later(now, verdict.delay + passed)


@given(st.integers(1, 10_000), st.floats(0, 1e9), CHANCES)
def test_a_delay_has_bounds(failures: int, asked: float, chance: float) -> None:
    delay = retry_delay(RULES, failures, asked, chance)
    assert RULES.first_delay / 2 <= delay <= RULES.longest_delay
    assert delay >= min(asked, 3600)
    assert retry_delay(RULES, failures + 1, asked, chance) >= delay


def test_an_event_dies_after_its_attempts() -> None:
    progress = DeliveryProgress()
    for attempt in range(1, 11):
        verdict = decide(progress, DOWN, RULES, now=NOW, chance=0)
        assert verdict.is_dead == (attempt == 10)
        progress = verdict.progress
    assert progress == DeliveryProgress(attempts=0, failures=10, failing_since=NOW, dead=1)


def test_a_refused_event_dies_sooner() -> None:
    refused = Answer(outcome=Outcome.REFUSED)
    progress = DeliveryProgress(attempts=2, failures=2, failing_since=NOW)
    assert decide(progress, refused, RULES, now=NOW, chance=0).is_dead


def test_a_webhook_that_fails_for_a_day_is_paused() -> None:
    progress = DeliveryProgress(attempts=1, failures=40, failing_since=NOW)
    verdict = decide(progress, DOWN, RULES, now=later(NOW, 86400), chance=0)
    assert verdict.pause == "nothing could be delivered for 1 d; the last fault: no answer"
    assert not decide(progress, DOWN, RULES, now=later(NOW, 86399), chance=0).pause


def test_too_many_dead_letters_pause() -> None:
    progress = DeliveryProgress(attempts=9, failures=9, failing_since=NOW, dead=999)
    assert "1000 events" in decide(progress, DOWN, RULES, now=NOW, chance=0).pause


def test_gone_pauses_and_keeps_the_event() -> None:
    verdict = decide(DeliveryProgress(), Answer(outcome=Outcome.GONE), RULES, now=NOW, chance=0)
    assert (verdict.is_settled, "410" in verdict.pause) == (False, True)


@given(ANSWERS, st.integers(0, 9), CHANCES)
def test_a_letter_has_one_attempt(answer: Answer, attempts: int, chance: float) -> None:
    before = DeliveryProgress(
        attempts=attempts, failures=attempts, failing_since=NOW if attempts else ""
    )
    verdict = decide_again(before, answer, RULES, now=NOW, chance=chance)
    good = answer.outcome is Outcome.DELIVERED
    assert verdict.is_settled
    assert verdict.is_dead is not good
    assert verdict.progress.attempts == attempts
    assert (verdict.delay == 0) == good


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "delivered"), (204, "delivered"), (301, "refused"), (400, "refused"),
        (401, "refused"), (404, "refused"), (408, "failed"), (410, "gone"), (429, "failed"),
        (500, "failed"), (503, "failed"), (101, "refused"),
    ],
)  # fmt: skip
def test_a_status_has_a_meaning(status: int, outcome: str) -> None:
    assert outcome_of(status) == outcome


WEBHOOKS = st.builds(
    WaitingWebhook,
    uuid=st.integers(0, 30).map(str),
    user_uuid=st.sampled_from("abcd"),
    is_failing=st.booleans(),
)


@given(st.lists(WEBHOOKS, max_size=40), st.integers(0, 16))
def test_no_user_and_no_failing_webhooks_have_all_places(
    waiting: list[WaitingWebhook], most: int
) -> None:
    active = next_webhooks(waiting, [], most)
    more = next_webhooks(waiting, active, most)
    everything = [*active, *more]
    assert not more
    assert len(everything) <= most
    assert len({one.uuid for one in everything}) == len(everything)
    users = Counter(one.user_uuid for one in everything)
    assert all(count <= max(1, most // 4) for count in users.values())
    assert sum(one.is_failing for one in everything) <= max(1, most // 2)


def test_one_that_works_gets_a_place_beside_hanging_ones() -> None:
    hanging = [WaitingWebhook(f"h{n}", f"u{n}", True) for n in range(100)]
    good = WaitingWebhook("good", "ada")
    active = next_webhooks(hanging, [], 32)
    assert len(active) == 16
    assert next_webhooks([*hanging, good], active, 32) == [good]
