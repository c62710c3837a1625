"""Decisions about deliveries: after each attempt, and whose turn it is.

    answer       what follows
    DELIVERED    the next event
    FAILED       the same event again, later; after `most_attempts` it is a dead letter
    REFUSED      likewise, after `refused_attempts`: the receiver does not want this event
    GONE         the webhook is paused

* Events of one webhook are sent in their order: an event that is tried again holds up those behind
  it, until it is delivered or a dead letter.
* The delay grows with the failures in a row, of all events of the webhook: while a receiver is
  down, few events become dead letters.
* A webhook without a success for `pause_after` seconds is paused; so is one with `most_dead` dead
  letters. Its events stay in the log.
* No user holds more than a quarter of the places, and webhooks that fail not more than half: a
  receiver that hangs delays no other.

Source: docs/spec/webhooks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from lading.core.quantities import duration, parse_time

# Statuses of answers that may be better later (RFC 9110, 6585, 8470).
_PASSING: Final = frozenset({408, 425, 429})
# Seconds of Retry-After that count.
_MOST_ASKED: Final = 3600.0
_MOST_DOUBLINGS: Final = 30


class Outcome(StrEnum):
    """Outcome of an attempt."""

    DELIVERED = "delivered"
    FAILED = "failed"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of an attempt: `status` of HTTP or 0, `fault` a sentence, `asked` the seconds of
    Retry-After or 0.
    """

    outcome: Outcome
    status: int = 0
    fault: str = ""
    asked: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """Attempts of an event, and seconds between them."""

    most_attempts: int = 10
    refused_attempts: int = 3
    first_delay: float = 5.0
    longest_delay: float = 3600.0
    pause_after: float = 86400.0
    most_dead: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProgress:
    """`attempts` of the event whose turn it is, `failures` in a row of all events, since the time
    `failing_since`, "" for none; `dead`: number of dead letters.
    """

    attempts: int = 0
    failures: int = 0
    failing_since: str = ""
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Step that follows an attempt. `is_settled`: the next event has its turn; `is_dead`: this one
    became a dead letter; `delay`: seconds until the next attempt; `pause`: the reason why the
    webhook is paused, or "".
    """

    progress: DeliveryProgress
    is_settled: bool = False
    is_dead: bool = False
    delay: float = 0.0
    pause: str = ""


def outcome_of(status: int) -> Outcome:
    """The meaning of a status of HTTP."""
    if 200 <= status < 300:
        return Outcome.DELIVERED
    if status == 410:
        return Outcome.GONE
    return Outcome.FAILED if status >= 500 or status in _PASSING else Outcome.REFUSED


def retry_delay(rules: RetryRules, failures: int, asked: float, chance: float) -> float:
    """Seconds before the next attempt after so many failures in a row; `asked`: those of
    Retry-After, `chance`: a random number from 0 to 1.
    """
    doubled: float = rules.first_delay * 2 ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
    full = min(rules.longest_delay, doubled)
    return max(full * (1 - chance / 2), min(max(asked, 0.0), _MOST_ASKED))


def decide(
    progress: DeliveryProgress, answer: Answer, rules: RetryRules, *, now: str, chance: float
) -> Verdict:
    """The consequences of an attempt that ended at the time `now`."""
    if answer.outcome is Outcome.DELIVERED:
        return Verdict(progress=DeliveryProgress(dead=progress.dead), is_settled=True)
    since = progress.failing_since or now
    tried = replace(
        progress,
        attempts=progress.attempts + 1,
        failures=progress.failures + 1,
        failing_since=since,
    )
    if answer.outcome is Outcome.GONE:
        reason = "the receiver answered 410: it wants no events any more"
        return Verdict(progress=replace(tried, attempts=0), pause=reason)
    pause = _pause_of(tried, answer, rules, now)
    is_refused = answer.outcome is Outcome.REFUSED
    if tried.attempts >= (rules.refused_attempts if is_refused else rules.most_attempts):
        dead = tried.dead + 1
        if dead >= rules.most_dead:
            pause = pause or f"{dead} events could not be delivered; the last: {answer.fault}"
        done = replace(tried, attempts=0, dead=dead)
        return Verdict(progress=done, is_settled=True, is_dead=True, pause=pause)
    delay = retry_delay(rules, tried.failures, answer.asked, chance)
    return Verdict(progress=tried, delay=delay, pause=pause)


def decide_again(
    progress: DeliveryProgress, answer: Answer, rules: RetryRules, *, now: str, chance: float
) -> Verdict:
    """The consequences of the one attempt of a dead letter that somebody had sent again. The event
    whose turn it is keeps its attempts; a fault delays it and further letters.
    """
    once = replace(rules, most_attempts=1, refused_attempts=1)
    verdict = decide(replace(progress, attempts=0), answer, once, now=now, chance=chance)
    after = replace(verdict.progress, attempts=progress.attempts)
    delay = retry_delay(rules, after.failures, answer.asked, chance) if after.failures else 0.0
    is_dead = answer.outcome is not Outcome.DELIVERED
    return replace(verdict, progress=after, delay=delay, is_settled=True, is_dead=is_dead)


def _pause_of(progress: DeliveryProgress, answer: Answer, rules: RetryRules, now: str) -> str:
    passed = (parse_time(now) - parse_time(progress.failing_since)).total_seconds()
    if passed < rules.pause_after:
        return ""
    return f"nothing could be delivered for {duration(passed)}; the last fault: {answer.fault}"


@dataclass(frozen=True, slots=True)
class WaitingWebhook:
    """A webhook with something to send: the user whose place it takes, and whether it fails."""

    uuid: str
    user_uuid: str
    is_failing: bool = False


def next_webhooks(
    waiting: Sequence[WaitingWebhook], active: Iterable[WaitingWebhook], most: int
) -> list[WaitingWebhook]:
    """The webhooks whose deliveries begin now. `waiting` has the longest waiting one first,
    `active` has those that are being served, `most` is the number at a time.
    """
    busy = list(active)
    busy_uuids, users = (
        {webhook.uuid for webhook in busy},
        Counter(webhook.user_uuid for webhook in busy),
    )
    failing = sum(webhook.is_failing for webhook in busy)
    free = most - len(busy)
    chosen: list[WaitingWebhook] = []
    for webhook in waiting:
        if len(chosen) >= free:
            break
        of_user, of_failing = max(1, most // 4), max(1, most // 2)
        is_full = users[webhook.user_uuid] >= of_user or (
            webhook.is_failing and failing >= of_failing
        )
        if is_full or webhook.uuid in busy_uuids:
            continue
        chosen.append(webhook)
        busy_uuids.add(webhook.uuid)
        users[webhook.user_uuid] += 1
        failing += webhook.is_failing
    return chosen
