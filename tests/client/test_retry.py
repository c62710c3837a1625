from __future__ import annotations

from collections.abc import Sequence

import pytest

from lading.client.retry import NO_RETRY, RETRIED, Outage, Retries, RetryPolicy
from lading.core.errors import LadingError, Unavailable, from_status


class Attempts:
    """Fails with the given errors, then answers; keeps the time that passes while waiting."""

    def __init__(self, errors: Sequence[LadingError]) -> None:
        self._errors = list(errors)
        self.calls = 0
        self.now = 0.0
        self.pauses: list[float] = []

    async def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def retries(self, policy: RetryPolicy) -> Retries:
        return Retries(policy=policy, sleep=self.sleep, chance=lambda: 0.0, clock=lambda: self.now)


async def test_pauses_grow_up_to_the_cap() -> None:
    attempts = Attempts([Unavailable("no")] * 5)
    policy = RetryPolicy(attempts=6, base=1, cap=5)
    assert await attempts.retries(policy).run(attempts) == "answer"
    assert attempts.pauses == [1, 2, 4, 5, 5]


async def test_chance_shortens_a_pause_by_at_most_half() -> None:
    policy = RetryPolicy(base=1)
    assert policy.pause(1, 0.0) == 1
    assert policy.pause(1, 1.0) == 0.5
    assert policy.pause(5000, 0.0) == policy.cap


async def test_the_last_error_is_raised_after_all_attempts() -> None:
    attempts = Attempts([Unavailable("first"), Unavailable("second")])
    with pytest.raises(Unavailable, match="second"):
        await attempts.retries(RetryPolicy(attempts=2)).run(attempts)
    assert attempts.calls == 2


async def test_no_attempt_begins_after_the_time_is_up() -> None:
    attempts = Attempts([Unavailable("no")] * 100)
    with pytest.raises(Unavailable):
        await attempts.retries(RetryPolicy(attempts=100, base=1, cap=1, give_up_after=10)).run(
            attempts
        )
    assert (attempts.calls, attempts.now) == (11, 10)


async def test_no_retry_is_one_attempt() -> None:
    attempts = Attempts([Unavailable("no")])
    with pytest.raises(Unavailable):
        await attempts.retries(NO_RETRY).run(attempts)
    assert attempts.calls == 1


@pytest.mark.parametrize(
    "status", [400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 423, 500, 502, 503, 504, 507]
)
async def test_what_is_tried_again(status: int) -> None:
    attempts = Attempts([from_status(status, "no")])
    policy = RetryPolicy(attempts=2)
    if status in RETRIED:
        assert await attempts.retries(policy).run(attempts) == "answer"
    else:
        with pytest.raises(LadingError):
            await attempts.retries(policy).run(attempts)
    assert attempts.calls == (2 if status in (408, 423, 500, 502, 503, 504) else 1)


def test_an_outage_is_borne_for_a_time() -> None:
    now = 0.0
    outage = Outage(seconds=10, clock=lambda: now)
    assert not outage.end()
    assert outage.bear(Unavailable("no"))
    now = 9.0
    assert not outage.bear(Unavailable("no"))
    assert outage.end()
    assert not outage.end()
    now = 11.0
    assert outage.bear(from_status(502, "no"))
    now = 21.0
    with pytest.raises(LadingError, match="still no"):
        outage.bear(from_status(504, "still no"))


def test_what_does_not_pass_is_no_outage() -> None:
    for status in (401, 404, 422, 507):
        with pytest.raises(LadingError):
            Outage().bear(from_status(status, "no"))


async def test_a_server_that_has_answered_is_waited_for_longer() -> None:
    now, told, pauses = 0.0, list[str](), list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    policy = RetryPolicy(
        attempts=2, base=1.0, later=RetryPolicy(attempts=99, base=1.0, cap=4.0, give_up_after=60.0)
    )
    retries = Retries(
        policy=policy,
        sleep=sleep,
        chance=lambda: 0.0,
        clock=lambda: now,
        tell=lambda error: told.append(error.message),
    )

    async def fail() -> None:
        raise Unavailable("cut")

    async def succeed() -> int:
        return 1

    with pytest.raises(Unavailable):
        await retries.run(fail)
    assert (pauses, told) == ([1.0], [])
    assert await retries.run(succeed) == 1
    with pytest.raises(Unavailable):
        await retries.run(fail)
    assert 55 < now <= 61
    assert told == ["cut"]
